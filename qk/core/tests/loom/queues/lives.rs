//! The place of a task that ended is used again for another, as those of threads are.

use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use qk_core::sched::CoreSet;
use qk_core::sched::queues;

use super::{On, Task, try_all};

/// An unpark that was meant for the former task finds it, or the place empty, or the new task: which is queued once, where it may
/// run.
#[test]
fn a_place_that_is_used_again_is_queued_once() {
    try_all(|| {
        Task(0).start(On(2), 0, CoreSet::single(0));
        assert_eq!(On(0).next(), Some(Task(0)));
        let late = thread::spawn(|| queues::unpark(&On(3), Task(0)));
        let free = Arc::new((Mutex::new(false), Notify::new()));
        let creator = thread::spawn({
            let free = free.clone();
            move || {
                while !*free.0.lock().expect("no panics") {
                    free.1.wait();
                }
                Task(0).start(On(2), 1, CoreSet::single(1));
            }
        });
        // As the kernel: the number is free once the core has left the task.
        Task(0).whereabouts().parking.gone();
        *free.0.lock().expect("no panics") = true;
        free.1.notify();
        late.join().expect("it ends");
        creator.join().expect("it ends");
        assert_eq!(Task(0).queued_on(), [1]);
    });
}
