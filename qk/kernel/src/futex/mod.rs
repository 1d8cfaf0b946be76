//! futex(2) and futex_waitv: operations, and waiting; which thread waits for what is decided by [`qk_core::futex`].

mod ends;
mod many;
mod table;
mod wait;

use abi::Errno;
use qk_core::futex::{ANY, Key, Locked, Owner, WakeOp, Word};

use crate::rank::Rank;
use crate::result::{RESTART_ALWAYS, SysResult};
use crate::shared::{self, children};
use crate::thread::Thread;
use crate::user::user;
use crate::{preempt, rank, sched, signal};
use wait::{Ended, Until, absolute, sleep, wait};

pub use ends::thread_ends;
pub use many::wait_many;
pub use table::init;
use table::{ENTRY_WORK, Sleeper, UserWord, futexes, key, op, settled, word};
pub use wait::relative;

/// Carries out futex(2).
///
/// # Errors
/// As futex(2).
pub fn operate(
    thread: &'static Thread,
    [at, operation, value, timeout, at2, value3]: [u64; 6],
) -> SysResult {
    let realtime = operation & op::CLOCK_REALTIME != 0;
    let private = operation & op::PRIVATE != 0;
    let operation = operation as u32 as u64 & !(op::PRIVATE | op::CLOCK_REALTIME);
    if realtime && !matches!(operation, op::WAIT_BITSET | op::LOCK_PI2) {
        return Err(Errno::ENOSYS);
    }
    let bits = value3 as u32;
    let counts = [value, timeout].map(|count| count as i32);
    match operation {
        op::WAIT => {
            let until = relative(thread, timeout)?;
            wait(thread, (at, private), ANY, value as u32, until)
        }
        op::WAIT_BITSET => {
            let until = absolute(timeout, realtime)?;
            wait(thread, (at, private), bits, value as u32, until)
        }
        op::WAKE => wake(thread, at, private, counts[0], ANY),
        op::WAKE_BITSET => wake(thread, at, private, counts[0], bits),
        op::REQUEUE | op::CMP_REQUEUE => {
            let expected = (operation == op::CMP_REQUEUE).then_some(bits);
            requeue(thread, [at, at2], private, counts, expected)
        }
        op::WAKE_OP => wake_op(thread, [at, at2], private, counts, bits),
        op::LOCK_PI => lock(thread, (at, private), absolute(timeout, true)?),
        op::LOCK_PI2 => lock(thread, (at, private), absolute(timeout, realtime)?),
        op::TRYLOCK_PI => try_lock(thread, (at, private)),
        op::UNLOCK_PI => unlock(thread, (at, private)),
        _ => Err(Errno::ENOSYS),
    }
}

/// A futex that is only named: one that processes share has to have memory (Linux: get_futex_key).
fn named(thread: &Thread, at: u64, private: bool) -> Result<Key, Errno> {
    let word = word(at)?;
    if !private {
        settled(|| word.load())?;
    }
    Ok(key(thread, at, private))
}

/// The thread that a lock's word named when it was looked for: one of the rank, or of another if they share memory.
#[derive(Clone, Copy)]
struct Holder {
    tid: u32,
    thread: Option<&'static Thread>,
}

impl Holder {
    /// Named by no word of a lock that is held.
    const NONE: Holder = Holder {
        tid: 0,
        thread: None,
    };

    /// Looks for it, with preemption points.
    fn find(thread: &Thread, tid: u32) -> Holder {
        let is_it = |thread: &&Thread| thread.tid() == u64::from(tid);
        let own = thread.rank();
        // POINT: thread::numbers::each
        let find = |rank: &'static Rank| rank.threads().each().find(is_it);
        let others = || {
            let ranks = rank::all().iter().filter(|rank| rank.is_running());
            // POINT: thread::numbers::each
            ranks.filter(|_| own.memory().maps_objects()).find_map(find)
        };
        Holder {
            tid,
            thread: find(own).or_else(others),
        }
    }

    /// Looks for thread `tid`, once in a call: when yet another has the lock by then, the call begins anew, and others may have the
    /// core before.
    fn find_once(&mut self, thread: &Thread, tid: u32) -> Result<(), Errno> {
        if self.tid != Holder::NONE.tid {
            return Err(thread.interrupted(RESTART_ALWAYS));
        }
        *self = Holder::find(thread, tid);
        Ok(())
    }

    /// What is known of thread `tid` now.
    fn state(self, tid: u32) -> Owner {
        if tid != self.tid {
            return Owner::Unknown;
        }
        match self.thread.filter(|thread| thread.tid() == u64::from(tid)) {
            None => Owner::Gone,
            Some(thread) if thread.program().has_begun_end() => Owner::Ends,
            Some(_) => Owner::Lives,
        }
    }
}

#[inline(always)] // Nearly every wake-up finds no waiter, or one.
fn wake(thread: &'static Thread, at: u64, private: bool, count: i32, bits: u32) -> SysResult {
    let key = named(thread, at, private)?;
    let woken = futexes().wake(key, count, bits, preempt::point)?;
    let wanted = count.max(1) as usize;
    children::wake(thread, key, at, wanted - woken).map(|more| (woken + more) as u64)
}

/// Wakes all threads of the caller's rank that wait for a word.
///
/// # Errors
/// EFAULT.
#[cold]
#[inline(never)]
pub fn wake_all(thread: &'static Thread, at: u64) -> SysResult {
    let key = named(thread, at, true)?;
    futexes().wake(key, i32::MAX, ANY, preempt::point)?;
    Ok(0)
}

/// Waits for such a word while it has a value, at most so long.
///
/// # Errors
/// As futex(2).
#[cold]
#[inline(never)]
pub fn wait_while(thread: &'static Thread, at: u64, value: u32, until: Until) -> SysResult {
    wait(thread, (at, true), ANY, value, until)
}

/// Has all waiters for futexes in shared memory read their words once more.
pub fn wake_shared() {
    futexes().wake_where(shared::is_shared, preempt::point);
}

fn requeue(
    thread: &'static Thread,
    [from, to]: [u64; 2],
    private: bool,
    counts: [i32; 2],
    expected: Option<u32>,
) -> SysResult {
    // BOUND: two.
    if counts.iter().any(|count| *count < 0) {
        return Err(Errno::EINVAL);
    }
    let keys = [named(thread, from, private)?, named(thread, to, private)?];
    let places = [from, to];
    let from = word(from)?;
    let expected = expected.map(|value| (&from as &dyn Word, value));
    let done = settled(|| futexes().requeue(keys, counts, expected, preempt::point))?;
    let left = [
        (counts[0] as usize).saturating_sub(done.woken),
        (counts[1] as usize).saturating_sub(done.moved),
    ];
    let more = children::requeue(thread, keys, places, left)?;
    Ok((done.woken + done.moved + more) as u64)
}

fn wake_op(
    thread: &'static Thread,
    [at, changed_at]: [u64; 2],
    private: bool,
    counts: [i32; 2],
    encoded: u32,
) -> SysResult {
    let key = named(thread, at, private)?;
    let changed_key = named(thread, changed_at, private)?;
    let operation = WakeOp::decode(encoded)?;
    let changed = (changed_key, word(changed_at)?);
    let woken = settled(|| {
        futexes().wake_op(
            key,
            (changed.0, &changed.1),
            operation,
            counts,
            preempt::point,
        )
    })?;
    // As above.
    let more = children::wake(thread, key, at, counts[0].max(1) as usize)?
        + children::wake(thread, changed_key, changed_at, counts[1].max(1) as usize)?;
    Ok((woken + more) as u64)
}

fn lock(thread: &'static Thread, (at, private): (u64, bool), until: Until) -> SysResult {
    let (word, key) = (word(at)?, key(thread, at, private));
    let mut holder = Holder::NONE;
    loop {
        let state = move |tid| holder.state(tid);
        let locked =
            settled(|| futexes().lock_pi(key, &word, Sleeper(thread), state, preempt::point));
        match locked? {
            Locked::Queued => break,
            Locked::Unknown(tid) => holder.find_once(thread, tid)?,
            _ if owns(&word, thread)? => return Ok(0),
            // The owner is about to end, which may take long when its rank ends with it: what it stored is written back before.
            _ if signal::is_wanted(thread) => return Err(thread.interrupted(RESTART_ALWAYS)),
            _ => {
                sched::yield_now(thread.task());
                preempt::take_interrupts();
            }
        }
    }
    match sleep(thread, until.deadline(), || {
        futexes().cancel(Sleeper(thread))
    }) {
        Ended::Woken => Ok(0),
        Ended::Late => Err(Errno::ETIMEDOUT),
        Ended::Interrupted => Err(thread.interrupted(RESTART_ALWAYS)),
    }
}

fn owns(word: &UserWord, thread: &Thread) -> Result<bool, Errno> {
    Ok(qk_core::futex::owns(
        settled(|| word.load())?,
        thread.tid() as u32,
    ))
}

fn try_lock(thread: &'static Thread, (at, private): (u64, bool)) -> SysResult {
    let (word, key) = (word(at)?, key(thread, at, private));
    let mut holder = Holder::NONE;
    loop {
        let state = move |tid| holder.state(tid);
        preempt::point(ENTRY_WORK);
        let locked =
            settled(|| futexes().trylock_pi(key, &word, Sleeper(thread), state, preempt::point));
        match locked? {
            Locked::Acquired => return Ok(0),
            Locked::Unknown(tid) => holder.find_once(thread, tid)?,
            Locked::Busy | Locked::Queued => return Err(Errno::EAGAIN),
        }
    }
}

fn unlock(thread: &'static Thread, (at, private): (u64, bool)) -> SysResult {
    let tid = thread.tid() as u32;
    // Linux checks the owner before it checks the place.
    let place = UserWord(user(at, 4)?);
    if !qk_core::futex::owns(settled(|| place.load())?, tid) {
        return Err(Errno::EPERM);
    }
    let (word, key) = (word(at)?, key(thread, at, private));
    settled(|| futexes().unlock_pi(key, &word, tid, preempt::point)).map(|()| 0)
}
