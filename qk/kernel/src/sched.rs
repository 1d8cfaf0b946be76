//! Tasks and cores: who runs where, and how a task waits.
//!
//! A task that waits *parks*; whoever has news *unparks* it. As with threads of the same names, an unpark that comes first
//! is not lost. A parked task whose core has nothing else to run halts the core right where it is; there is no tick, and
//! an idle core executes nothing. Rank tasks stay on their core; the PCT runs on whatever core has news for it, which is
//! always one that its rank has left or not yet begun to use.
//!
//! Task numbers: thread 0 of rank r is task r; the PCT comes after the last rank.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::map::MAX_RANKS;
use alloc::boxed::Box;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use hal::sync::{Mutex, Once};
use hal::task::Context;
use hal::vectors::VEC_WAKE;
use wire::boot::MAX_CPUS;

use crate::{events, stats};

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On its core: running, or halted in [`park`].
    Core,
    /// In its core's queue.
    Queue,
    /// Waiting to be unparked, its context complete.
    Parked,
    /// Ended.
    Gone,
}

struct Task {
    context: Once<Box<Context>>,
    core: AtomicUsize,
    /// Guarded by the lock of its core's queue.
    state: Mutex<(Place, bool)>,
}

/// A core.
struct Core {
    idle: Once<Box<Context>>,
    queue: Mutex<ArrayVec<usize, 16>>,
    halted: AtomicBool,
}

const IDLE: usize = usize::MAX;

/// The task on each core; [`IDLE`]: none. On its own because every system call asks for it.
static CURRENT: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(IDLE) }; MAX_CPUS];

static TASKS: Once<Box<[Task]>> = Once::new();
static CORES: Once<Box<[Core]>> = Once::new();

/// Makes room for the tasks of `ranks` ranks and the PCT, on `cpus` cores.
pub fn init(ranks: usize, cpus: usize) {
    assert!(ranks <= MAX_RANKS);
    let task = |_| Task {
        context: Once::new(),
        core: AtomicUsize::new(0),
        state: Mutex::new((Place::Parked, false)),
    };
    let core = |_| Core {
        idle: Once::new(),
        queue: Mutex::new(ArrayVec::new()),
        halted: AtomicBool::new(false),
    };
    let tasks: Vec<Task> = (0..=ranks).map(task).collect();
    let cores: Vec<Core> = (0..cpus).map(core).collect();
    let fresh = TASKS.set(tasks.into()).is_ok() && CORES.set(cores.into()).is_ok();
    assert!(fresh, "scheduler set up twice");
}

#[inline]
fn tasks() -> &'static [Task] {
    TASKS.get().map_or(&[], |tasks| tasks)
}

#[inline]
fn core() -> &'static Core {
    &CORES.get().expect("cores are made before they run")[hal::cpu::id()]
}

/// The task on this core; a number that is no task's when it is idle.
#[inline]
pub fn current() -> usize {
    CURRENT[hal::cpu::id()].load(Ordering::Relaxed)
}

fn set_current(task: usize) {
    CURRENT[hal::cpu::id()].store(task, Ordering::Relaxed);
    crate::rank::set_current(task);
}

/// The PCT's task.
#[inline]
pub fn pct() -> usize {
    tasks().len() - 1
}

/// Gives a task its context and core, and makes it runnable.
///
/// # Panics
/// When the task was started before.
pub fn start(task: usize, context: Box<Context>, cpu: usize) {
    let t = &tasks()[task];
    assert!(t.context.set(context).is_ok(), "task started twice");
    t.core.store(cpu, Ordering::Release);
    unpark(task);
}

/// Whether a task has been started.
pub fn is_started(task: usize) -> bool {
    tasks()[task].context.get().is_some()
}

/// Makes a parked task runnable, or lets its next [`park`] return at once.
pub fn unpark(task: usize) {
    let t = &tasks()[task];
    let mut cpu = t.core.load(Ordering::Acquire);
    let target = loop {
        let target = &CORES.get().expect("cores are made before they run")[cpu];
        let mut queue = target.queue.lock();
        let mut state = t.state.lock();
        // The task may have moved before its state was locked: another core would be woken in vain.
        let now = t.core.load(Ordering::Acquire);
        if now != cpu {
            cpu = now;
            continue;
        }
        state.1 = true;
        if state.0 == Place::Parked && t.context.get().is_some() {
            state.0 = Place::Queue;
            queue.push(task);
        }
        break target;
    };
    if cpu != hal::cpu::id() && target.halted.load(Ordering::SeqCst) {
        hal::cpu::send_ipi(cpu, VEC_WAKE);
    }
}

/// Lets the PCT run, on this core if it is not on a core already.
pub fn unpark_pct() {
    let t = &tasks()[pct()];
    {
        // Locked until the core is set: once it is queued, it stays where it is.
        let state = t.state.lock();
        if state.0 == Place::Parked {
            t.core.store(hal::cpu::id(), Ordering::Release);
        }
    }
    unpark(pct());
}

/// Waits for an [`unpark`] of this core's task. May return without one: callers look at what they wait for again.
pub fn park() {
    let core = core();
    let task = &tasks()[current()];
    if core::mem::take(&mut task.state.lock().1) {
        return;
    }
    if core.queue.lock().is_empty() {
        // Whatever ended the halt may be news for the caller, with an unpark or without: while a task halts here, the
        // idle context, which would look for proxies that attach, does not run.
        halt(core);
    } else {
        leave(core, task);
    }
    task.state.lock().1 = false;
}

/// Ends this core's task: it is never scheduled again.
pub fn exit() -> ! {
    let core = core();
    let task = &tasks()[current()];
    task.state.lock().0 = Place::Gone;
    leave(core, task);
    unreachable!("a task that ended was scheduled")
}

/// Gives the core to its idle context, which gives it to the next task. Only there is the task's context complete, so only
/// there does it become visible as parked: another core may continue it.
fn leave(core: &Core, task: &Task) {
    let context = task.context.get().expect("a running task has a context");
    hal::task::switch(
        context,
        core.idle
            .get()
            .expect("a core that runs tasks has an idle context"),
    );
}

fn run(core: &Core, number: usize) {
    let task = &tasks()[number];
    task.core.store(hal::cpu::id(), Ordering::Release);
    task.state.lock().0 = Place::Core;
    set_current(number);
    crate::rank::interrupt_if_wanted();
    hal::task::switch(
        core.idle.get().expect("the idle context runs this"),
        task.context.get().expect("only started tasks are queued"),
    );
    set_current(IDLE);
    let mut queue = core.queue.lock();
    let mut state = task.state.lock();
    match *state {
        (Place::Gone, _) => {}
        (_, true) => {
            state.0 = Place::Queue;
            // The PCT before the rank that it just started: that one may never leave the core.
            let place = if number == pct() { 0 } else { queue.len() };
            queue.insert(place, number);
        }
        (_, false) => state.0 = Place::Parked,
    }
}

fn halt(core: &Core) {
    core.halted.store(true, Ordering::SeqCst);
    // Somebody may have pushed before we said that we halt; an interrupt after this look ends the halt.
    if core.queue.lock().is_empty() && !woken() {
        stats::halting(hal::cpu::halt);
    }
    core.halted.store(false, Ordering::SeqCst);
}

/// Whether the task on this core has been unparked.
fn woken() -> bool {
    tasks()
        .get(current())
        .is_some_and(|task| task.state.lock().1)
}

/// Lets others on this core go first, if there are any.
pub fn yield_now() {
    let core = core();
    if !core.queue.lock().is_empty() {
        unpark(current());
        leave(core, &tasks()[current()]);
        // That unpark was our own.
        tasks()[current()].state.lock().1 = false;
    }
}

/// What every core does when it has nothing to do, on the stack it started on.
pub fn idle() -> ! {
    let core = core();
    assert!(
        core.idle.set(hal::task::adopt()).is_ok(),
        "core started twice"
    );
    hal::cpu::set_entry_counter(hal::cpu::id(), stats::here().entries.as_atomic());
    stats::section_starts();
    loop {
        events::look();
        let next = core.queue.lock().pop_at(0);
        match next {
            Some(next) => run(core, next),
            None => halt(core),
        }
    }
}
