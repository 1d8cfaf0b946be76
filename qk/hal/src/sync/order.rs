//! What is held, and whether a further lock may be taken: its class comes after those of all.

use super::class::Rank;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Locks that one context may hold at a time.
const MAX_HELD: usize = 12;
/// Of a word: below is the lock's address, of whose upper bits all are the same; above is its class.
const CLASS_SHIFT: u32 = 56;

/// The locks that a CPU or a context holds, in the order of their taking. Used by one CPU at a time, with interrupts off.
pub(crate) struct Held {
    locks: [AtomicU64; MAX_HELD],
    count: AtomicUsize,
}

/// Why a lock may not be taken: the class of one that is held. Or too many are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Under(pub Rank);

impl Held {
    /// None.
    pub(crate) const fn new() -> Held {
        Held {
            locks: [const { AtomicU64::new(0) }; MAX_HELD],
            count: AtomicUsize::new(0),
        }
    }

    /// Their words.
    fn words(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
        let count = self.count.load(Relaxed);
        self.locks[..count].iter().map(|lock| lock.load(Relaxed))
    }

    /// Whether a lock may be taken.
    ///
    /// # Errors
    /// One is held under which it may not be taken.
    pub(crate) fn may_take(&self, class: Rank, address: usize) -> Result<(), Under> {
        let new = word(class, address);
        let may_be_under = |held: &u64| {
            let rank = rank(*held);
            rank < class as u64 || rank == class as u64 && class.is_array() && *held < new
        };
        // BOUND: MAX_HELD.
        match self.words().find(|held| !may_be_under(held)) {
            Some(held) => Err(Under(Rank::ALL[rank(held) as usize])),
            None => Ok(()),
        }
    }

    /// Records a lock that is about to be taken.
    ///
    /// # Errors
    /// One is held under which it may not be taken, or too many are.
    pub(crate) fn take(&self, class: Rank, address: usize) -> Result<(), Under> {
        self.may_take(class, address)?;
        let count = self.count.load(Relaxed);
        let Some(free) = self.locks.get(count) else {
            return Err(Under(class));
        };
        free.store(word(class, address), Relaxed);
        self.count.store(count + 1, Relaxed);
        Ok(())
    }

    /// Forgets a lock; in any order. One that a panic takes from its holder is not known here.
    pub(crate) fn release(&self, class: Rank, address: usize) {
        let released = word(class, address);
        // BOUND: MAX_HELD.
        if let Some(at) = self.words().rposition(|held| held == released) {
            let count = self.count.load(Relaxed);
            // BOUND: MAX_HELD.
            for at in at + 1..count {
                self.locks[at - 1].store(self.locks[at].load(Relaxed), Relaxed);
            }
            self.count.store(count - 1, Relaxed);
        }
    }

    /// The class of a spin lock that is held: there is no waiting under one.
    pub(crate) fn spin(&self) -> Option<Rank> {
        let mut ranks = self.words().map(|held| Rank::ALL[rank(held) as usize]);
        // BOUND: MAX_HELD.
        ranks.find(|rank| rank.is_spin())
    }

    /// Holds what `other` held, from now on.
    pub(crate) fn copy(&self, other: &Held) {
        // BOUND: MAX_HELD.
        for (to, from) in self.locks.iter().zip(other.words()) {
            to.store(from, Relaxed);
        }
        self.count.store(other.count.load(Relaxed), Relaxed);
    }
}

fn word(class: Rank, address: usize) -> u64 {
    (class as u64) << CLASS_SHIFT | address as u64 & ((1 << CLASS_SHIFT) - 1)
}

fn rank(word: u64) -> u64 {
    word >> CLASS_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEP: Rank = Rank::Aspace;
    const SPIN: Rank = Rank::RankSignals;
    const LATER: Rank = Rank::ThreadSignals;

    #[test]
    fn locks_are_taken_in_the_order_of_their_classes() {
        let held = Held::new();
        assert_eq!(held.take(SLEEP, 0x30), Ok(()));
        assert_eq!(held.take(LATER, 0x20), Ok(()));
        assert_eq!(held.take(SPIN, 0x10), Err(Under(LATER)));
        held.release(LATER, 0x20);
        assert_eq!(held.take(SPIN, 0x10), Ok(()));
        assert_eq!(held.take(LATER, 0x20), Ok(()));
    }

    /// Guards are dropped in any order.
    #[test]
    fn a_lock_released_early_is_not_held() {
        let held = Held::new();
        held.take(SLEEP, 0x10).expect("first");
        held.take(SPIN, 0x20).expect("second");
        held.release(SLEEP, 0x10);
        assert_eq!(held.take(SLEEP, 0x10), Err(Under(SPIN)));
        held.release(SPIN, 0x20);
        assert_eq!(held.take(SLEEP, 0x10), Ok(()));
    }

    /// Two threads' signals, or two ranks' address spaces, would each wait for the other's holder some day.
    #[test]
    fn of_a_class_one_is_held_or_several_of_an_array_in_its_order() {
        let held = Held::new();
        held.take(SPIN, 0x10).expect("first");
        assert_eq!(held.take(SPIN, 0x20), Err(Under(SPIN)));
        held.release(SPIN, 0x10);
        let kernel = usize::MAX - 0xfff;
        held.take(Rank::Futexes, kernel + 8).expect("first");
        assert_eq!(held.take(Rank::Futexes, kernel), Err(Under(Rank::Futexes)));
        assert_eq!(
            held.take(Rank::Futexes, kernel + 8),
            Err(Under(Rank::Futexes))
        );
        assert_eq!(held.take(Rank::Futexes, kernel + 16), Ok(()));
    }

    #[test]
    fn who_waits_holds_sleep_locks_only_and_keeps_them() {
        let (cpu, context) = (Held::new(), Held::new());
        cpu.take(SLEEP, 0x10).expect("first");
        assert_eq!(cpu.spin(), None);
        context.copy(&cpu);
        cpu.copy(&Held::new());
        assert_eq!(cpu.take(SLEEP, 0x10), Ok(()));
        assert_eq!(context.take(SLEEP, 0x20), Err(Under(SLEEP)));
        assert_eq!(context.take(SPIN, 0x20), Ok(()));
        assert_eq!(context.spin(), Some(SPIN));
    }

    #[test]
    fn more_than_there_is_room_for_is_an_error() {
        let held = Held::new();
        for number in 0..MAX_HELD {
            held.take(Rank::Futexes, number).expect("there is room");
        }
        assert_eq!(held.take(Rank::Console, 0), Err(Under(Rank::Console)));
    }
}
