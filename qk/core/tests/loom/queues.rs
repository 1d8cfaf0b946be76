//! What cores see of each other's run queues, tried out by loom: every order that the memory model allows, with a bound on how
//! often a thread is preempted.
//!
//! The queues, and who puts tasks in and takes them out, are the kernel's own (`qk_core::sched::queues`). What stands here is the
//! node: cores that halt until an interrupt, and tasks. Should a task be forgotten, a core halts for ever and loom says that all
//! threads are blocked.

mod affinity;
mod idle;
mod lives;

use std::iter;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Mutex, Notify};
use qk_core::sched::CoreSet;
use qk_core::sched::park::HaltFlag;
use qk_core::sched::queue::RunQueue;
use qk_core::sched::queues::{self, Core as _, Counts, Whereabouts};
use qk_core::sched::slice::Slice;

/// How often threads are preempted where they could go on, at most.
const PREEMPTIONS: usize = 4;
/// Cores that run tasks; threads of a scene with higher numbers are others, which only put tasks into queues.
const CORES: usize = 2;
const TASKS: usize = 2;
/// The cores.
const ALL: CoreSet = CoreSet::of(0, CORES);
/// When slices end.
const SLICE_END: u64 = 10;

fn try_all(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 5_000;
    builder.check(scene);
}

loom::lazy_static! {
    /// The node of the execution that loom tries just now.
    static ref NODE: Shared = Shared {
        cores: core::array::from_fn(|_| Core {
            queue: Mutex::new(queue()),
            halted: HaltFlag::new(),
            slice: Slice::new(),
            interrupted: AtomicBool::new(false),
            interrupt: Notify::new(),
        }),
        counts: Counts::new(),
        tasks: core::array::from_fn(|_| State {
            whereabouts: Whereabouts::new(),
            context: UnsafeCell::new(()),
            events: AtomicUsize::new(0),
            has_to_look: AtomicBool::new(false),
        }),
    };
}

fn queue() -> RunQueue<Task> {
    let mut queue = RunQueue::new();
    queue.try_reserve(TASKS).expect("memory");
    queue
}

struct Shared {
    cores: [Core; CORES],
    counts: Counts,
    tasks: [State; TASKS],
}

struct Core {
    queue: Mutex<RunQueue<Task>>,
    halted: HaltFlag,
    slice: Slice,
    /// There was an interrupt.
    interrupted: AtomicBool,
    /// It stays pending until the core halts.
    interrupt: Notify,
}

/// A task.
struct State {
    whereabouts: Whereabouts,
    /// Loom says so if two cores use it at once.
    context: UnsafeCell<()>,
    /// What it waits for. Relaxed, for the unpark publishes it.
    events: AtomicUsize,
    /// Whether it may run where it does, before it goes to ring 3.
    has_to_look: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Task(usize);

impl Task {
    fn state(self) -> &'static State {
        &NODE.tasks[self.0]
    }

    fn whereabouts(self) -> &'static Whereabouts {
        &self.state().whereabouts
    }

    /// Begins, on `core`.
    fn start(self, by: On, core: usize, allowed: CoreSet) {
        queues::start(&by, self, core, allowed);
    }

    /// Takes it out of all queues; of which cores these were.
    fn queued_on(self) -> Vec<usize> {
        let cores = NODE.cores.iter().enumerate();
        let take_out = |core: &Core| core.with_queue(|queue| queue.remove(&self));
        let times = |(cpu, core)| iter::from_fn(move || take_out(core).then_some(cpu));
        cores.flat_map(times).collect()
    }
}

impl queues::Task for Task {
    fn whereabouts(&self) -> &Whereabouts {
        &self.state().whereabouts
    }

    fn is_first(&self) -> bool {
        false
    }

    fn has_to_look(&self) {
        self.state().has_to_look.store(true, Ordering::SeqCst);
    }
}

impl queues::Core for Core {
    type Task = Task;

    fn with_queue<R>(&self, section: impl FnOnce(&mut RunQueue<Task>) -> R) -> R {
        let mut queue = self.queue.lock().expect("no test goes on after a panic");
        // As x86's locked instructions, by which the kernel takes its locks.
        fence(Ordering::SeqCst);
        section(&mut queue)
    }

    fn halted(&self) -> &HaltFlag {
        &self.halted
    }
}

/// The node, as core `0` or another sees it.
#[derive(Clone, Copy)]
struct On(usize);

impl queues::Node for On {
    type Core = Core;

    fn cores(&self) -> &[Core] {
        &NODE.cores
    }

    fn counts(&self) -> &Counts {
        &NODE.counts
    }

    fn here(&self) -> usize {
        self.0
    }

    fn share(&self, _: bool) {
        self.core().slice.share(|| SLICE_END);
    }

    fn is_shared(&self, cpu: usize) -> bool {
        NODE.cores[cpu].slice.is_shared()
    }

    fn interrupt(&self, cpu: usize) {
        NODE.cores[cpu].interrupted.store(true, Ordering::SeqCst);
        NODE.cores[cpu].interrupt.notify();
    }
}

impl On {
    fn core(self) -> &'static Core {
        &NODE.cores[self.0]
    }

    /// Takes a task, which this core runs from now on.
    fn next(self) -> Option<Task> {
        let task = queues::next(&self)?;
        task.state().whereabouts.enter(self.0);
        task.state().context.with_mut(drop);
        Some(task)
    }

    /// Halts, unless there is a task or `is_woken`.
    fn halt(self, is_woken: impl FnOnce() -> bool) {
        queues::halt(&self, self.core(), is_woken, || {
            self.core().interrupt.wait()
        });
    }

    /// As on the way to ring 3: whether `task`, which runs here, sees that it may not.
    fn sees_that_it_may_not(self, task: Task) -> bool {
        // As the lock of what the core has switched away from.
        fence(Ordering::SeqCst);
        let looks = task.state().has_to_look.swap(false, Ordering::SeqCst);
        looks && !task.whereabouts().allowed.contains(self.0)
    }

    /// Takes a task as soon as there is one.
    fn wait_for_task(self) -> Task {
        loop {
            match self.next() {
                Some(task) => return task,
                None => self.halt(|| false),
            }
        }
    }
}
