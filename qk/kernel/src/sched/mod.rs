//! Tasks and cores: which task runs where, and how a task waits.
//!
//! A task that waits *parks*; an event for it *unparks* it. As with threads of the same names, an unpark that comes first
//! is not lost (`qk_core::sched::park`). A parked task whose core has nothing else to run halts the core right where it is
//! ([`idle`]); there is no tick, and a halted core executes nothing. Where more tasks are runnable than cores, a core gives each a slice
//! of time in turn, by a one-shot timer that is gone when one is left.
//!
//! A task runs on the cores that it is allowed: on its last one if that is idle, else on any that is. The PCT runs on
//! whatever core has an event for it.
//!
//! # Locks
//! In this order: a rank's mailbox, its timers, its signals, a thread's signals, a core's timers, a core's run queue. There is
//! no waiting with one of them held, and no user memory of unknown size is touched.

mod idle;
mod queues;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hal::cpu::PerCpu;
use hal::sync::{Mutex, Once};
use hal::task::Context;
use hal::vectors::VEC_WAKE;
use qk_core::sched::CoreSet;
use qk_core::sched::halt_poll::HaltPoll;
use qk_core::sched::park::HaltFlag;
use qk_core::sched::queue::RunQueue;
use qk_core::sched::queues as run_queues;

use crate::host::ship;
use crate::thread::{self, Thread};
use crate::{preempt, rseq, shootdown, timer};

use idle::halt;
pub use idle::idle;
use queues::{Node, Runnable, next};
pub use queues::{is_wanted, make_room};

/// A task: a thread of a rank, or the PCT.
pub struct Task {
    whereabouts: run_queues::Whereabouts,
    context: Once<Box<Context>>,
    /// The core that it runs on or ran on last.
    ran_on: AtomicUsize,
    /// It enters ring 3 without having been in the kernel before.
    fresh: AtomicBool,
    /// The thread whose program it runs; none: the PCT's.
    thread: Once<&'static Thread>,
    /// The next waiter for the sleep lock that it waits for. Taken only with that lock's gate held.
    pub behind: Mutex<Option<&'static Task>>,
}

/// A core.
struct Core {
    idle: Once<Box<Context>>,
    queue: Mutex<RunQueue<Runnable>>,
    halted: HaltFlag,
    poll: HaltPoll,
    /// Tasks that may run here.
    tenants: AtomicUsize,
    /// The task that was switched away from, until the core is off its stack; and why.
    left: Mutex<Option<(&'static Task, Why)>>,
}

/// Why a task leaves its core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It waits.
    Parks,
    /// Others shall have a turn.
    Yields,
    /// It is over.
    Ends,
}

/// The task on each core.
static CURRENT: PerCpu<Task> = PerCpu::new();
static CORES: Once<Box<[Core]>> = Once::new();
static PCT: Once<Box<Task>> = Once::new();

/// Makes the cores.
pub fn init(cpus: usize) {
    let core = |_| Core {
        idle: Once::new(),
        queue: Mutex::new(RunQueue::new()),
        halted: HaltFlag::new(),
        poll: HaltPoll::new(),
        tenants: AtomicUsize::new(0),
        left: Mutex::new(None),
    };
    // BOUND: before the first program.
    let cores: Vec<Core> = (0..cpus).map(core).collect();
    let fresh = CORES.set(cores.into()).is_ok() && PCT.set(Box::new(Task::new())).is_ok();
    assert!(fresh, "scheduler set up twice");
    timer::init(cpus);
    ship::init(cpus);
    make_room(CoreSet::of(0, cpus), 1).expect("the heap has room for the PCT");
}

fn cores() -> &'static [Core] {
    CORES.get().expect("cores are made before they run")
}

#[inline]
fn core() -> &'static Core {
    &cores()[hal::cpu::id()]
}

/// The task on this core.
///
/// # Panics
/// When the core is idle.
#[inline]
pub fn current() -> &'static Task {
    CURRENT.get().expect("an idle core runs no task")
}

/// Whether this core runs `task`.
pub fn is_current(task: &Task) -> bool {
    CURRENT
        .get()
        .is_some_and(|current| core::ptr::eq(current, task))
}

/// The PCT's task.
pub fn pct() -> &'static Task {
    PCT.get().expect("made with the cores")
}

impl Task {
    /// A task that does not run yet.
    pub fn new() -> Task {
        Task {
            whereabouts: run_queues::Whereabouts::new(),
            context: Once::new(),
            ran_on: AtomicUsize::new(0),
            fresh: AtomicBool::new(false),
            thread: Once::new(),
            behind: Mutex::new(None),
        }
    }

    /// Makes its context, if it has none yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn make_context(&self) -> Result<(), Errno> {
        if self.context.get().is_none() {
            // No other core prepares the same task.
            let _ = self.context.set(Context::new_user().ok_or(Errno::ENOMEM)?);
        }
        Ok(())
    }

    /// Its context.
    ///
    /// # Panics
    /// Before [`Task::make_context`].
    pub fn context(&self) -> &Context {
        self.context.get().expect("made before the task begins")
    }

    /// Whether it has ended, and its core has left it.
    pub fn is_vacant(&self) -> bool {
        self.whereabouts.parking.is_vacant()
    }

    /// Makes it runnable: its context has begun. It starts on `core`, if that is allowed and nothing speaks against it.
    pub fn start(&'static self, thread: Option<&'static Thread>, core: usize, allowed: CoreSet) {
        if let Some(thread) = thread {
            let _ = self.thread.set(thread);
        }
        self.fresh.store(true, Ordering::Relaxed);
        run_queues::start(&Node, Runnable(self), core, allowed);
    }

    /// Where it may run.
    pub fn allowed(&self) -> CoreSet {
        self.whereabouts.allowed.load()
    }

    /// Changes where it may run; it goes there when it next could run, or when its core is notified.
    pub fn allow(&'static self, allowed: CoreSet) {
        run_queues::allow(&Node, Runnable(self), allowed);
    }

    /// The core that it runs on or ran on last.
    pub fn core(&self) -> usize {
        self.whereabouts.core()
    }

    fn may_run_here(&self) -> bool {
        self.whereabouts.allowed.contains(hal::cpu::id())
    }

    fn thread(&self) -> Option<&'static Thread> {
        self.thread.get().copied()
    }
}

/// Makes a parked task runnable, or lets its next [`park`] return at once.
pub fn unpark(task: &'static Task) {
    run_queues::unpark(&Node, Runnable(task));
}

/// As [`unpark`]; a task that runs on another core in ring 3 enters the kernel now.
pub fn interrupt(task: &'static Task) {
    run_queues::interrupt(&Node, Runnable(task));
}

/// Lets the PCT run, on this core if it waits.
pub fn unpark_pct() {
    run_queues::unpark_here(&Node, Runnable(pct()));
}

impl Core {
    fn idle_context(&self) -> &Context {
        self.idle
            .get()
            .expect("a core that runs tasks has an idle context")
    }
}

/// Waits for an [`unpark`] of this core's task. May return without one: callers look at what they wait for again.
///
/// Interrupts are let in: many tasks in turn may wait, or end, without one of them coming to ring 3.
pub fn park() {
    preempt::take_interrupts();
    ship::look_on();
    let task = current();
    if task.whereabouts.parking.take_token() {
        return;
    }
    match next() {
        Some(next) => leave(task, Why::Parks, Some(next)),
        // Whatever ended the halt may be an event for the caller, with an unpark or without.
        None => halt(),
    }
    let _ = task.whereabouts.parking.take_token(); // the caller looks now
}

/// Ends this core's task.
pub fn exit() -> ! {
    preempt::take_interrupts();
    // If the core was rung just now, this task was to look: what runs next was not, and may stay in ring 3.
    ship::look_on(); // before another task runs
    leave(current(), Why::Ends, next());
    unreachable!("a task that ended was scheduled")
}

/// Lets others on this core go before `task`, which it runs, if there are any; moves it to another core if this one is not allowed
/// any more.
#[inline]
pub fn yield_now(task: &'static Task) {
    match next() {
        Some(next) => leave(task, Why::Yields, Some(next)),
        None if !task.may_run_here() => leave(task, Why::Yields, None),
        None => timer::alone(),
    }
}

/// Whether `task`, which this core runs, should let others go first before it returns to ring 3.
#[inline]
pub fn should_yield(task: &Task) -> bool {
    timer::is_slice_over() || !task.may_run_here()
}

/// Switches from the running task to `next`, or to the idle context; returns when the task has a core again.
fn leave(task: &'static Task, why: Why, next: Option<&'static Task>) {
    let core = core();
    if let Some(thread) = task.thread() {
        thread.switched_out();
    }
    *core.left.lock() = Some((task, why));
    let from = task.context.get().expect("a running task has a context");
    switch(core, from, next, why == Why::Yields);
}

/// Switches to `next` or to the idle context; `shared`: what runs here now goes on here, as far as it may.
fn switch(core: &'static Core, from: &Context, next: Option<&'static Task>, shared: bool) {
    let to = match next {
        Some(next) => {
            enter(next, shared);
            next.context.get().expect("only started tasks are queued")
        }
        None => {
            CURRENT.set(None);
            thread::set_current(None);
            timer::alone();
            core.idle_context()
        }
    };
    hal::task::switch(from, to);
    arrived();
}

/// `next` is what this core runs from now on; `shared`: another task will wait for the core.
fn enter(next: &'static Task, shared: bool) {
    let here = hal::cpu::id();
    next.whereabouts.enter(here);
    let moved = next.ran_on.swap(here, Ordering::Relaxed) != here;
    CURRENT.set(Some(next));
    let thread = next.thread();
    thread::set_current(thread);
    let Some(thread) = thread else {
        return timer::alone();
    };
    shootdown::enter(thread.rank);
    thread.switched_in();
    if moved {
        rseq::interrupted(thread);
    }
    timer::enter(thread, shared);
}

/// What a core does as soon as it is off the stack of the task that it left.
extern "C" fn arrived() {
    let left = core().left.lock().take();
    if let Some((task, why)) = left {
        match why {
            Why::Ends => {
                task.whereabouts.parking.gone();
                // The main thread's number is the rank's for as long as it lives.
                if let Some(thread) = task.thread().filter(|thread| thread.index != 0) {
                    thread.rank.threads.release(thread.index);
                }
            }
            // The core that it prefers may be another one by now.
            Why::Parks | Why::Yields => {
                if task.whereabouts.parking.left(why == Why::Yields) {
                    run_queues::enqueue(&Node, Runnable(task));
                    // It got a slice's end set here, and went elsewhere.
                    let elsewhere = task.core() != hal::cpu::id();
                    if why == Why::Yields && elsewhere && !is_wanted() {
                        timer::alone();
                    }
                }
            }
        }
    }
    let Some(task) = CURRENT.get() else { return };
    if task.fresh.swap(false, Ordering::Relaxed)
        && let Some(thread) = task.thread()
        && thread.pending_work.load(Ordering::Relaxed)
    {
        // It goes straight to ring 3. An interrupt that strikes right there delivers what came meanwhile.
        hal::cpu::send_ipi(hal::cpu::id(), VEC_WAKE);
    }
}

/// What a task's context is to call when it begins.
pub const ARRIVED: hal::task::Arrived = arrived;
