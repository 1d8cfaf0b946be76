//! Locks with an owner, and the robust list.

use super::*;
use crate::futex::pi::{OWNER_DIED, WAITERS};
use crate::futex::robust::{HEAD_BYTES, Left, walk};
use abi::addr::Va;

const LIVES: fn(u32) -> Owner = |_| Owner::Lives;

fn lock(table: &Table, word: &Memory, thread: Handle) -> Result<Locked, Errno> {
    table.lock_pi(key(0), word, thread, LIVES, point)
}

#[test]
fn a_lock_goes_from_one_to_the_next() {
    let (table, [a, b, c]) = (table(1), threads());
    let word = Memory::of(0);
    assert_eq!(lock(&table, &word, a), Ok(Locked::Acquired));
    assert_eq!(lock(&table, &word, a), Err(Errno::EDEADLK));
    assert_eq!(
        table.unlock_pi(key(0), &word, b.tid, point),
        Err(Errno::EPERM)
    );
    assert_eq!(lock(&table, &word, b), Ok(Locked::Queued));
    assert_eq!(lock(&table, &word, c), Ok(Locked::Queued));
    assert_eq!(word.get(), a.tid | WAITERS);
    assert_eq!(table.unlock_pi(key(0), &word, a.tid, point), Ok(()));
    assert_eq!(word.get(), b.tid | WAITERS);
    assert!(table.is_woken(b) && !table.cancel(b) && !table.is_woken(c));
    assert_eq!(table.unlock_pi(key(0), &word, b.tid, point), Ok(()));
    assert_eq!(word.get(), c.tid, "no other thread waits");
    assert_eq!(table.unlock_pi(key(0), &word, c.tid, point), Ok(()));
    assert_eq!((word.get(), woken(&[a, b, c])), (0, [0, 1, 1].to_vec()));
}

#[test]
fn who_gives_up_leaves_the_flag() {
    let (table, [a, b]) = (table(1), threads());
    let word = Memory::of(a.tid);
    assert_eq!(lock(&table, &word, b), Ok(Locked::Queued));
    assert!(table.cancel(b));
    assert_eq!(word.get(), a.tid | WAITERS);
    assert_eq!(table.unlock_pi(key(0), &word, a.tid, point), Ok(()));
    assert_eq!(word.get(), 0);
}

#[test]
fn trying_does_not_wait() {
    let (table, [a, b]) = (table(1), threads());
    let word = Memory::of(0);
    let try_lock = |thread| table.trylock_pi(key(0), &word, thread, LIVES, point);
    assert_eq!(try_lock(a), Ok(Locked::Acquired));
    assert_eq!(try_lock(a), Err(Errno::EDEADLK));
    assert_eq!(try_lock(b), Err(Errno::EAGAIN));
    assert_eq!(table.unlock_pi(key(0), &word, a.tid, point), Ok(()));
    assert_eq!((word.get(), woken(&[b])), (0, [0].to_vec()));
}

#[test]
fn the_owner_has_to_be_a_thread() {
    let (table, [a]) = (table(1), threads());
    let word = Memory::of(99);
    let lock_of = |owner| table.lock_pi(key(0), &word, a, move |_| owner, point);
    assert_eq!(lock_of(Owner::Gone), Err(Errno::ESRCH));
    assert_eq!(lock_of(Owner::Ends), Ok(Locked::Busy));
    assert_eq!(lock(&table, &nothing(), a), Err(Errno::EFAULT));
    assert_eq!(table.wake(key(0), 1, ANY, point), Ok(0), "no thread waits");
}

#[test]
fn the_two_kinds_of_futexes_are_not_mixed() {
    let (table, [a, b]) = (table(1), threads());
    let word = Memory::of(a.tid);
    assert_eq!(lock(&table, &word, b), Ok(Locked::Queued));
    assert_eq!(table.wake(key(0), 1, ANY, point), Err(Errno::EINVAL));
    let moved = table.requeue([key(0), key(4)], [1, 1], None, point);
    assert_eq!(moved, Err(Errno::EINVAL));
    word.set(0);
    assert_eq!(lock(&table, &word, a), Err(Errno::EINVAL), "overwritten");
    assert!(table.cancel(b));
}

#[test]
fn the_end_of_an_owner_passes_its_locks_on() {
    let (table, [a, b, c]) = (table(4), threads());
    let (listed, unlisted) = (Memory::of(a.tid), Memory::of(a.tid));
    let word = |key: Key| match key.at {
        0 => Some(&listed),
        _ => Some(&unlisted),
    };
    assert_eq!(lock(&table, &listed, b), Ok(Locked::Queued));
    let other = table.lock_pi(key(4), &unlisted, c, LIVES, point);
    assert_eq!(other, Ok(Locked::Queued));
    let left = Left {
        at: Va(0),
        pi: true,
        pending: false,
    };
    table.release(left, key(0), &listed, a.tid, point).unwrap();
    assert_eq!(listed.get(), b.tid | OWNER_DIED);
    table.release_all(a.tid, word, point);
    assert_eq!(unlisted.get(), c.tid | OWNER_DIED);
    assert_eq!(woken(&[a, b, c]), [0, 1, 1]);
    table.release_all(b.tid, word, point);
    assert_eq!(
        listed.get(),
        b.tid | OWNER_DIED,
        "no thread waits: left alone"
    );
}

/// A C library that marks the lock itself when its owner ends (musl) left its waiters waiting.
#[test]
fn the_end_of_an_owner_counts_whatever_the_word_is() {
    let (table, [owner, first, second]) = (table(4), threads::<3>());
    let word = Memory::of(0);
    assert_eq!(lock(&table, &word, owner), Ok(Locked::Acquired));
    for waiter in [first, second] {
        assert_eq!(lock(&table, &word, waiter), Ok(Locked::Queued));
    }
    word.set(OWNER_DIED);
    table.release_all(owner.tid, |_| Some(&word), point);
    assert_eq!(woken(&[owner, first, second]), [0, 1, 0]);
    assert!(owns(word.get(), first.tid));
    table.release_all(first.tid, |_| Some(&word), point);
    assert_eq!(woken(&[owner, first, second]), [0, 1, 1]);
}

/// The owner was read from the word once more when a waiter entered: of a lock that its owner had marked in between
/// no owner was known, and the waiter was never woken (musl's robust lock with PTHREAD_PRIO_INHERIT).
#[test]
fn a_mark_that_comes_while_a_waiter_enters_loses_nobody() {
    let (table, [owner, waiter]) = (table(4), threads());
    let word = Memory::of(owner.tid);
    let marks = |_| {
        word.set(OWNER_DIED);
        Owner::Lives
    };
    let state = table.lock_pi(key(0), &word, waiter, marks, point);
    assert_eq!(state, Ok(Locked::Queued));
    table.release_all(owner.tid, |_| Some(&word), point);
    assert_eq!(woken(&[waiter]), [1]);
    assert_eq!(word.get(), waiter.tid | OWNER_DIED);
}

/// A thread that came between the mark and the owner's end got EINVAL if another waited, and ESRCH if the end was over at once;
/// Linux lets the one wait too, and reads the word once more for the other.
#[test]
fn a_mark_that_comes_before_a_waiter_is_no_error() {
    let (table, [owner, first, second]) = (table(4), threads());
    let word = Memory::of(owner.tid);
    assert_eq!(lock(&table, &word, first), Ok(Locked::Queued));
    word.set(OWNER_DIED);
    let tried = table.trylock_pi(key(0), &word, second, LIVES, point);
    assert_eq!(tried, Err(Errno::EAGAIN));
    assert_eq!(lock(&table, &word, second), Ok(Locked::Queued));
    table.release_all(owner.tid, |_| Some(&word), point);
    assert_eq!(word.get(), first.tid | WAITERS | OWNER_DIED);
    assert_eq!(table.unlock_pi(key(0), &word, first.tid, point), Ok(()));
    assert_eq!(
        (word.get(), woken(&[first, second])),
        (second.tid, [1, 1].to_vec())
    );

    let word = Memory::of(99 | WAITERS);
    let ends = |_| {
        word.set(OWNER_DIED);
        Owner::Gone
    };
    let state = table.lock_pi(key(4), &word, first, ends, point);
    assert_eq!(state, Ok(Locked::Acquired));
    assert_eq!(word.get(), first.tid | OWNER_DIED);
}

#[test]
fn an_owner_that_was_not_looked_for_is_asked_for() {
    let (table, [a, b]) = (table(1), threads());
    let word = Memory::of(a.tid);
    let unknown = |_| Owner::Unknown;
    let unknown_owner = Ok(Locked::Unknown(a.tid));
    assert_eq!(
        table.lock_pi(key(0), &word, b, unknown, point),
        unknown_owner
    );
    assert_eq!(
        table.trylock_pi(key(0), &word, b, unknown, point),
        unknown_owner
    );
    assert_eq!(table.unlock_pi(key(0), &word, a.tid, point), Ok(()));
    assert_eq!(word.get(), 0, "no thread waits");
    assert_eq!(
        table.lock_pi(key(0), &word, b, unknown, point),
        Ok(Locked::Acquired)
    );
}

/// Of two threads' locks, all in one bucket, more than are looked at under its lock.
#[test]
fn an_end_passes_on_every_lock_of_the_thread_and_no_other() {
    const LOCKS: usize = 3 * SLICE;
    let (table, all) = (table(1), threads::<{ LOCKS + 2 }>());
    let (waiters, [ends, stays]) = all.split_last_chunk().expect("two own the locks");
    let owner_of = |i: usize| [stays, ends, ends][i % 3];
    let words = core::array::from_fn::<_, LOCKS, _>(|i| Memory::of(owner_of(i).tid));
    for (i, waiter) in waiters.iter().enumerate() {
        let state = table.lock_pi(key(i as u64), &words[i], *waiter, LIVES, point);
        assert_eq!(state, Ok(Locked::Queued));
    }
    table.release_all(ends.tid, |key| Some(&words[key.at as usize]), point);
    for (i, waiter) in waiters.iter().enumerate() {
        let passed = waiter.tid | OWNER_DIED;
        let expected = [stays.tid | WAITERS, passed][usize::from(i % 3 != 0)];
        assert_eq!(words[i].get(), expected, "lock {i}");
        assert_eq!(table.is_woken(*waiter), i % 3 != 0);
    }
}

/// A count of waiters that stays too high has the end of every thread look through all of the table: no test had noticed.
#[test]
fn where_no_thread_waits_for_a_lock_an_end_passes_on_none() {
    let (table, [a, b, c]) = (table(64), threads());
    let ends = |what: &str| {
        let points = Cell::new(0);
        table.release_all(c.tid, |_| None::<Memory>, |_| points.set(points.get() + 1));
        assert_eq!(points.get(), 0, "{what}");
    };
    let word = Memory::of(0);
    assert_eq!(lock(&table, &word, a), Ok(Locked::Acquired));
    ends("a lock that was free");
    assert_eq!(lock(&table, &word, a), Err(Errno::EDEADLK));
    ends("a lock that cannot be had");
    assert_eq!(lock(&table, &word, b), Ok(Locked::Queued));
    assert!(table.cancel(b));
    ends("a waiter that has given up");
    assert_eq!(lock(&table, &word, b), Ok(Locked::Queued));
    assert_eq!(table.unlock_pi(key(0), &word, a.tid, point), Ok(()));
    ends("a waiter that has got it");
}

#[test]
fn a_robust_lock_is_marked_and_a_waiter_woken() {
    let (table, [a, b]) = (table(1), threads());
    let release = |word: &Memory, pending| {
        table.wait(key(0), ANY, word, word.get(), b).unwrap();
        let left = Left {
            at: Va(0),
            pi: false,
            pending,
        };
        table.release(left, key(0), word, a.tid, point).unwrap();
        (word.get(), table.cancel(b))
    };
    assert_eq!(
        release(&Memory::of(a.tid | WAITERS), false),
        (WAITERS | OWNER_DIED, false)
    );
    assert_eq!(release(&Memory::of(a.tid), false), (OWNER_DIED, true));
    assert_eq!(
        release(&Memory::of(b.tid | WAITERS), false),
        (b.tid | WAITERS, true)
    );
    assert_eq!(release(&Memory::of(0), false), (0, true));
    assert_eq!(release(&Memory::of(0), true), (0, false));
    let wild = Left {
        at: Va(2),
        pi: false,
        pending: false,
    };
    assert_eq!(
        table.release(wild, key(0), &Memory::of(1), 1, point),
        Err(Errno::EINVAL)
    );
}

/// Memory of 64-bit words, with a list head at 0 whose locks have their word 4 bytes behind the entry.
fn walked(memory: &[u64]) -> (Vec<Left>, Result<(), Errno>) {
    let read = |at: Va| memory.get(at.0 as usize / 8).copied().ok_or(Errno::EFAULT);
    let mut all = Vec::new();
    let result = walk(Va(0), read, |left| {
        all.push(left);
        Ok(())
    });
    (all, result)
}

fn left(at: u64, pi: bool, pending: bool) -> Left {
    Left {
        at: Va(at),
        pi,
        pending,
    }
}

#[test]
fn the_robust_list_is_followed_as_far_as_it_goes() {
    assert_eq!(HEAD_BYTES, 3 * 8);
    let empty = [0, 4, 0];
    assert_eq!(walked(&empty), (Vec::new(), Ok(())));
    let two_and_one_pending = [32, 4, 24, 0, 41, 0];
    let all = [
        left(36, false, false),
        left(44, true, false),
        left(28, false, true),
    ];
    assert_eq!(walked(&two_and_one_pending), (all.to_vec(), Ok(())));
    let pending_is_listed = [24, 4, 25, 0];
    assert_eq!(
        walked(&pending_is_listed),
        ([left(28, true, true)].to_vec(), Ok(()))
    );
    let wild = [24, 4, 24, 1 << 40];
    let (all, result) = walked(&wild);
    assert_eq!(
        (all, result),
        (
            [left((1 << 40) + 4, false, false)].to_vec(),
            Err(Errno::EFAULT)
        )
    );
    assert_eq!(walked(&[]), (Vec::new(), Err(Errno::EFAULT)));
}

#[test]
fn a_circular_robust_list_ends() {
    let (all, result) = walked(&[24, 4, 24, 32, 24]);
    assert_eq!((all.len(), result), (1024 + 1, Ok(())));
    assert_eq!(all.last(), Some(&left(28, false, true)));
}
