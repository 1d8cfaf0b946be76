//! Locks with an owner (PTHREAD_PRIO_INHERIT): the word holds the owner's thread id, and flags
//! (include/uapi/linux/futex.h). A release gives the lock to its waiters, in order of arrival. (There are no
//! priorities to inherit.)

use abi::Errno;

use super::wake::RETRY_WORK;
use super::{Futexes, Key, LOCK, Locks, NOT_QUEUED, Ordering, SLICE, Waiter, Waiters, Word, fence};

/// Work of looking through a bucket, in instructions.
const BUCKET_WORK: u32 = 50;
/// The owner's thread id in a lock's word; the rest are flags.
pub(super) const TID_MASK: u32 = 0x3fff_ffff;
/// The lock's owner ended without releasing it.
pub(super) const OWNER_DIED: u32 = 1 << 30;
/// It has waiters: the owner has to release it by futex(2).
pub(super) const WAITERS: u32 = 1 << 31;

/// What is known of the thread that a lock's word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It runs.
    Lives,
    /// It has begun to end, and its locks are not released yet.
    Ends,
    /// There is none, or it has ended and released its locks.
    Gone,
    /// It was not looked for: that may take long, so callers do it before.
    Unknown,
}

/// How an attempt to lock went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// The lock is the caller's.
    Acquired,
    /// The caller waits: once its place says that it was woken, the lock is its own.
    Queued,
    /// The owner is just ending: try again when others have run.
    Busy,
    /// The owner, with this thread id, is [`Owner::Unknown`]: try again when it was looked for.
    Unknown(u32),
}

/// What becomes of a lock's word when thread `tid` is to take it and the word is `old`; `None`: another thread has it.
///
/// # Errors
/// EDEADLK: the thread has it already.
pub const fn lock(old: u32, tid: u32) -> Result<Option<u32>, Errno> {
    match old & TID_MASK {
        0 => Ok(Some(tid | old & OWNER_DIED)),
        owner if owner == tid => Err(Errno::EDEADLK),
        _ => Ok(None),
    }
}

/// Whether thread `tid` may release a lock with this word.
pub const fn owns(word: u32, tid: u32) -> bool {
    word & TID_MASK == tid
}

impl<L: Locks, W: Waiter> Futexes<L, W> {
    /// Takes the lock, or waits for it. `owner` says what is known of the thread with this id; it is called under the
    /// bucket's lock.
    ///
    /// # Errors
    /// EDEADLK: the caller has it. ESRCH: its owner is gone. EINVAL: the lock has waiters but no owner: the word was
    /// overwritten. EFAULT. ENOMEM.
    pub fn lock_pi(
        &self,
        key: Key,
        word: &impl Word,
        waiter: W,
        owner: impl Fn(u32) -> Owner,
        point: impl FnMut(u32),
    ) -> Result<Locked, Errno> {
        // Before its owner is looked at, whose end looks at this after it has begun: see `end_of_owner`.
        self.lock_waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let bucket = self.bucket_of(key);
        let result = self.retry(bucket, point, |waiters| {
            let Some((state, holder)) = acquire(waiters, key, word, waiter.tid(), &owner)? else {
                return Ok(None);
            };
            if state == Locked::Queued {
                let slot = waiters.locks.push(key, holder, waiter)?;
                waiter.place().set_at(LOCK, bucket, slot);
            }
            Ok(Some(state))
        });
        if result != Ok(Locked::Queued) {
            self.lock_waiters.fetch_sub(1, Ordering::Relaxed);
        }
        result
    }

    /// Takes the lock if it is free, as [`Futexes::lock_pi`]. [`Locked::Queued`] is never returned.
    ///
    /// # Errors
    /// EAGAIN: another thread has it. Else as [`Futexes::lock_pi`].
    pub fn trylock_pi(
        &self,
        key: Key,
        word: &impl Word,
        waiter: W,
        owner: impl Fn(u32) -> Owner,
        point: impl FnMut(u32),
    ) -> Result<Locked, Errno> {
        let bucket = self.bucket_of(key);
        self.retry(bucket, point, |waiters| {
            match acquire(waiters, key, word, waiter.tid(), &owner)? {
                Some((Locked::Queued, _)) => Err(Errno::EAGAIN),
                state => Ok(state.map(|(state, _)| state)),
            }
        })
    }

    /// Releases the lock: gives it to the first waiter, if any. FUTEX_WAITERS is set if there are more. (Linux sets it in
    /// any case; then the next release is a system call that finds no waiter.)
    ///
    /// # Errors
    /// EPERM: thread `tid` does not have it. EFAULT.
    pub fn unlock_pi(
        &self,
        key: Key,
        word: &impl Word,
        tid: u32,
        point: impl FnMut(u32),
    ) -> Result<(), Errno> {
        let owned = |word: u32, _: Option<u32>| owns(word, tid);
        self.hand_over(key, word, owned, 0, point)?
            .then_some(())
            .ok_or(Errno::EPERM)
    }

    /// The lock's owner `tid` ends: gives it to the first waiter, marked FUTEX_OWNER_DIED. `false`: it does not have it.
    /// It has it as well when a thread waits for its release, whatever the word has become: C libraries mark what a
    /// thread leaves behind themselves.
    ///
    /// # Errors
    /// EFAULT.
    pub fn owner_died(
        &self,
        key: Key,
        word: &impl Word,
        tid: u32,
        point: impl FnMut(u32),
    ) -> Result<bool, Errno> {
        let owned = |word: u32, awaited: Option<u32>| owns(word, tid) || awaited == Some(tid);
        self.hand_over(key, word, owned, OWNER_DIED, point)
    }

    fn hand_over(
        &self,
        key: Key,
        word: &impl Word,
        owned: impl Fn(u32, Option<u32>) -> bool,
        flags: u32,
        mut point: impl FnMut(u32),
    ) -> Result<bool, Errno> {
        let mut next = None;
        let done = self.retry(self.bucket_of(key), &mut point, |waiters| {
            let old = word.load()?;
            if !owned(old, waiters.locks.owner(key)) {
                return Ok(Some(false));
            }
            let first = waiters.locks.first(key);
            let new = match first {
                Some((waiter, more)) => waiter.tid() | if more { WAITERS } else { 0 },
                None => 0,
            };
            if word.compare_exchange(old, new | flags)? != old {
                return Ok(None);
            }
            if let Some((waiter, _)) = first {
                waiters.locks.pass_on(key, waiter.tid());
                waiter.place().set(NOT_QUEUED);
                self.lock_waiters.fetch_sub(1, Ordering::Relaxed);
                next = Some(waiter);
            }
            Ok(Some(true))
        })?;
        if let Some(waiter) = next {
            waiter.wake();
        }
        Ok(done)
    }

    /// Gives away the locks of thread `tid`, which ends, that others wait for and that [`robust::walk`](super::robust::walk)
    /// did not find. `word` finds the word of a key, if its memory is there. To be called after `owner` of
    /// [`Futexes::lock_pi`] began to return [`Owner::Ends`] for the thread, and before it returns [`Owner::Gone`].
    pub fn release_all<T: Word>(
        &self,
        tid: u32,
        word: impl Fn(Key) -> Option<T>,
        mut point: impl FnMut(u32),
    ) {
        // A thread that enters later sees that this one ends: see `lock_pi`.
        fence(Ordering::SeqCst);
        if self.lock_waiters.load(Ordering::Relaxed) == 0 {
            return;
        }
        for bucket in 0..self.buckets.len() {
            let mut left = 0..self.with(bucket, |waiters| waiters.locks.next_ticket());
            let mut finished = false;
            while !finished {
                let mut found = None;
                finished = self.with(bucket, |waiters| {
                    let locks = waiters.locks.among(left.clone());
                    // BOUND: SLICE.
                    for lock in locks.iter().take(SLICE) {
                        left.start = lock.ticket + 1;
                        let held = |word: &T| {
                            lock.owner == tid || word.load().is_ok_and(|old| owns(old, tid))
                        };
                        found = word(lock.key).filter(held).map(|word| (lock.key, word));
                        if found.is_some() {
                            return false;
                        }
                    }
                    locks.len() <= SLICE
                });
                if let Some((key, word)) = found {
                    // A word whose memory has gone meanwhile is no lock.
                    let _ = self.owner_died(key, &word, tid, &mut point);
                }
                point(BUCKET_WORK);
            }
        }
    }

    /// Calls `section` under the bucket's lock until it returns a value, with preemption points between.
    fn retry<T>(
        &self,
        bucket: usize,
        mut point: impl FnMut(u32),
        mut section: impl FnMut(&mut Waiters<W>) -> Result<Option<T>, Errno>,
    ) -> Result<T, Errno> {
        loop {
            if let Some(value) = self.with(bucket, &mut section)? {
                return Ok(value);
            }
            point(RETRY_WORK);
        }
    }
}

/// Takes the lock for thread `tid`, or makes its owner release it by futex(2) ([`Locked::Queued`]: the
/// caller may enter). With the thread that has it then; its end passes the lock on, whatever the word has become by then.
/// `None`: the word changed meanwhile.
fn acquire<W: Waiter>(
    waiters: &Waiters<W>,
    key: Key,
    word: &impl Word,
    tid: u32,
    owner: &impl Fn(u32) -> Owner,
) -> Result<Option<(Locked, u32)>, Errno> {
    let old = word.load()?;
    if let Some(new) = lock(old, tid)? {
        return match waiters.locks.owner(key) {
            // Its owner ends, and has marked the word itself: the first waiter is about to get it.
            Some(holder) if old & OWNER_DIED != 0 => Ok(Some((Locked::Queued, holder))),
            Some(_) => Err(Errno::EINVAL),
            None => {
                let taken = word.compare_exchange(old, new)? == old;
                Ok(taken.then_some((Locked::Acquired, tid)))
            }
        };
    }
    // Now the owner cannot release it without the bucket's lock, or has left it behind when it ended.
    if old & WAITERS == 0 && word.compare_exchange(old, old | WAITERS)? != old {
        return Ok(None);
    }
    let holder = old & TID_MASK;
    match owner(holder) {
        Owner::Unknown => Ok(Some((Locked::Unknown(holder), holder))),
        Owner::Lives => Ok(Some((Locked::Queued, holder))),
        Owner::Ends => Ok(Some((Locked::Busy, holder))),
        // It has ended since the word was read, and the word says what became of the lock.
        Owner::Gone if word.load()? != old | WAITERS => Ok(None),
        Owner::Gone => Err(Errno::ESRCH),
    }
}
