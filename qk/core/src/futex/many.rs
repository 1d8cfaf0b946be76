//! futex_waitv: waiting for several words at once.

use abi::Errno;
use arrayvec::ArrayVec;

use super::queue::{Entry, Kind};
use super::slots::NIL;
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

/// In which buckets a thread waits for several words; its place says where in them. To be given to [`Futexes::finish`].
#[must_use = "the thread has to leave the buckets again"]
#[derive(Debug)]
pub struct Many {
    entered: ArrayVec<u16, MAX_MANY>,
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
        let mut many = Many {
            entered: ArrayVec::new(),
            woken: None,
        };
        waiter.place().set(MANY);
        for (one, number) in words.zip(0..MAX_MANY as u8) {
            point(WORD_WORK);
            match self.enter(&one, number, waiter) {
                Ok(bucket) => many.entered.push(bucket as u16),
                // A wake-up that was counted is not lost.
                Err(errno) => {
                    many.woken = Some(self.leave(&mut many, waiter, point).ok_or(errno)?);
                    return Ok(many);
                }
            }
        }
        Ok(many)
    }

    /// Enters the bucket of a word. Returns which it is.
    fn enter<T: Word>(&self, one: &One<'_, T>, number: u8, waiter: W) -> Result<usize, Errno> {
        let bucket = self.bucket_of(one.key);
        self.with(bucket, |waiters| {
            if one.word.load()? != one.expected {
                return Err(Errno::EAGAIN);
            }
            let slot = waiters.plain.push(Entry {
                key: one.key,
                bits: ANY,
                kind: Kind::Many(number),
                waiter,
            })?;
            waiter.place().set_one(number, slot);
            Ok(bucket)
        })
    }

    /// Stops waiting for several words. Returns the index of one that the thread was woken for, the last one if there are
    /// more (as Linux does); `None`: it was not woken. `point` is called without a lock.
    pub fn finish(&self, mut many: Many, waiter: W, point: impl FnMut(u32)) -> Option<usize> {
        self.leave(&mut many, waiter, point)
    }

    fn leave(&self, many: &mut Many, waiter: W, mut point: impl FnMut(u32)) -> Option<usize> {
        let mut woken = many.woken;
        for (bucket, number) in many.entered.drain(..).zip(0..) {
            point(WORD_WORK);
            self.with(bucket.into(), |waiters| match waiter.place().one(number) {
                NIL => woken = Some(number.into()),
                slot => waiters.plain.remove(slot),
            });
        }
        waiter.place().set(NOT_QUEUED);
        woken
    }
}
