//! Words without meaning.

use super::*;

fn wait_all(table: &Table, at: u64, threads: &[Handle]) {
    for thread in threads {
        assert_eq!(table.wait(key(at), ANY, &Memory::of(0), 0, *thread), Ok(()));
    }
}

#[test]
fn a_wait_compares_and_enters() {
    let (table, [a]) = (table(4), threads());
    let word = Memory::of(7);
    assert_eq!(table.wait(key(0), ANY, &word, 8, a), Err(Errno::EAGAIN));
    assert_eq!(table.wait(key(0), 0, &word, 7, a), Err(Errno::EINVAL));
    assert_eq!(
        table.wait(key(0), ANY, &nothing(), 7, a),
        Err(Errno::EFAULT)
    );
    assert_eq!(table.wake(key(0), 1, ANY, point), Ok(0));
    assert_eq!(table.wait(key(0), ANY, &word, 7, a), Ok(()));
    assert!(!table.is_woken(a));
    assert_eq!(table.wake(Key { space: 2, at: 0 }, 1, ANY, point), Ok(0));
    assert_eq!(table.wake(key(0), 1, ANY, point), Ok(1));
    assert!(table.is_woken(a) && !table.cancel(a));
    assert_eq!(woken(&[a]), [1]);
}

#[test]
fn wakes_go_by_arrival_and_at_least_one_is_woken() {
    let (table, all) = (table(1), threads::<5>());
    wait_all(&table, 0, &all);
    for (count, result, so_far) in [
        (0, 1, [1, 0, 0, 0, 0]),
        (-1, 1, [1, 1, 0, 0, 0]),
        (2, 2, [1, 1, 1, 1, 0]),
        (i32::MAX, 1, [1; 5]),
        (1, 0, [1; 5]),
    ] {
        assert_eq!(table.wake(key(0), count, ANY, point), Ok(result));
        assert_eq!(woken(&all), so_far);
    }
}

#[test]
fn bits_choose() {
    let (table, [a, b]) = (table(1), threads());
    for (thread, bits) in [(a, 1), (b, 6)] {
        table.wait(key(0), bits, &Memory::of(0), 0, thread).unwrap();
    }
    assert_eq!(table.wake(key(0), 9, 0, point), Err(Errno::EINVAL));
    assert_eq!(table.wake(key(0), 9, 8, point), Ok(0));
    assert_eq!(table.wake(key(0), 9, 2, point), Ok(1));
    assert_eq!(woken(&[a, b]), [0, 1]);
}

#[test]
fn a_requeue_wakes_some_and_moves_some() {
    for buckets in [1, 64] {
        let (table, all) = (table(buckets), threads::<5>());
        let word = Memory::of(3);
        let expected = |value| Some((&word as &dyn Word, value));
        wait_all(&table, 0, &all);
        let requeue = |counts, wanted| table.requeue([key(0), key(8)], counts, wanted, point);
        assert_eq!(requeue([-1, 0], None), Err(Errno::EINVAL));
        assert_eq!(requeue([0, -1], None), Err(Errno::EINVAL));
        assert_eq!(requeue([9, 9], expected(4)), Err(Errno::EAGAIN));
        assert_eq!(requeue([0, 0], None), Ok(Requeued::default()));
        let done = Requeued { woken: 1, moved: 2 };
        assert_eq!(requeue([1, 2], expected(3)), Ok(done));
        assert_eq!(woken(&all), [1, 0, 0, 0, 0]);
        assert!(table.cancel(all[1]), "found where it was moved to");
        assert_eq!(table.wake(key(8), 9, ANY, point), Ok(1));
        assert_eq!(woken(&all), [1, 0, 1, 0, 0]);
        assert_eq!(table.wake(key(0), 9, ANY, point), Ok(2));
    }
}

#[test]
fn a_requeue_to_the_same_word_counts_and_keeps_the_order() {
    let (table, all) = (table(1), threads::<3>());
    wait_all(&table, 0, &all);
    let done = table.requeue([key(0); 2], [1, 1], None, point);
    assert_eq!(done, Ok(Requeued { woken: 1, moved: 1 }));
    assert_eq!(table.wake(key(0), 1, ANY, point), Ok(1));
    assert_eq!(woken(&all), [1, 1, 0]);
}

/// A walk that ended exactly with a slice began again at the head, for ever.
#[test]
fn a_requeue_of_a_whole_slice_ends() {
    for waiting in [SLICE - 1, SLICE, 2 * SLICE] {
        let table = table(1);
        let threads: Vec<Handle> = (0..waiting as u32).map(thread).collect();
        wait_all(&table, 8, &threads);
        let done = table.requeue([key(8), key(8)], [0, i32::MAX], None, point);
        let moved = Requeued {
            woken: 0,
            moved: waiting,
        };
        assert_eq!(done, Ok(moved));
    }
}

/// A slice of waiters was moved at once: 15,000 instructions with interrupts off.
#[test]
fn a_requeue_moves_few_between_two_points() {
    let table = table(64);
    let threads: Vec<Handle> = (0..100).map(thread).collect();
    wait_all(&table, 0, &threads);
    let mut points = 0;
    let done = table.requeue([key(0), key(8)], [0, 100], None, |_| points += 1);
    let moved = Requeued {
        woken: 0,
        moved: 100,
    };
    assert_eq!(done, Ok(moved));
    assert!(points >= 12, "{points} points");
}

#[test]
fn wake_op_changes_the_word_and_wakes_both() {
    let (table, all) = (table(8), threads::<4>());
    wait_all(&table, 0, &all[..2]);
    wait_all(&table, 4, &all[2..]);
    let add_one_if_equal_5 = WakeOp::decode(1 << 28 | 1 << 12 | 5).unwrap();
    let word = Memory::of(4);
    let wake_op =
        |counts| table.wake_op(key(0), (key(4), &word), add_one_if_equal_5, counts, point);
    assert_eq!(wake_op([0, 9]), Ok(1), "the word was not 5");
    assert_eq!(wake_op([9, 9]), Ok(3));
    assert_eq!((word.get(), woken(&all)), (6, [1; 4].to_vec()));
    let lost = table.wake_op(
        key(0),
        (key(4), &nothing()),
        add_one_if_equal_5,
        [1, 1],
        point,
    );
    assert_eq!(lost, Err(Errno::EFAULT));
}

/// With preemption points in between, at each of which another comes to wait.
#[test]
fn long_work_is_done_in_slices_and_ends() {
    let table = table(1);
    let crowd: Vec<Handle> = (0..1000).map(thread).collect();
    let late: Vec<Handle> = (0..2000).map(thread).collect();
    wait_all(&table, 0, &crowd);
    let (mut points, mut next) = (0, late.iter());
    let mut join = |work| {
        assert!(work < 3000);
        points += 1;
        let thread = next.next().expect("an end");
        table.wait(key(0), ANY, &Memory::of(0), 0, *thread).unwrap();
    };
    let done = table.requeue([key(0), key(4)], [0, i32::MAX], None, &mut join);
    assert_eq!(
        done,
        Ok(Requeued {
            woken: 0,
            moved: 1000
        })
    );
    assert_eq!(table.wake(key(4), i32::MAX, ANY, &mut join), Ok(1000));
    assert!(points > 1000);
    assert_eq!(woken(&crowd), [1; 1000]);
    assert_eq!(woken(&late), [0; 2000]);
}

/// The entry at which a slice ended leaves before the next one begins.
#[test]
fn a_walk_goes_on_when_its_place_is_gone() {
    let table = table(1);
    let crowd: Vec<Handle> = (0..200).map(thread).collect();
    wait_all(&table, 0, &crowd);
    let mut cancelled = 0;
    let done = table.requeue([key(0); 2], [0, i32::MAX], None, |_| {
        cancelled += usize::from(table.cancel(crowd[64]));
    });
    assert_eq!(cancelled, 1);
    assert_eq!(
        done,
        Ok(Requeued {
            woken: 0,
            moved: 199
        }),
        "each once"
    );
    assert_eq!(table.wake(key(0), i32::MAX, ANY, point), Ok(199));
}

fn words<'a>(words: &'a [Memory]) -> impl ExactSizeIterator<Item = One<'a, Memory>> {
    words.iter().enumerate().map(|(n, word)| One {
        key: key(n as u64 * 4),
        word,
        expected: 0,
    })
}

#[test]
fn waiting_for_many_words_tells_which() {
    let (table, [a]) = (table(2), threads());
    let memory: Vec<Memory> = (0..MAX_MANY).map(|_| Memory::of(0)).collect();
    let many = table.wait_many(words(&memory), a, |_| ()).unwrap();
    assert!(!table.is_woken(a));
    assert_eq!(table.wake(key(20), 1, ANY, point), Ok(1));
    assert!(table.is_woken(a));
    assert_eq!(table.finish(many, a, |_| ()), Some(5));
    assert_eq!(table.wake(key(24), 1, ANY, point), Ok(0));
    let many = table.wait_many(words(&memory), a, |_| ()).unwrap();
    assert_eq!(table.finish(many, a, |_| ()), None);
    assert_eq!(table.wake(key(20), 1, ANY, point), Ok(0));
}

#[test]
fn waiting_for_many_words_needs_all_of_them() {
    let (table, [a]) = (table(2), threads());
    let wait = |memory: &[Memory]| table.wait_many(words(memory), a, |_| ()).map(drop).err();
    assert_eq!(wait(&[]), Some(Errno::EINVAL));
    let too_many: Vec<Memory> = (0..=MAX_MANY).map(|_| Memory::of(0)).collect();
    assert_eq!(wait(&too_many), Some(Errno::EINVAL));
    assert_eq!(wait(&[Memory::of(0), Memory::of(1)]), Some(Errno::EAGAIN));
    assert_eq!(wait(&[Memory::of(0), nothing()]), Some(Errno::EFAULT));
    assert_eq!(table.wake(key(0), 1, ANY, point), Ok(0), "it has left");
}

#[test]
fn who_waits_for_many_words_is_woken_by_a_requeue() {
    let (table, [a]) = (table(2), threads());
    let many = table
        .wait_many(words(&[Memory::of(0), Memory::of(0)]), a, |_| ())
        .unwrap();
    let done = table.requeue([key(4), key(8)], [0, 1], None, point);
    assert_eq!(done, Ok(Requeued { woken: 1, moved: 0 }));
    assert_eq!(table.finish(many, a, |_| ()), Some(1));
}
