//! The run queues of all cores: where a runnable task goes, what a core runs next, and how it halts.
//!
//! Each core has a queue with a lock of its own, and no two of these locks are held at once. Any core puts tasks into any queue
//! and, when its own has none, takes them out of any. Whoever takes a task out of a queue, under its lock, is the only one who
//! runs it or puts it into another.
//!
//! What is not under a lock:
//!
//! - A task's core says whose queue it is in. It is written before the task is put there, and who changes where the task may run
//!   reads it after that. Who puts a task into a queue looks afterwards whether it may run there: one of the two sees the other.
//! - [`Counts::queued`] is never less than the tasks in all queues: counted before a task is put in, and after it was taken out.
//! - [`Counts::halted`] is a hint: a core that has just halted may be overlooked, which then stays idle until the next task.
//! - A core that halts has announced it and then looked at its queue ([`HaltFlag`]); one that stops its slices likewise
//!   ([`super::slice`]). Who puts a task into its queue looks at both afterwards.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::park::{HaltFlag, Parking, Unparked};
use super::queue::RunQueue;
use super::{AtomicCoreSet, CoreSet};
use crate::sync::{AtomicUsize, order};

/// Tasks of each other core that an idle one looks at before it halts. There may be a thousand that may not run here, and those that
/// may come to the front in their turn.
const LOOKS: usize = 8;

/// Where a task is, and where it may be.
#[derive(Debug)]
pub struct Whereabouts {
    /// Whether it runs, waits or has ended.
    pub parking: Parking,
    /// The core that it runs on or ran on last, or whose queue it is in.
    core: AtomicUsize,
    /// The cores that it may use.
    pub allowed: AtomicCoreSet,
}

impl Whereabouts {
    /// Of a task that has not begun.
    #[must_use]
    pub fn new() -> Whereabouts {
        Whereabouts {
            parking: Parking::vacant(),
            core: AtomicUsize::new(0),
            allowed: AtomicCoreSet::new(),
        }
    }

    /// The core that it runs on or ran on last, or whose queue it is in. Read after a change of `parking` or `allowed`, which on
    /// x86 are locked instructions: a core that has not seen that change has been seen here.
    pub fn core(&self) -> usize {
        order();
        self.core.load(Acquire)
    }

    /// Core `here`, which took it from a queue, runs it from now on.
    #[inline]
    pub fn enter(&self, here: usize) {
        self.parking.run();
        self.core.store(here, Release);
    }
}

impl Default for Whereabouts {
    fn default() -> Whereabouts {
        Whereabouts::new()
    }
}

/// A task, as a handle.
pub trait Task: Copy + Eq {
    /// Where it is.
    fn whereabouts(&self) -> &Whereabouts;

    /// Whether it goes before all others.
    fn is_first(&self) -> bool;

    /// Before it goes on in ring 3 it has to look whether it may run where it is.
    fn has_to_look(&self);
}

/// A core, as all see it.
pub trait Core {
    /// What it runs.
    type Task: Task;

    /// Does something with its queue, which is locked meanwhile.
    fn with_queue<R>(&self, section: impl FnOnce(&mut RunQueue<Self::Task>) -> R) -> R;

    /// Whether it halts.
    fn halted(&self) -> &HaltFlag;
}

/// How many there are of all cores.
#[derive(Debug)]
pub struct Counts {
    /// Tasks in all queues: idle cores look at others' only when there are any.
    queued: AtomicUsize,
    /// Cores that halt, or are about to.
    halted: AtomicUsize,
}

impl Counts {
    /// None.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Counts {
        Counts {
            queued: AtomicUsize::new(0),
            halted: AtomicUsize::new(0),
        }
    }

    /// None.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Counts {
        Counts {
            queued: AtomicUsize::new(0),
            halted: AtomicUsize::new(0),
        }
    }
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::new()
    }
}

/// The node, as the core sees it that executes this.
pub trait Node {
    /// Its cores.
    type Core: Core;

    /// All of them.
    fn cores(&self) -> &[Self::Core];

    /// Of all of them.
    fn counts(&self) -> &Counts;

    /// The number of this core.
    fn here(&self) -> usize;

    /// A task waits for this core, which `first` is to have at once.
    fn share(&self, first: bool);

    /// Whether what runs on core `cpu` has a slice only.
    fn is_shared(&self, cpu: usize) -> bool;

    /// Interrupts core `cpu`, which is another: it ends its halt, or sees that a task waits.
    fn interrupt(&self, cpu: usize);
}

type TaskOf<N> = <<N as Node>::Core as Core>::Task;

/// Begins a task whose context has begun and that is not queued: on `core`, if that is allowed and nothing speaks against it.
pub fn start<N: Node>(node: &N, task: TaskOf<N>, core: usize, allowed: CoreSet) {
    let its = task.whereabouts();
    its.core.store(core, Relaxed);
    its.allowed.store(allowed);
    // Until now unparks did nothing: there was no context to run.
    its.parking.reuse();
    unpark(node, task);
}

/// Makes a parked task runnable, or lets its next park return at once.
pub fn unpark<N: Node>(node: &N, task: TaskOf<N>) {
    let its = task.whereabouts();
    match its.parking.unpark() {
        Unparked::Queue => enqueue(node, task),
        Unparked::OnCore => wake(node, its.core()),
        Unparked::Nothing => {}
    }
}

/// The same, but a parked one goes into this core's queue, where it is allowed.
pub fn unpark_here<N: Node>(node: &N, task: TaskOf<N>) {
    let its = task.whereabouts();
    match its.parking.unpark() {
        Unparked::Queue => {
            its.core.store(node.here(), Release);
            push(node, task, node.here());
        }
        Unparked::OnCore => wake(node, its.core()),
        Unparked::Nothing => {}
    }
}

/// As [`unpark`]; a task that runs on another core in ring 3 enters the kernel now.
pub fn interrupt<N: Node>(node: &N, task: TaskOf<N>) {
    unpark(node, task);
    let cpu = task.whereabouts().core();
    if cpu != node.here() && !node.cores()[cpu].halted().is_set() {
        node.interrupt(cpu);
    }
}

/// Ends a halt of core `cpu`.
fn wake<N: Node>(node: &N, cpu: usize) {
    if cpu != node.here() && node.cores()[cpu].halted().is_set() {
        node.interrupt(cpu);
    }
}

/// Changes where a task may run; it goes there when it next could run, or when its core is notified.
pub fn allow<N: Node>(node: &N, task: TaskOf<N>, allowed: CoreSet) {
    let its = task.whereabouts();
    its.allowed.store(allowed);
    // It may wait on a core without leaving it, or another core may have taken it just before.
    task.has_to_look();
    let cpu = its.core();
    if !allowed.contains(cpu) && take_back(node, task, cpu) {
        enqueue(node, task);
    }
}

/// Puts a runnable task into the queue of the core that suits it best.
pub fn enqueue<N: Node>(node: &N, task: TaskOf<N>) {
    let its = task.whereabouts();
    // BOUND: again only when the task's cores were changed meanwhile.
    loop {
        let cpu = place(node, its);
        its.core.store(cpu, Release);
        push(node, task, cpu);
        // Where it is allowed may have changed meanwhile, and the change has not found it in a queue.
        if its.allowed.contains(cpu) || !take_back(node, task, cpu) {
            return;
        }
    }
}

/// Takes a task out of the queue of core `cpu`; `false`: it was not there any more.
fn take_back<N: Node>(node: &N, task: TaskOf<N>, cpu: usize) -> bool {
    let taken = node.cores()[cpu].with_queue(|queue| queue.remove(&task));
    if taken {
        node.counts().queued.fetch_sub(1, Relaxed);
    }
    taken
}

/// Puts a runnable task into the queue of core `cpu`, and notifies that core.
fn push<N: Node>(node: &N, task: TaskOf<N>, cpu: usize) {
    let first = task.is_first();
    let core = &node.cores()[cpu];
    node.counts().queued.fetch_add(1, Relaxed);
    core.with_queue(|queue| {
        if first {
            queue.push_front(task);
        } else {
            queue.push(task);
        }
    });
    // The task that runs there has to share from now on, or halts.
    if cpu == node.here() {
        node.share(first);
    } else if core.halted().is_set() || !node.is_shared(cpu) {
        node.interrupt(cpu);
    }
}

/// The core for a task that becomes runnable: its last one if it is idle, else any idle one, else its last one.
fn place<N: Node>(node: &N, its: &Whereabouts) -> usize {
    let last = its.core.load(Relaxed);
    if node.counts().halted.load(Relaxed) == 0 && its.allowed.contains(last) {
        return last;
    }
    let allowed = its.allowed.load();
    let idle = |cpu: usize| {
        let core = &node.cores()[cpu];
        core.halted().is_set() && core.with_queue(|queue| queue.is_empty())
    };
    let usable = allowed.contains(last);
    if usable && (allowed.len() == 1 || idle(last)) {
        return last;
    }
    // BOUND: the cores.
    match allowed.iter().find(|cpu| idle(*cpu)) {
        Some(cpu) => cpu,
        None if usable => last,
        None => allowed.first().unwrap_or(last),
    }
}

/// The next task for this core: of its own queue, else of another's that may run here. The caller runs it.
#[inline]
pub fn next<N: Node>(node: &N) -> Option<TaskOf<N>> {
    if node.counts().queued.load(Relaxed) == 0 {
        return None;
    }
    take(node)
}

#[inline(never)] // Mostly no task waits.
fn take<N: Node>(node: &N) -> Option<TaskOf<N>> {
    let here = node.here();
    let core = &node.cores()[here];
    let may_run = |task: &TaskOf<N>| task.whereabouts().allowed.contains(here);
    let own = core.with_queue(|queue| queue.pop(may_run));
    let task = match own {
        Some(task) => task,
        None => {
            let mut others = node
                .cores()
                .iter()
                .filter(|other| !core::ptr::eq(*other, core));
            // BOUND: the cores, and LOOKS tasks of each.
            others.find_map(|other| other.with_queue(|queue| queue.pop_among(LOOKS, may_run)))?
        }
    };
    node.counts().queued.fetch_sub(1, Relaxed);
    Some(task)
}

/// Halts `core`, which is this one, until an interrupt, unless it has something to do: a task in its queue, or `is_woken`.
pub fn halt<N: Node>(
    node: &N,
    core: &N::Core,
    is_woken: impl FnOnce() -> bool,
    halt: impl FnOnce(),
) {
    node.counts().halted.fetch_add(1, Relaxed);
    core.halted().announce();
    // Another core may have pushed before the flag was set that this core halts; an interrupt after this look ends the halt.
    let woken = is_woken();
    if core.with_queue(|queue| queue.is_empty()) && !woken {
        halt();
    }
    core.halted().withdraw();
    node.counts().halted.fetch_sub(1, Relaxed);
}
