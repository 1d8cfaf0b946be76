//! How much memory the table keeps: that of the present waiters.

use super::*;

const CROWD: usize = 100;
const WORDS: u64 = 12;
/// Entries that there is memory for, besides those there are: what is left of a chunk, and a spare one.
const SPARE: usize = 31;

/// A waiter for many words, all of them the same: as many entries in a bucket as a thread can have.
fn wait_for_one(table: &Table, at: u64, thread: Handle) -> Many {
    let word = Memory::of(0);
    let all = [0; MAX_MANY].map(|expected| One {
        key: key(at),
        word: &word,
        expected,
    });
    table.wait_many(all.into_iter(), thread, point).unwrap()
}

/// A crowd waits for one word after the other, and is woken each time.
fn come_and_go(table: &Table) {
    let crowd = threads::<CROWD>();
    for at in (0..WORDS).map(|word| word * 4) {
        let waits = crowd.map(|thread| (wait_for_one(table, at, thread), thread));
        assert_eq!(
            table.wake(key(at), i32::MAX, ANY, point),
            Ok(CROWD * MAX_MANY)
        );
        for (many, thread) in waits {
            assert_eq!(table.finish(many, thread, point), Some(MAX_MANY - 1));
        }
    }
}

/// No bucket has memory for more than `entries` and some.
fn holds(table: &Table, entries: usize) {
    for bucket in 0..table.buckets.len() {
        let room = table.with(bucket, |waiters| waiters.plain.room());
        assert!(
            room <= entries + SPARE,
            "bucket {bucket} keeps memory for {room} entries, and has {entries} at most"
        );
    }
}

/// A bucket kept memory for as many as had ever waited there, in one bucket after the other, until the kernel's heap was used up
/// for good and for all ranks.
#[test]
fn who_has_left_takes_no_memory() {
    let table = table(4);
    come_and_go(&table);
    holds(&table, 0);
}

/// Chunks that are given back when they are empty would not do: one thread can keep an entry in each bucket.
#[test]
fn who_stays_keeps_no_memory_of_others() {
    let table = table(4);
    let [early, late, other] = threads();
    let memory: [Memory; WORDS as usize] = core::array::from_fn(|_| Memory::of(0));
    let all = || {
        memory.iter().enumerate().map(|(n, word)| One {
            key: key(n as u64 * 4),
            word,
            expected: 0,
        })
    };
    let crowd: Vec<Handle> = (0..10_000).map(thread).collect();
    let early_waits = table.wait_many(all(), early, point).unwrap();
    for thread in &crowd {
        let at = u64::from(thread.tid) % WORDS * 4;
        table.wait(key(at), ANY, &memory[0], 0, *thread).unwrap();
    }
    let late_waits = table.wait_many(all(), late, point).unwrap();
    // From the middle to both ends.
    let (first, second) = crowd.split_at(crowd.len() / 2);
    for thread in first.iter().rev().chain(second) {
        assert!(table.cancel(*thread));
    }
    holds(&table, 2 * WORDS as usize);
    assert_eq!(table.finish(early_waits, early, point), None);
    holds(&table, WORDS as usize);
    table.wait(key(0), ANY, &memory[0], 0, other).unwrap();
    assert_eq!(table.wake(key(4), 1, ANY, point), Ok(1));
    assert_eq!(table.finish(late_waits, late, point), Some(1));
    assert!(table.cancel(other));
    holds(&table, 0);
}

/// The same for waiters for locks, each for one of its own.
#[test]
fn locks_that_nobody_waits_for_take_no_memory() {
    let table = table(1);
    let words: Vec<Memory> = (0..1000).map(|_| Memory::of(9999)).collect();
    let crowd: Vec<Handle> = (0..words.len() as u32).map(thread).collect();
    for (n, word) in words.iter().enumerate() {
        let state = table.lock_pi(
            key(n as u64 / 2 * 4),
            word,
            crowd[n],
            |_| Owner::Lives,
            point,
        );
        assert_eq!(state, Ok(Locked::Queued));
    }
    let stays = 617;
    for (n, thread) in crowd.iter().enumerate() {
        assert!(n == stays || table.cancel(*thread));
    }
    let room = |table: &Table| table.with(0, |waiters| waiters.locks.room());
    let [locks, waiters] = room(&table);
    assert!(locks <= SPARE && waiters <= 1 + SPARE, "{locks}, {waiters}");
    assert!(table.cancel(crowd[stays]));
    let [locks, waiters] = room(&table);
    assert!(locks <= SPARE && waiters <= SPARE, "{locks}, {waiters}");
}
