//! Waiting, waking, giving up and being moved, all at once.

use loom::thread;
use qk_core::futex::One;

use super::{A, B, Me, Table, User, try_all};

#[test]
fn a_wake_up_is_not_lost() {
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(0));
        let waker = thread::spawn({
            let (table, word) = (table.clone(), word.clone());
            move || {
                word.store(1);
                table.wake(A, 1)
            }
        });
        let woken = table.wait(A, &word, 0, Me(0));
        assert_eq!(waker.join().expect("it ends"), usize::from(woken));
    });
}

/// A thread that waits for `A` and gives up; whether it was woken before.
fn spawn_brief(table: &Table, word: &User) -> thread::JoinHandle<bool> {
    let (table, word) = (table.clone(), word.clone());
    thread::spawn(move || table.wait_briefly(A, &word, 0, Me(1)))
}

/// Of two that wait one gives up, and one is woken. Should it be the one that gave up, the other one needs another wake-up.
#[test]
fn who_gives_up_has_been_woken_or_not() {
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(0));
        let brief = spawn_brief(&table, &word);
        let waker = thread::spawn({
            let (table, word) = (table.clone(), word.clone());
            move || {
                let before = table.wake(A, 1);
                word.store(1);
                before + table.wake(A, 2)
            }
        });
        let woken = table.wait(A, &word, 0, Me(0));
        let brief = brief.join().expect("it ends");
        let counted = waker.join().expect("it ends");
        assert_eq!(counted, usize::from(woken) + usize::from(brief));
    });
}

/// It is woken where it was moved to, or found there when it gives up.
#[test]
fn who_gives_up_is_found_where_it_was_moved_to() {
    try_all(|| {
        let (table, word) = (Table::two_buckets(), User::new(0));
        let mover = thread::spawn({
            let table = table.clone();
            move || table.requeue([A, B], [0, 1], None)
        });
        let waker = thread::spawn({
            let table = table.clone();
            move || table.wake(B, 1) + table.requeue([B, A], [0, 1], None)
        });
        let woken = table.wait_briefly(A, &word, 0, Me(0));
        let counted = waker.join().expect("it ends") + mover.join().expect("it ends");
        assert_eq!(counted, usize::from(woken));
        assert_eq!(table.wake(A, 9) + table.wake(B, 9), 0, "it has left");
    });
}

/// Two locks are taken in one order, whatever the direction.
#[test]
fn requeues_in_both_directions_do_not_block_each_other() {
    try_all(|| {
        let (table, word) = (Table::two_buckets(), User::new(0));
        let back = thread::spawn({
            let table = table.clone();
            move || table.requeue([B, A], [0, 1], None)
        });
        let forth = thread::spawn({
            let (table, word) = (table.clone(), word.clone());
            move || {
                table.requeue([A, B], [0, 1], None);
                word.store(1);
            }
        });
        let waits = table.0.wait(A, 1, &word, 0, Me(0)).is_ok();
        back.join().expect("it ends");
        forth.join().expect("it ends");
        assert_eq!(table.wake(A, 9) + table.wake(B, 9), usize::from(waits));
    });
}

#[test]
fn one_of_many_words_is_enough() {
    try_all(|| {
        let table = Table::two_buckets();
        let words = [User::new(0), User::new(0)];
        let wakers = [(A, 0), (B, 1)].map(|(key, index)| {
            let (table, word): (Table, User) = (table.clone(), words[index].clone());
            thread::spawn(move || {
                word.store(1);
                table.wake(key, 1)
            })
        });
        let me = Me(0);
        let all = [A, B].into_iter().zip(&words);
        let all: Vec<_> = all
            .map(|(key, word)| One {
                key,
                word,
                expected: 0,
            })
            .collect();
        let result = table.0.wait_many(all.into_iter(), me, |_| ()).ok();
        let woken = result.map(|many| {
            super::park(me);
            table.0.finish(many, me, |_| ()).expect("it was woken")
        });
        let counts = wakers.map(|waker| waker.join().expect("it ends"));
        match woken {
            Some(index) => assert_eq!(counts[index], 1),
            None => assert_eq!(counts, [0, 0]),
        }
        assert_eq!(table.wake(A, 9) + table.wake(B, 9), 0, "it has left");
    });
}

/// A waiter that leaves is replaced in memory by the last one, which is then found in another slot, by itself and by its waker.
#[test]
fn who_was_moved_in_memory_is_found() {
    try_all(|| {
        let (table, word) = (Table::one_bucket(), User::new(0));
        let brief = spawn_brief(&table, &word);
        let waker = thread::spawn({
            let table = table.clone();
            move || table.wake(A, 1)
        });
        let twice = [A, B].map(|key| One {
            key,
            word: &word,
            expected: 0,
        });
        let me = Me(0);
        let many = table.0.wait_many(twice.into_iter(), me, |_| ());
        let woken = table.0.finish(many.expect("the word is 0"), me, |_| ());
        let counted = waker.join().expect("it ends");
        let brief = brief.join().expect("it ends");
        assert_eq!(counted, usize::from(brief) + usize::from(woken.is_some()));
        assert_eq!(table.wake(A, 9) + table.wake(B, 9), 0, "all have left");
    });
}
