//! Cores that go idle while others put tasks into their queues, or take them out.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use qk_core::sched::CoreSet;
use qk_core::sched::queues::{self, Core, Node};

use super::{ALL, CORES, On, SLICE_END, TASKS, Task, try_all};

/// It looks at its queue after it has announced the halt, or is interrupted.
#[test]
fn a_core_that_goes_idle_runs_what_is_queued_there() {
    try_all(|| {
        // Of a task that waits there for the next one, as the kernel's `park`.
        On(0)
            .core()
            .slice
            .begin(true, || unreachable!(), || SLICE_END);
        let other = thread::spawn(|| Task(0).start(On(2), 0, CoreSet::single(0)));
        assert_eq!(On(0).wait_for_task(), Task(0));
        other.join().expect("it ends");
        assert_eq!(Task(0).queued_on(), [0; 0]);
    });
}

/// What runs there has a slice from then on, or the core is interrupted and begins one.
#[test]
fn a_core_that_stops_its_slices_shares_with_what_is_queued_there() {
    try_all(|| {
        let core = On(0).core();
        core.slice.begin(true, || unreachable!(), || SLICE_END);
        let other = thread::spawn(|| Task(0).start(On(2), 0, CoreSet::single(0)));
        let runs_it = On(0).next().is_some();
        if !runs_it {
            let is_wanted = || core.with_queue(|queue| !queue.is_empty());
            core.slice.begin(false, is_wanted, || SLICE_END);
        }
        other.join().expect("it ends");
        let interrupted = core.interrupted.load(Ordering::SeqCst);
        assert!(runs_it || On(0).is_shared(0) || interrupted);
    });
}

/// Tasks in one queue, which two cores take them out of. One task yields once, to whichever core suits it then.
#[test]
fn cores_that_take_from_each_other_run_each_task_once() {
    try_all(|| {
        let left = Arc::new(AtomicUsize::new(TASKS + 1));
        Task(0).start(On(0), 0, ALL);
        let other = thread::spawn({
            let left = left.clone();
            move || {
                Task(1).start(On(1), 0, ALL);
                run_all(On(1), &left);
            }
        });
        run_all(On(0), &left);
        other.join().expect("it ends");
        for task in [0, 1].map(Task) {
            assert!(task.whereabouts().parking.is_vacant(), "it has ended");
            assert_eq!(task.queued_on(), [0; 0]);
        }
        assert_eq!(On(0).next(), None);
    });
}

/// Runs tasks until none is `left`, task 0 twice.
fn run_all(on: On, left: &AtomicUsize) {
    while left.load(Ordering::SeqCst) > 0 {
        let Some(task) = on.next() else {
            on.halt(|| left.load(Ordering::SeqCst) == 0);
            continue;
        };
        let its = task.whereabouts();
        let turns_before = task.state().events.fetch_add(1, Ordering::Relaxed);
        let yields = task == Task(0) && turns_before == 0;
        if yields && its.parking.left(true) {
            queues::enqueue(&on, task);
        } else {
            its.parking.gone();
        }
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            (0..CORES).for_each(|cpu| on.interrupt(cpu));
        }
    }
}

/// A task that another core has taken, and that waits there without leaving it.
#[test]
fn a_task_that_moved_is_woken_where_it_is() {
    try_all(|| {
        Task(0).start(On(2), 0, ALL);
        let other = thread::spawn(|| {
            Task(0).state().events.store(1, Ordering::Relaxed);
            queues::unpark(&On(2), Task(0));
        });
        let here = On(1);
        assert_eq!(here.next(), Some(Task(0)));
        let its = Task(0).state();
        while its.events.load(Ordering::Relaxed) == 0 {
            if !its.whereabouts.parking.take_token() {
                here.halt(|| its.whereabouts.parking.has_token());
            }
        }
        other.join().expect("it ends");
    });
}
