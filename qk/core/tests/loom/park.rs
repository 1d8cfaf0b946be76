//! What cores see of each other's changes to where a task is, tried out by loom: every order that the memory model allows,
//! with a bound on how often a thread is preempted.
//!
//! One core runs its tasks as the kernel's loop does; two unparkers are on cores of their own. Should a wake-up be lost, the
//! core halts for ever and loom says that all threads are blocked.
use std::collections::VecDeque;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Mutex, Notify};
use loom::thread;
use qk_core::sched::park::{HaltFlag, Parking, Unparked};

/// How often threads are preempted where they could go on, at most.
const PREEMPTIONS: usize = 2;

fn try_all(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(scene);
}

/// How a task waits.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    /// Right on its core, as long as no other task is to run there.
    Halting,
    /// By leaving its core, which the idle context then halts.
    Leaving,
    /// As `Leaving`, and each time it is preempted between its look and its park.
    Preempted,
}

/// Why a core leaves a task.
#[derive(PartialEq)]
enum Step {
    Parked,
    Preempted,
    Ended,
}

struct Task {
    parking: Parking,
    /// What it waits for: how many events there were. Relaxed, for the unpark publishes it.
    events: AtomicUsize,
}

/// One core, its tasks, and the interrupt that ends its halt: it stays pending until then.
struct Core {
    tasks: Vec<Task>,
    queue: Mutex<VecDeque<usize>>,
    halted: HaltFlag,
    interrupt: Notify,
    wait: Wait,
    /// A task ends when it has seen so many.
    events: usize,
}

impl Core {
    fn new(tasks: usize, wait: Wait, events: usize) -> Arc<Core> {
        let task = |_| Task {
            parking: Parking::new(),
            events: AtomicUsize::new(0),
        };
        Arc::new(Core {
            tasks: (0..tasks).map(task).collect(),
            queue: Mutex::new(VecDeque::new()),
            halted: HaltFlag::new(),
            interrupt: Notify::new(),
            wait,
            events,
        })
    }

    /// As another core: an event for a task.
    fn signal(&self, number: usize) {
        let task = &self.tasks[number];
        task.events.fetch_add(1, Relaxed);
        match task.parking.unpark() {
            Unparked::Queue => self.push(number),
            Unparked::OnCore => {}
            Unparked::Nothing => return,
        }
        if self.halted.is_set() {
            self.interrupt.notify();
        }
    }

    fn push(&self, number: usize) {
        let mut queue = self.queue.lock().unwrap();
        assert!(!queue.contains(&number), "queued twice");
        queue.push_back(number);
    }

    fn has_queued(&self) -> bool {
        !self.queue.lock().unwrap().is_empty()
    }

    /// Runs the tasks until all have ended.
    fn run(&self) {
        let mut preempted = vec![false; self.tasks.len()];
        let mut left = self.tasks.len();
        while left > 0 {
            let next = self.queue.lock().unwrap().pop_front();
            let Some(number) = next else {
                self.halt(|| false);
                continue;
            };
            let task = &self.tasks[number];
            task.parking.run();
            let step = self.step(task, preempted[number]);
            preempted[number] = step == Step::Preempted;
            if step == Step::Ended {
                task.parking.gone();
                left -= 1;
            } else if task.parking.left(step == Step::Preempted) {
                self.push(number);
            }
        }
    }

    /// What a task does until its core leaves it. `looked`: it was about to park.
    fn step(&self, task: &Task, mut looked: bool) -> Step {
        loop {
            if !looked && task.events.load(Relaxed) == self.events {
                return Step::Ended;
            }
            if !looked && self.wait == Wait::Preempted {
                return Step::Preempted;
            }
            looked = false;
            if task.parking.take_token() {
                continue;
            }
            if self.wait != Wait::Halting || self.has_queued() {
                return Step::Parked;
            }
            self.halt(|| task.parking.has_token());
            // Its unpark was for this wait.
            let _ = task.parking.take_token();
        }
    }

    fn halt(&self, is_woken: impl Fn() -> bool) {
        self.halted.announce();
        if !self.has_queued() && !is_woken() {
            self.interrupt.wait();
        }
        self.halted.withdraw();
    }
}

/// Each unparker has an event for every task, the second in the other order.
fn two_unparkers(tasks: usize, wait: Wait) {
    try_all(move || {
        let core = Core::new(tasks, wait, 2);
        let unparkers = [false, true].map(|backwards| {
            let core = core.clone();
            thread::spawn(move || {
                for i in 0..tasks {
                    core.signal(if backwards { tasks - 1 - i } else { i });
                }
            })
        });
        core.run();
        unparkers
            .into_iter()
            .for_each(|unparker| unparker.join().unwrap());
    });
}

#[test]
fn a_task_that_halts_on_its_core_is_woken() {
    two_unparkers(1, Wait::Halting);
}

#[test]
fn a_task_that_left_its_core_is_woken() {
    two_unparkers(1, Wait::Leaving);
}

/// If a queued task could not hold a token, the unpark that comes while it is preempted would be lost.
#[test]
fn a_task_that_is_preempted_before_it_parks_is_woken() {
    two_unparkers(1, Wait::Preempted);
}

#[test]
fn of_two_tasks_none_is_forgotten_while_the_other_halts() {
    two_unparkers(2, Wait::Halting);
}

/// A task parks on one core and goes on on another: what it had done is seen there, and no two cores run it at once.
#[test]
fn a_parked_task_moves_to_another_core() {
    try_all(|| {
        let task = Arc::new((Parking::new(), UnsafeCell::new(())));
        assert_eq!(task.0.unpark(), Unparked::Queue);
        task.0.run();
        let other = thread::spawn({
            let task = task.clone();
            move || match task.0.unpark() {
                Unparked::Queue => {
                    task.0.run();
                    task.1.with_mut(drop);
                    true
                }
                Unparked::OnCore => false,
                Unparked::Nothing => panic!("it ran or was parked"),
            }
        });
        task.1.with_mut(drop);
        let stays = task.0.left(false);
        if stays {
            task.0.run();
            task.1.with_mut(drop);
        }
        assert_ne!(other.join().unwrap(), stays, "one core goes on with it");
    });
}
