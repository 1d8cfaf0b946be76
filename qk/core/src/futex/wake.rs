//! Waking waiters, and moving them to another word.

use abi::Errno;
use arrayvec::ArrayVec;

use super::queue::{Cursor, Entry, Fate, Kind};
use super::{Futexes, Key, LOOK_WORK, Locks, PLAIN, SLICE, Waiter, Waiters, WakeOp, Word};

/// Threads that are taken out of a bucket before its lock is released and they are woken.
const BATCH: usize = 16;
/// Threads that are put into another bucket before the locks are released.
const MOVES: usize = 8;
/// Work of waking a thread, in instructions.
const WAKE_WORK: u32 = 300;
/// Work of making a thread wait for another word.
const MOVE_WORK: u32 = 250;
/// Work of a turn that found the word changed.
pub(super) const RETRY_WORK: u32 = 100;

/// What a requeue did. futex(2) returns the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeued {
    /// Threads that it woke.
    pub woken: usize,
    /// Threads that now wait for the other word.
    pub moved: usize,
}

/// Threads that have left their bucket, and are woken once its lock is free.
pub(super) struct Batch<W> {
    waiters: ArrayVec<W, BATCH>,
}

impl<W: Waiter> Batch<W> {
    pub fn new() -> Self {
        Batch {
            waiters: ArrayVec::new(),
        }
    }

    /// Takes in the thread of an entry that leaves its bucket, whose lock is held. Returns whether there is room for more.
    pub fn add(&mut self, entry: &Entry<W>) -> bool {
        entry.leaves();
        self.waiters.push(entry.waiter);
        !self.waiters.is_full()
    }

    /// Wakes them.
    pub fn wake(&mut self, point: &mut impl FnMut(u32)) {
        for waiter in self.waiters.drain(..) {
            waiter.wake();
            point(WAKE_WORK);
        }
    }
}

impl<L: Locks, W: Waiter> Futexes<L, W> {
    /// Wakes at most `count` of the waiters for `key` with one of `bits`, in order of arrival; one when
    /// `count` is zero or less, as Linux does. Returns how many. `point` is called without a lock.
    ///
    /// # Errors
    /// EINVAL: no bits, or a thread waits for `key` as for a lock with an owner.
    pub fn wake(
        &self,
        key: Key,
        count: i32,
        bits: u32,
        mut point: impl FnMut(u32),
    ) -> Result<usize, Errno> {
        if bits == 0 {
            return Err(Errno::EINVAL);
        }
        let wanted = count.max(1) as usize;
        let (mut woken, mut cursor, mut batch) = (0, None, Batch::new());
        loop {
            let finished = self.with(self.bucket_of(key), |waiters| {
                let cursor = begin(&mut cursor, waiters, key)?;
                Ok::<_, Errno>(waiters.plain.slice(cursor, |_, entry| {
                    if entry.key != key || entry.bits & bits == 0 {
                        return (Fate::Stays, true);
                    }
                    woken += 1;
                    (Fate::Leaves, batch.add(&entry) && woken < wanted)
                }))
            })?;
            batch.wake(&mut point);
            if finished || woken == wanted {
                return Ok(woken);
            }
            point(SLICE as u32 * LOOK_WORK);
        }
    }

    /// FUTEX_WAKE_OP: changes `word` (of key `changed`), wakes at most `counts[0]` of the waiters for `key`, and, if what
    /// the word was compares, at most `counts[1]` of the waiters for the word. Returns how many in all.
    ///
    /// # Errors
    /// EFAULT, and as [`Futexes::wake`].
    pub fn wake_op(
        &self,
        key: Key,
        (changed, word): (Key, &impl Word),
        operation: WakeOp,
        counts: [i32; 2],
        mut point: impl FnMut(u32),
    ) -> Result<usize, Errno> {
        let mut old = word.load()?;
        loop {
            let found = word.compare_exchange(old, operation.apply(old))?;
            if found == old {
                break;
            }
            old = found;
            point(RETRY_WORK);
        }
        let mut woken = self.wake(key, counts[0], super::ANY, &mut point)?;
        if operation.compares(old) {
            woken += self.wake(changed, counts[1], super::ANY, point)?;
        }
        Ok(woken)
    }

    /// Wakes at most `counts[0]` of the waiters for `from`, and makes at most `counts[1]` more wait for `to`. With
    /// `expected`: if `from`'s word is that. A thread that waits for several words is woken instead of moved, which it has
    /// to expect: it looks at the words again.
    ///
    /// # Errors
    /// EINVAL: a negative count, or a thread waits for `from` as for a lock with an owner. EAGAIN: the word is another.
    /// EFAULT. ENOMEM: none could be moved for lack of memory.
    pub fn requeue(
        &self,
        [from, to]: [Key; 2],
        counts: [i32; 2],
        expected: Option<(&dyn Word, u32)>,
        mut point: impl FnMut(u32),
    ) -> Result<Requeued, Errno> {
        let [Ok(wake), Ok(moves)] = counts.map(usize::try_from) else {
            return Err(Errno::EINVAL);
        };
        let mut work = Requeue {
            keys: [from, to],
            left: [wake, moves],
            target: self.bucket_of(to),
            cursor: None,
            batch: Batch::new(),
            done: Requeued::default(),
        };
        loop {
            let (first, moved_before) = (work.cursor.is_none(), work.done.moved);
            let finished = self.with_two(self.bucket_of(from), work.target, |source, target| {
                if let Some((word, expected)) = expected.filter(|_| first)
                    && word.load()? != expected
                {
                    return Err(Errno::EAGAIN);
                }
                work.slice(source, target)
            });
            work.batch.wake(&mut point);
            match finished {
                Err(errno) if work.done == Requeued::default() => return Err(errno),
                Ok(false) => {
                    let moved = (work.done.moved - moved_before) as u32;
                    point(SLICE as u32 * LOOK_WORK + moved * MOVE_WORK);
                }
                _ => return Ok(work.done),
            }
        }
    }

    /// Wakes all waiters for plain words with keys like these: they read their words once more.
    pub fn wake_where(&self, of: impl Fn(Key) -> bool, mut point: impl FnMut(u32)) {
        for bucket in 0..self.buckets.len() {
            let (mut cursor, mut batch) = (None, Batch::new());
            loop {
                let finished = self.with(bucket, |waiters| {
                    let cursor = cursor.get_or_insert_with(|| waiters.plain.walk());
                    waiters.plain.slice(cursor, |_, entry| {
                        if !of(entry.key) {
                            return (Fate::Stays, true);
                        }
                        (Fate::Leaves, batch.add(&entry))
                    })
                });
                batch.wake(&mut point);
                point(SLICE as u32 * LOOK_WORK);
                if finished {
                    break;
                }
            }
        }
    }

    /// Runs `section` under the locks of two buckets, the smaller one's first; the second is `None` if it is the first.
    fn with_two<R>(
        &self,
        one: usize,
        other: usize,
        section: impl FnOnce(&mut Waiters<W>, Option<&mut Waiters<W>>) -> R,
    ) -> R {
        use core::cmp::Ordering::{Equal, Greater, Less};
        match one.cmp(&other) {
            Equal => self.with(one, |a| section(a, None)),
            Less => self.with(one, |a| self.with(other, |b| section(a, Some(b)))),
            Greater => self.with(other, |b| self.with(one, |a| section(a, Some(b)))),
        }
    }
}

/// The cursor of a walk over the waiters for plain words, where it is the first slice: from the start.
fn begin<'a, W: Waiter>(
    cursor: &'a mut Option<Cursor>,
    waiters: &Waiters<W>,
    key: Key,
) -> Result<&'a mut Cursor, Errno> {
    if cursor.is_none() && waiters.locks.owner(key).is_some() {
        return Err(Errno::EINVAL);
    }
    Ok(cursor.get_or_insert_with(|| waiters.plain.walk()))
}

/// A requeue that has come so far.
struct Requeue<W> {
    keys: [Key; 2],
    /// Threads still to be woken, to be moved.
    left: [usize; 2],
    /// The bucket of the second key.
    target: usize,
    cursor: Option<Cursor>,
    batch: Batch<W>,
    done: Requeued,
}

impl<W: Waiter> Requeue<W> {
    /// Goes on for a slice. Returns whether there is nothing left to do.
    fn slice(
        &mut self,
        source: &mut Waiters<W>,
        mut target: Option<&mut Waiters<W>>,
    ) -> Result<bool, Errno> {
        let mut cursor = *begin(&mut self.cursor, source, self.keys[0])?;
        let (mut failed, mut moves) = (None, 0);
        let ended = self.left == [0, 0]
            || source.plain.slice(&mut cursor, |queue, entry| {
                if entry.key != self.keys[0] {
                    return (Fate::Stays, true);
                }
                if self.left[0] > 0 {
                    self.left[0] -= 1;
                } else {
                    self.left[1] -= 1;
                    if self.keys[0] == self.keys[1] {
                        self.done.moved += 1;
                        return (Fate::Stays, self.left != [0, 0]);
                    }
                    if entry.kind == Kind::One {
                        let moved = Entry {
                            key: self.keys[1],
                            ..entry
                        };
                        let to = target
                            .as_deref_mut()
                            .map_or(&mut *queue, |target| &mut target.plain);
                        match to.push(moved) {
                            Ok(slot) => entry.waiter.place().set_at(PLAIN, self.target, slot),
                            Err(errno) => {
                                failed = Some(errno);
                                return (Fate::Stays, false);
                            }
                        }
                        self.done.moved += 1;
                        moves += 1;
                        return (Fate::Leaves, moves < MOVES && self.left != [0, 0]);
                    }
                }
                self.done.woken += 1;
                let more = self.batch.add(&entry) && self.left != [0, 0];
                (Fate::Leaves, more)
            });
        self.cursor = Some(cursor);
        match failed {
            Some(errno) => Err(errno),
            None => Ok(ended || self.left == [0, 0]),
        }
    }
}
