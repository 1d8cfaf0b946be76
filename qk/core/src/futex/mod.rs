//! futex(2): which threads wait for which word, in which order they are woken, and what becomes of the words.
//!
//! | file | what |
//! |---|---|
//! | here | the table, waiting for a word and giving up |
//! | `queue` | the waiters for the plain words of a bucket |
//! | `contended` | the waiters for its locks with an owner |
//! | `slots` | the lists of both |
//! | `wake` | WAKE, WAKE_OP, REQUEUE, CMP_REQUEUE |
//! | `many` | futex_waitv |
//! | `pi` | LOCK_PI, TRYLOCK_PI, UNLOCK_PI, and what becomes of a lock whose owner ends |
//! | [`robust`] | the list of locks that a thread leaves behind |
//! | `op` | the operation that WAKE_OP carries |
//!
//! # No wake-up is lost or counted twice
//! A waiter compares the word and enters its bucket under the bucket's lock. A waker has changed the word before and
//! takes the same lock: either the waiter sees the new value, or it is seen. A woken waiter leaves the bucket and its
//! [`Place`] says so, both under the lock; a waiter that gives up takes the lock as well ([`Futexes::cancel`]), so it has
//! either left by itself or been woken, never both.
//!
//! # Bounded sections
//! Nothing here sleeps, and no lock is held for longer than it takes to look at [`SLICE`] waiters: longer work goes on from a
//! cursor, with a preemption point between. (For locks with an owner, it is for as long as it takes to look at the locks of the
//! bucket that are waited for, by however many.) Waiters that come after a wake or a requeue began are not its concern, so it
//! ends. Threads are woken with no lock held.
//!
//! # Locks
//! Only a requeue takes those of two buckets, in the order that docs/concurrency.md has.

mod contended;
mod many;
mod op;
mod pi;
mod queue;
pub mod robust;
mod slots;
#[cfg(test)]
mod tests;
mod wake;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use abi::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;

pub use many::{MAX_MANY, Many, One};
pub use op::WakeOp;
pub use pi::{Locked, Owner, lock, owns};
pub use wake::Requeued;

use contended::Contended;
use queue::{Entry, Kind, Queue};
use slots::NIL;

/// Waiters that are looked at under a bucket's lock before it is released and taken again.
const SLICE: usize = 64;
/// Work of looking at a waiter, in instructions.
const LOOK_WORK: u32 = 10;
/// The bits of a waiter or a wake without a bit set (FUTEX_BITSET_MATCH_ANY of include/uapi/linux/futex.h).
pub const ANY: u32 = u32::MAX;

/// What a futex is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whose memory it is: a rank's, or a shared object's. The two kinds of numbers must not overlap.
    pub space: u64,
    /// Address in the rank, or offset in the object, in bytes.
    pub at: u64,
}

/// The user's 32-bit word. Its memory is there or it is not: nothing here waits for it.
pub trait Word {
    /// What it holds.
    ///
    /// # Errors
    /// EFAULT.
    fn load(&self) -> Result<u32, Errno>;

    /// Replaces `old` by `new`, atomically. Returns what it held.
    ///
    /// # Errors
    /// EFAULT.
    fn compare_exchange(&self, old: u32, new: u32) -> Result<u32, Errno>;
}

/// A thread, as far as it waits. A handle, copied at will.
pub trait Waiter: Copy {
    /// Lets the thread look whether it was woken. Called without a lock; the thread may long have gone on, or ended.
    fn wake(self);

    /// Its thread id: what it writes into locks that it owns.
    fn tid(self) -> u32;

    /// Its place, the same one each time. Only used while the thread waits.
    fn place(&self) -> &Place;
}

/// A kind of lock: the kernel's spin lock, or what a test has instead.
pub trait Locks {
    /// The lock around a `T`.
    type Of<T>;

    /// An unlocked one.
    fn new<T>(value: T) -> Self::Of<T>;

    /// Runs `section` with the lock held.
    fn with<T, R>(lock: &Self::Of<T>, section: impl FnOnce(&mut T) -> R) -> R;
}

/// Where a thread waits; each thread has one. Changed under the lock of the bucket where it waits.
#[derive(Debug)]
pub struct Place {
    at: AtomicU64,
    /// For each of several words: the slot in its bucket, or NIL once it was woken for it. Only used under that bucket's lock.
    many: [AtomicU32; MAX_MANY],
}

impl Default for Place {
    /// Nowhere.
    fn default() -> Place {
        Place {
            at: AtomicU64::new(NOT_QUEUED),
            many: core::array::from_fn(|_| AtomicU32::new(NIL)),
        }
    }
}

/// Value of a [`Place`]: nowhere, since it was woken or has not begun to wait.
const NOT_QUEUED: u64 = 0;
/// Value of a [`Place`]: for several words; [`Many`] says in which buckets.
const MANY: u64 = 1;
/// Any other value of a [`Place`] is `PLAIN | bucket << 32 | slot`, or [`LOCK`] and these.
const PLAIN: u64 = 1 << 63;
/// See [`PLAIN`].
const LOCK: u64 = 1 << 62;

impl Place {
    /// Whether the thread has been woken since it began to wait.
    pub fn is_woken(&self) -> bool {
        self.at.load(Ordering::Acquire) == NOT_QUEUED
    }

    fn set(&self, value: u64) {
        self.at.store(value, Ordering::Release);
    }

    fn set_at(&self, list: u64, bucket: usize, slot: u32) {
        self.set(list | (bucket as u64) << 32 | u64::from(slot));
    }

    /// Another slot of the same bucket.
    fn moves(&self, slot: u32) {
        const SLOT: u64 = u32::MAX as u64;
        self.set(self.at.load(Ordering::Relaxed) & !SLOT | u64::from(slot));
    }

    /// The place's value, and the bucket in it.
    fn bucket(&self) -> Option<(u64, usize)> {
        match self.at.load(Ordering::Acquire) {
            NOT_QUEUED | MANY => None,
            value => Some((value, (value >> 32) as usize & (MAX_BUCKETS - 1))),
        }
    }

    /// Where it waits for one of several words.
    fn one(&self, word: u8) -> u32 {
        self.many[usize::from(word)].load(Ordering::Relaxed)
    }

    fn set_one(&self, word: u8, slot: u32) {
        self.many[usize::from(word)].store(slot, Ordering::Relaxed);
    }
}

/// Buckets of a table, at most.
pub const MAX_BUCKETS: usize = 1 << 16;

/// The waiters for words that hash alike. In a cache line of its own.
#[repr(align(64))]
struct Bucket<L: Locks, W: Waiter>(L::Of<Waiters<W>>);

struct Waiters<W> {
    /// Of words without meaning.
    plain: Queue<W>,
    /// Of locks with an owner (PI).
    locks: Contended<W>,
}

/// All waiters for futexes.
pub struct Futexes<L: Locks, W: Waiter> {
    buckets: Box<[Bucket<L, W>]>,
    seed: u64,
    /// Threads that wait for a lock with an owner, or are about to.
    lock_waiters: AtomicUsize,
}

impl<L: Locks, W: Waiter> Futexes<L, W> {
    /// A table of `buckets` buckets. A `seed` that is hidden from programs keeps them from filling one bucket on purpose.
    ///
    /// # Errors
    /// ENOMEM.
    ///
    /// # Panics
    /// When `buckets` is no power of two, or more than [`MAX_BUCKETS`].
    pub fn new(buckets: usize, seed: u64) -> Result<Self, Errno> {
        assert!(buckets.is_power_of_two() && buckets <= MAX_BUCKETS);
        let mut all = Vec::new();
        all.try_reserve_exact(buckets).map_err(|_| Errno::ENOMEM)?;
        let empty = || Waiters {
            plain: Queue::new(),
            locks: Contended::new(),
        };
        // BOUND: before the first program.
        // BOUND: MAX_BUCKETS, at boot.
        all.extend((0..buckets).map(|_| Bucket(L::new(empty()))));
        Ok(Futexes {
            buckets: all.into(),
            seed,
            lock_waiters: AtomicUsize::new(0),
        })
    }

    /// Waits for `word` to change from `expected` and a wake-up with one of `bits`. The caller is parked until its place
    /// says that it was woken; to give up, it calls [`Futexes::cancel`].
    ///
    /// # Errors
    /// EINVAL: no bits. EAGAIN: the word is another. EFAULT. ENOMEM. Then it does not wait.
    pub fn wait(
        &self,
        key: Key,
        bits: u32,
        word: &impl Word,
        expected: u32,
        waiter: W,
    ) -> Result<(), Errno> {
        if bits == 0 {
            return Err(Errno::EINVAL);
        }
        let bucket = self.bucket_of(key);
        self.with(bucket, |waiters| {
            if word.load()? != expected {
                return Err(Errno::EAGAIN);
            }
            let slot = waiters.plain.push(Entry {
                key,
                bits,
                kind: Kind::One,
                waiter,
            })?;
            waiter.place().set_at(PLAIN, bucket, slot);
            Ok(())
        })
    }

    /// Whether a thread that began to wait has been woken.
    pub fn is_woken(&self, waiter: W) -> bool {
        waiter.place().is_woken()
    }

    /// Gives up waiting for one word or lock, wherever it was requeued to. `false`: it has been woken (or given the lock)
    /// instead, which counts. The word of a lock keeps its FUTEX_WAITERS, as on Linux: unlocking then finds no waiter.
    pub fn cancel(&self, waiter: W) -> bool {
        // A requeue may move it before its bucket is locked.
        // BOUND: again only when it was requeued meanwhile.
        while let Some((_, bucket)) = waiter.place().bucket() {
            let found = self.with(bucket, |waiters| match waiter.place().bucket() {
                Some((value, still)) if still == bucket => {
                    self.take_out(waiters, value);
                    waiter.place().set(NOT_QUEUED);
                    true
                }
                _ => false,
            });
            if found {
                return true;
            }
        }
        false
    }

    fn take_out(&self, waiters: &mut Waiters<W>, value: u64) {
        if value & LOCK == 0 {
            waiters.plain.remove(value as u32);
        } else {
            waiters.locks.remove(value as u32);
            self.lock_waiters.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn bucket_of(&self, key: Key) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(key.at ^ self.seed)
            * u128::from(key.space.wrapping_mul(ODD) ^ self.seed | 1);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded.wrapping_mul(ODD) >> 48) as usize & (self.buckets.len() - 1)
    }

    fn with<R>(&self, bucket: usize, section: impl FnOnce(&mut Waiters<W>) -> R) -> R {
        L::with(&self.buckets[bucket].0, section)
    }
}
