//! Tasks and cores, and what the scheduler has done for others: it knows nothing of ranks, threads, timers and the host.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::Errno;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hal::cpu::PerCpu;
use hal::sync::{Mutex, Once, class};
use hal::task::Context;
use qk_core::sched::CoreSet;
use qk_core::sched::park::HaltFlag;
use qk_core::sched::queue::RunQueue;
use qk_core::sched::queues as run_queues;
use wire::boot::MAX_CPUS;
use wire::trial::Trial;

/// Whose task it is: what is done for that as the task gets cores, with interrupts off. It leaves a core when another owner's task enters
/// that, or the core is [vacant](Hooks::vacant).
pub trait Owner: Sync {
    /// The task has this core from now on. `moved`: it ran on another one before. `shared`: the task before it will wait for the core.
    fn enters(&'static self, moved: bool, shared: bool);

    /// It has ended, and its core has left its stack.
    fn gone(&self);

    /// Something is to be done before it goes back to ring 3.
    fn note_work(&self);

    /// Whether something is.
    fn has_work(&self) -> bool;
}

/// What the scheduler has done besides.
pub struct Hooks {
    /// This core runs no task of an [`Owner`] from now on.
    pub vacant: fn(),
    /// Sets this core's timer anew: its slice begins earlier, or ends.
    pub arm: fn(),
    /// Does what an interrupt has left to this core's task ([`leave_work`]).
    pub left_work: fn(),
    /// Makes room on a core wherever so many tasks may be listed.
    pub make_room: fn(usize, usize) -> Result<(), Errno>,
}

/// A task: a thread of a rank, or the PCT.
pub struct Task {
    pub(super) whereabouts: run_queues::Whereabouts,
    pub(super) context: Once<Box<Context>>,
    /// The core that it runs on or ran on last.
    pub(super) ran_on: AtomicUsize,
    /// It enters ring 3 without having been in the kernel before.
    pub(super) fresh: AtomicBool,
    /// Whose it is; none: the PCT's.
    pub(super) owner: Once<&'static dyn Owner>,
    /// The next waiter for the sleep lock that it waits for. Taken only with that lock's gate held.
    pub behind: Mutex<Option<&'static Task>, class::Behind>,
}

/// A task, compared by identity.
#[derive(Clone, Copy)]
pub(super) struct Runnable(pub &'static Task);

impl PartialEq for Runnable {
    fn eq(&self, other: &Runnable) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Runnable {}

/// A core.
pub(super) struct Core {
    pub(super) idle: Once<Box<Context>>,
    pub(super) queue: Mutex<RunQueue<Runnable>, class::RunQueue>,
    pub(super) halted: HaltFlag,
    pub(super) poll: Trial,
    /// Tasks that may run here.
    pub(super) tenants: AtomicUsize,
    /// The task that was switched away from, until the core is off its stack; and why.
    pub(super) left: Mutex<Option<(&'static Task, Why)>, class::Left>,
}

/// Why a task leaves its core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It waits.
    Parks,
    /// Others shall have a turn.
    Yields,
    /// It is over.
    Ends,
}

/// The task on each core.
pub(super) static CURRENT: PerCpu<Task> = PerCpu::new();
static CORES: Once<Box<[Core]>> = Once::new();
static PCT: Once<Box<Task>> = Once::new();
static HOOKS: Once<Hooks> = Once::new();

/// Makes the cores and the PCT's task, which have no room yet.
pub(super) fn init(cpus: usize, hooks: Hooks) {
    let core = |_| Core {
        idle: Once::new(),
        queue: Mutex::new(RunQueue::new()),
        halted: HaltFlag::new(),
        poll: Trial::new(),
        tenants: AtomicUsize::new(0),
        left: Mutex::new(None),
    };
    // BOUND: before the first program.
    let cores: Vec<Core> = (0..cpus).map(core).collect();
    let fresh = CORES.set(cores.into()).is_ok() && PCT.set(Box::new(Task::new())).is_ok();
    assert!(fresh, "scheduler set up twice");
    assert!(HOOKS.set(hooks).is_ok(), "scheduler set up twice");
}

/// Of each core: an interrupt has left work to its task.
static LEFT_WORK: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// An interrupt on this core leaves work to the core's task, or there is none any more.
pub fn leave_work(is_left: bool) {
    LEFT_WORK[hal::cpu::id()].store(is_left, Ordering::Relaxed);
}

/// Whether some is left.
#[inline]
pub fn has_left_work() -> bool {
    LEFT_WORK[hal::cpu::id()].load(Ordering::Relaxed)
}

/// Has this core's timer set anew.
pub fn rearm() {
    (hooks().arm)();
}

pub(super) fn hooks() -> &'static Hooks {
    HOOKS.get().expect("set with the cores")
}

pub(super) fn cores() -> &'static [Core] {
    CORES.get().expect("cores are made before they run")
}

#[inline]
pub(super) fn core() -> &'static Core {
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

/// Whether others wait for this core.
pub fn is_wanted() -> bool {
    !core().queue.lock().is_empty()
}

/// Whether this core runs a task of an owner's.
pub(super) fn is_owned() -> bool {
    CURRENT.get().is_some_and(|task| task.owner().is_some())
}

impl Task {
    /// A task that does not run yet.
    pub fn new() -> Task {
        Task {
            whereabouts: run_queues::Whereabouts::new(),
            context: Once::new(),
            ran_on: AtomicUsize::new(0),
            fresh: AtomicBool::new(false),
            owner: Once::new(),
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

    /// Where it may run.
    pub fn allowed(&self) -> CoreSet {
        self.whereabouts.allowed.load()
    }

    /// The core that it runs on or ran on last.
    pub fn core(&self) -> usize {
        self.whereabouts.core()
    }

    pub(super) fn may_run_here(&self) -> bool {
        self.whereabouts.allowed.contains(hal::cpu::id())
    }

    pub(super) fn owner(&self) -> Option<&'static dyn Owner> {
        self.owner.get().copied()
    }
}

impl Core {
    pub(super) fn idle_context(&self) -> &Context {
        self.idle
            .get()
            .expect("a core that runs tasks has an idle context")
    }
}
