//! The table of waiters, and what a futex is: a word of a program, known by a key.

use abi::Errno;
use hal::addr::User;
use hal::sync::{Mutex, Once, class};
use qk_core::futex::{Futexes, Key, Locks, Place, Waiter, Word};

use crate::thread::Thread;
use crate::user::{is_settled, user};
use crate::{sched, shared};

/// Operations (include/uapi/linux/futex.h).
pub(super) mod op {
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const WAKE_OP: u64 = 5;
    pub const LOCK_PI: u64 = 6;
    pub const UNLOCK_PI: u64 = 7;
    pub const TRYLOCK_PI: u64 = 8;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const LOCK_PI2: u64 = 13;
    pub const PRIVATE: u64 = 128;
    pub const CLOCK_REALTIME: u64 = 256;
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC (include/uapi/linux/time.h).
pub(super) const REALTIME: u64 = 0;
/// See [`REALTIME`].
pub(super) const MONOTONIC: u64 = 1;
/// Buckets for each core: as many threads as there are cores wait in places of their own, mostly.
const BUCKETS_PER_CORE: usize = 64;

/// What reading an entry of a program's list counts at preemption points.
pub(super) const ENTRY_WORK: u32 = 60;

/// The kernel's spin lock.
pub(super) struct SpinLocks;

impl Locks for SpinLocks {
    type Of<T> = Mutex<T, class::Futexes>;

    fn new<T>(value: T) -> Self::Of<T> {
        Mutex::new(value)
    }

    fn with<T, R>(lock: &Self::Of<T>, section: impl FnOnce(&mut T) -> R) -> R {
        section(&mut lock.lock())
    }
}

/// A thread as it waits.
#[derive(Clone, Copy)]
pub(super) struct Sleeper(pub &'static Thread);

impl Waiter for Sleeper {
    fn wake(self) {
        sched::unpark(self.0.task());
    }

    fn tid(self) -> u32 {
        self.0.tid() as u32
    }

    fn place(&self) -> &Place {
        self.0.futex_place()
    }
}

/// A word of the calling program.
#[derive(Clone, Copy)]
pub(super) struct UserWord(pub User);

impl Word for UserWord {
    fn load(&self) -> Result<u32, Errno> {
        hal::user::read_u32(self.0).map_err(|_| Errno::EFAULT)
    }

    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, Errno> {
        hal::user::compare_exchange_u32(self.0, old, new).map_err(|_| Errno::EFAULT)
    }
}

/// Carries out an operation of the table, again for as long as another thread's change of what is mapped was in the way of a word: under a
/// bucket's lock there is no waiting. With EFAULT nothing was done.
///
/// # Errors
/// Those of the operation.
#[inline(always)] // Of every call; mostly there is no fault.
pub(super) fn settled<T>(mut once: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    // POINT: user::is_settled
    loop {
        match once() {
            Err(Errno::EFAULT) if is_settled() => {}
            done => return done,
        }
    }
}

static FUTEXES: Once<Futexes<SpinLocks, Sleeper>> = Once::new();

/// Makes the table.
pub fn init(cpus: usize) {
    let buckets = (cpus * BUCKETS_PER_CORE).next_power_of_two();
    let seed = hal::cpu::rdrand().unwrap_or_else(hal::time::tsc);
    let table = Futexes::new(buckets, seed).expect("the heap has room for futexes");
    assert!(FUTEXES.set(table).is_ok(), "futexes are set up once");
}

pub(super) fn futexes() -> &'static Futexes<SpinLocks, Sleeper> {
    FUTEXES.get().expect("set up at boot")
}

/// The futex at this address.
///
/// # Errors
/// EINVAL when it is not aligned, EFAULT when no program can have memory there.
pub(super) fn word(at: u64) -> Result<UserWord, Errno> {
    if !at.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    user(at, 4).map(UserWord)
}

/// What ranks share goes by the object and the offset in it; all other memory is the rank's own. As on Linux, operations that
/// are private do not meet those that are not, whatever the memory is.
pub(super) fn key(thread: &Thread, at: u64, private: bool) -> Key {
    if !private && let Some(key) = shared::futex_key(thread.rank(), at) {
        return key;
    }
    Key {
        space: (thread.rank().id() as u64) << 1 | u64::from(private),
        at,
    }
}

/// Whether a key speaks of this thread's memory.
pub(super) fn is_own(thread: &Thread, key: Key) -> bool {
    key.space >> 1 == thread.rank().id() as u64
}
