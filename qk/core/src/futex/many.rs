//! futex_waitv: waiting for several words at once.

use abi::Errno;
use alloc::vec::Vec;

use super::queue::{Entry, Kind};
use super::slots::Position;
use super::{ANY, Futexes, Key, Locks, MANY, NOT_QUEUED, Waiter, Word};

/// Words that a thread can wait for at once (FUTEX_WAITV_MAX of include/uapi/linux/futex.h).
pub const MAX_MANY: usize = 128;

/// What entering one bucket, or leaving it, counts at preemption points.
const WORD_WORK: u32 = 200;

/// One of the words.
#[derive(Clone, Copy, Debug)]
pub struct One<'a, T> {
    /// What it is told apart by.
    pub key: Key,
    /// The word.
    pub word: &'a T,
    /// What it has to be.
    pub expected: u32,
}

/// Where a thread waits for several words. To be given to [`Futexes::finish`].
#[must_use = "the thread has to leave the buckets again"]
#[derive(Debug)]
pub struct Many {
    entered: Vec<(usize, Position)>,
    /// It was woken before it had entered all buckets.
    woken: Option<usize>,
}

impl<L: Locks, W: Waiter> Futexes<L, W> {
    /// Waits for any of the words to change. The caller is parked until its place says that it was woken, or gives up; then
    /// it calls [`Futexes::finish`]. `point` is called without a lock.
    ///
    /// # Errors
    /// EINVAL: no word, or too many. EAGAIN: a word is another. EFAULT. ENOMEM. Then it does not wait.
    pub fn wait_many<'a, T: Word + 'a>(
        &self,
        words: impl ExactSizeIterator<Item = One<'a, T>>,
        waiter: W,
        mut point: impl FnMut(u32),
    ) -> Result<Many, Errno> {
        if !(1..=MAX_MANY).contains(&words.len()) {
            return Err(Errno::EINVAL);
        }
        let mut entered = Vec::new();
        entered
            .try_reserve_exact(words.len())
            .map_err(|_| Errno::ENOMEM)?;
        let mut many = Many {
            entered,
            woken: None,
        };
        waiter.place().set(MANY);
        for one in words {
            point(WORD_WORK);
            match self.enter(&one, waiter) {
                Ok(at) => many.entered.push(at),
                // A wake-up that was counted is not lost.
                Err(errno) => {
                    many.woken = Some(self.leave(&mut many, waiter, point).ok_or(errno)?);
                    return Ok(many);
                }
            }
        }
        Ok(many)
    }

    fn enter<T: Word>(&self, one: &One<'_, T>, waiter: W) -> Result<(usize, Position), Errno> {
        let bucket = self.bucket_of(one.key);
        self.with(bucket, |waiters| {
            if one.word.load()? != one.expected {
                return Err(Errno::EAGAIN);
            }
            let position = waiters.plain.push(Entry {
                key: one.key,
                bits: ANY,
                kind: Kind::Many,
                waiter,
            })?;
            Ok((bucket, position))
        })
    }

    /// Stops waiting for several words. Returns the index of one that the thread was woken for, the last one if there are
    /// more (as Linux does); `None`: it was not woken. `point` is called without a lock.
    pub fn finish(&self, mut many: Many, waiter: W, point: impl FnMut(u32)) -> Option<usize> {
        self.leave(&mut many, waiter, point)
    }

    fn leave(&self, many: &mut Many, waiter: W, mut point: impl FnMut(u32)) -> Option<usize> {
        let mut woken = many.woken;
        for (index, (bucket, position)) in many.entered.drain(..).enumerate() {
            point(WORD_WORK);
            if !self.with(bucket, |waiters| waiters.plain.remove_at(position)) {
                woken = Some(index);
            }
        }
        waiter.place().set(NOT_QUEUED);
        woken
    }
}
