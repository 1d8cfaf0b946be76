//! Where a task may run changes while it is queued, put into a queue, or taken out.

use loom::sync::atomic::Ordering;
use loom::thread;
use qk_core::sched::CoreSet;
use qk_core::sched::queues;

use super::{ALL, NODE, On, Task, try_all};

/// It is in one queue then, of a core that it may use and that has been interrupted.
fn waits_where_it_may(task: Task) {
    let queued_on = task.queued_on();
    let [cpu] = queued_on[..] else {
        panic!("it is in the queues of {queued_on:?}");
    };
    let its = task.whereabouts();
    assert!(its.allowed.contains(cpu), "in the queue of core {cpu}");
    assert_eq!(its.core(), cpu);
    assert!(NODE.cores[cpu].interrupted.load(Ordering::SeqCst));
}

#[test]
fn a_task_that_becomes_runnable_is_queued_where_it_may_run() {
    try_all(|| {
        let its = Task(0).whereabouts();
        its.allowed.store(CoreSet::single(0));
        its.parking.reuse();
        let other = thread::spawn(|| queues::allow(&On(3), Task(0), CoreSet::single(1)));
        queues::unpark(&On(2), Task(0));
        other.join().expect("it ends");
        waits_where_it_may(Task(0));
    });
}

#[test]
fn of_two_changes_one_moves_a_queued_task() {
    try_all(|| {
        Task(0).start(On(2), 0, CoreSet::single(0));
        let other = thread::spawn(|| queues::allow(&On(3), Task(0), CoreSet::single(1)));
        queues::allow(&On(2), Task(0), ALL);
        other.join().expect("it ends");
        waits_where_it_may(Task(0));
    });
}

/// Its core takes it, or it is moved; not both.
#[test]
fn a_task_that_is_moved_while_it_is_taken_runs_once() {
    try_all(|| {
        Task(0).start(On(2), 0, CoreSet::single(0));
        let other = thread::spawn(|| queues::allow(&On(2), Task(0), CoreSet::single(1)));
        let taken = On(0).next().is_some();
        other.join().expect("it ends");
        if taken {
            assert_eq!(Task(0).queued_on(), [0; 0]);
        } else {
            waits_where_it_may(Task(0));
        }
        assert_eq!(On(0).next(), None);
    });
}

/// A core takes a task from another's queue, and before it has said so, the task may not run there any more: the change finds it
/// in no queue, and interrupts the core that it was taken from.
#[test]
fn a_task_that_was_just_taken_does_not_stay_where_it_may_not_run() {
    try_all(|| {
        Task(0).start(On(2), 0, ALL);
        let other = thread::spawn(|| {
            queues::allow(&On(2), Task(0), CoreSet::single(0));
            queues::interrupt(&On(2), Task(0));
        });
        let here = On(1);
        let stays = here
            .next()
            .is_some_and(|task| !here.sees_that_it_may_not(task));
        other.join().expect("it ends");
        assert!(!stays || here.core().interrupted.load(Ordering::SeqCst));
    });
}
