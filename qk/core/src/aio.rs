//! Contexts of kernel AIO (io_setup(2)): what was done and has not been got yet.
//!
//! A context is known by an address, as on Linux. All that is in one was done when it was submitted; so it only holds results.

use abi::Errno;
use alloc::collections::VecDeque;

/// struct io_event (uapi/linux/aio_abi.h): data, obj, res, res2.
pub type Event = [u64; 4];

/// Contexts of a rank.
const MAX_CONTEXTS: usize = 32;
/// Results that all of them hold at most (on Linux fs.aio-max-nr, of all processes).
const MAX_EVENTS: usize = 1024;

/// A context.
#[derive(Debug)]
pub struct Context {
    at: u64,
    /// Results that it holds at most, and room that requests under way will take.
    room: usize,
    under_way: usize,
    done: VecDeque<Event>,
    /// Results so far.
    count: u32,
}

impl Context {
    /// One at this address with room for so many results.
    ///
    /// # Errors
    /// EAGAIN: more than a rank may have. ENOMEM.
    pub fn new(at: u64, room: usize) -> Result<Context, Errno> {
        if room > MAX_EVENTS {
            return Err(Errno::EAGAIN);
        }
        let mut done = VecDeque::new();
        done.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
        Ok(Context {
            at,
            room,
            under_way: 0,
            done,
            count: 0,
        })
    }
}

/// A rank's.
#[derive(Debug, Default)]
pub struct Contexts([Option<Context>; MAX_CONTEXTS]);

impl Contexts {
    fn each(&mut self) -> impl Iterator<Item = &mut Context> {
        self.0.iter_mut().flatten()
    }

    fn of(&mut self, at: u64) -> Result<&mut Context, Errno> {
        // BOUND: MAX_CONTEXTS.
        self.each()
            .find(|context| context.at == at)
            .ok_or(Errno::EINVAL)
    }

    /// Adds one.
    ///
    /// # Errors
    /// EAGAIN: there are as many as may be, or they hold as much.
    pub fn add(&mut self, context: Context) -> Result<(), Errno> {
        // BOUND: MAX_CONTEXTS.
        let held: usize = self.each().map(|context| context.room).sum();
        // BOUND: MAX_CONTEXTS.
        let free = self.0.iter_mut().find(|place| place.is_none());
        match free {
            Some(place) if held + context.room <= MAX_EVENTS => {
                *place = Some(context);
                Ok(())
            }
            _ => Err(Errno::EAGAIN),
        }
    }

    /// Takes one out.
    ///
    /// # Errors
    /// EINVAL: there is none.
    pub fn remove(&mut self, at: u64) -> Result<Context, Errno> {
        let is_it = |place: &&mut Option<Context>| place.as_ref().is_some_and(|c| c.at == at);
        // BOUND: MAX_CONTEXTS.
        let place = self.0.iter_mut().find(is_it);
        place.and_then(Option::take).ok_or(Errno::EINVAL)
    }

    /// Takes all out.
    pub fn take_all(&mut self) -> Contexts {
        core::mem::take(self)
    }

    /// Whether there is one.
    ///
    /// # Errors
    /// EINVAL: there is none.
    pub fn check(&mut self, at: u64) -> Result<(), Errno> {
        self.of(at).map(|_| ())
    }

    /// A request begins.
    ///
    /// # Errors
    /// EINVAL: no context. EAGAIN: it has no room for the result.
    pub fn begin(&mut self, at: u64) -> Result<(), Errno> {
        let context = self.of(at)?;
        if context.done.len() + context.under_way >= context.room {
            return Err(Errno::EAGAIN);
        }
        context.under_way += 1;
        Ok(())
    }

    /// A request that has begun is refused.
    pub fn refuse(&mut self, at: u64) {
        if let Ok(context) = self.of(at) {
            context.under_way = context.under_way.saturating_sub(1);
        }
    }

    /// A request that has begun is done. Returns how many are, of a context that is still there.
    pub fn end(&mut self, at: u64, event: Event) -> Option<u32> {
        self.refuse(at);
        let context = self.of(at).ok()?;
        if context.done.len() < context.room {
            context.done.push_back(event);
        }
        context.count = context.count.wrapping_add(1);
        Some(context.count)
    }

    /// The next result.
    ///
    /// # Errors
    /// EINVAL: no context.
    pub fn next(&mut self, at: u64) -> Result<Option<Event>, Errno> {
        self.of(at).map(|context| context.done.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_got_in_their_order_and_once() {
        let mut contexts = Contexts::default();
        assert_eq!(contexts.begin(8), Err(Errno::EINVAL));
        contexts.add(Context::new(8, 2).unwrap()).unwrap();
        assert_eq!(contexts.next(8), Ok(None));
        contexts.begin(8).unwrap();
        contexts.begin(8).unwrap();
        assert_eq!(contexts.begin(8), Err(Errno::EAGAIN));
        assert_eq!(contexts.end(8, [1; 4]), Some(1));
        contexts.refuse(8);
        contexts.begin(8).unwrap();
        assert_eq!(contexts.end(8, [2; 4]), Some(2));
        assert_eq!(contexts.begin(8), Err(Errno::EAGAIN));
        assert_eq!(
            (contexts.next(8), contexts.next(8)),
            (Ok(Some([1; 4])), Ok(Some([2; 4])))
        );
        assert_eq!(
            (contexts.next(8), contexts.next(9)),
            (Ok(None), Err(Errno::EINVAL))
        );
    }

    #[test]
    fn a_rank_has_so_many() {
        let mut contexts = Contexts::default();
        assert_eq!(Context::new(1, MAX_EVENTS + 1).err(), Some(Errno::EAGAIN));
        contexts.add(Context::new(1, MAX_EVENTS).unwrap()).unwrap();
        let one = || Context::new(2, 1).unwrap();
        assert_eq!(contexts.add(one()), Err(Errno::EAGAIN));
        contexts.remove(1).unwrap();
        assert_eq!(contexts.remove(1).err(), Some(Errno::EINVAL));
        for _ in 0..MAX_CONTEXTS {
            contexts.add(one()).unwrap();
        }
        assert_eq!(contexts.add(one()), Err(Errno::EAGAIN));
        contexts.take_all();
        assert_eq!(contexts.check(2), Err(Errno::EINVAL));
        // One that is gone when its request is done.
        assert_eq!(contexts.end(2, [0; 4]), None);
    }
}
