//! What the run queues of `qk_core::sched::queues` are here, and their memory.

use core::sync::atomic::Ordering;

use abi::Errno;
use hal::vectors::VEC_WAKE;
use qk_core::sched::CoreSet;
use qk_core::sched::park::HaltFlag;
use qk_core::sched::queue::RunQueue;
use qk_core::sched::queues::{self, Counts, Whereabouts};

use super::slices;
use super::task::{Core, Owner, Runnable, Task, cores, hooks, pct};
use crate::preempt;

static COUNTS: Counts = Counts::new();

impl queues::Task for Runnable {
    fn whereabouts(&self) -> &Whereabouts {
        &self.0.whereabouts
    }

    /// The PCT goes before all others: while ranks compute there, each step of loading another would else take a slice of every one
    /// of them.
    fn is_first(&self) -> bool {
        core::ptr::eq(self.0, pct())
    }

    fn has_to_look(&self) {
        if let Some(owner) = self.0.owner() {
            owner.note_work();
        }
    }
}

impl queues::Core for Core {
    type Task = Runnable;

    fn with_queue<R>(&self, section: impl FnOnce(&mut RunQueue<Runnable>) -> R) -> R {
        section(&mut self.queue.lock())
    }

    fn halted(&self) -> &HaltFlag {
        &self.halted
    }
}

/// The node, as this core sees it.
pub(super) struct Node;

impl queues::Node for Node {
    type Core = Core;

    fn cores(&self) -> &[Core] {
        cores()
    }

    fn counts(&self) -> &Counts {
        &COUNTS
    }

    fn here(&self) -> usize {
        hal::cpu::id()
    }

    /// Also when the PCT's task halts: what it waits for may have come with the same interrupt, and then it goes on.
    fn share(&self, first: bool) {
        if first {
            slices::end();
        } else {
            slices::share();
        }
    }

    fn is_shared(&self, cpu: usize) -> bool {
        slices::is_shared(cpu)
    }

    fn interrupt(&self, cpu: usize) {
        hal::cpu::send_ipi(cpu, VEC_WAKE);
    }
}

/// The next task for this core: of its own queue, else of another's that may run here.
#[inline]
pub(super) fn next() -> Option<&'static Task> {
    queues::next(&Node).map(|task| task.0)
}

/// Makes room for `tasks` more that may run on any of `allowed`: wherever a core lists them.
///
/// # Errors
/// ENOMEM.
pub fn make_room(allowed: CoreSet, tasks: usize) -> Result<(), Errno> {
    // BOUND: the cores.
    for cpu in allowed.iter() {
        let core = &cores()[cpu];
        // Counted first: another call that makes room at the same time makes it for both.
        let tenants = core.tenants.fetch_add(tasks, Ordering::SeqCst) + tasks;
        if let Err(errno) = make_room_on(core, cpu, tenants) {
            let so_far = allowed.iter().take_while(|other| *other <= cpu);
            // BOUND: the cores.
            so_far.for_each(|cpu| _ = cores()[cpu].tenants.fetch_sub(tasks, Ordering::SeqCst));
            return Err(errno);
        }
    }
    Ok(())
}

/// What moving a list of so many tenants as a whole counts at preemption points.
pub const fn moving_work(tenants: usize) -> u32 {
    const MOVED_WORDS: u32 = 6; // of a tenant, at most
    MOVED_WORDS * tenants as u32
}

/// Each list may have to be moved as a whole.
fn make_room_on(core: &Core, cpu: usize, tenants: usize) -> Result<(), Errno> {
    core.queue.lock().try_reserve(tenants)?;
    preempt::point(moving_work(tenants));
    (hooks().make_room)(cpu, tenants)
}

/// Makes a task of `owner`'s runnable: its context has begun. It starts on `core`, if that is allowed and nothing speaks against it.
/// `None`: it is the PCT's.
pub fn start(
    task: &'static Task,
    owner: Option<&'static dyn Owner>,
    core: usize,
    allowed: CoreSet,
) {
    if let Some(owner) = owner {
        let _ = task.owner.set(owner);
    }
    task.fresh.store(true, Ordering::Relaxed);
    queues::start(&Node, Runnable(task), core, allowed);
}

/// Changes where a task may run; it goes there when it next could run, or when its core is notified.
pub fn allow(task: &'static Task, allowed: CoreSet) {
    queues::allow(&Node, Runnable(task), allowed);
}

/// Makes a parked task runnable, or lets its next [`park`] return at once.
pub fn unpark(task: &'static Task) {
    queues::unpark(&Node, Runnable(task));
}

/// As [`unpark`]; a task that runs on another core in ring 3 enters the kernel now.
pub fn interrupt(task: &'static Task) {
    queues::interrupt(&Node, Runnable(task));
}

/// Lets the PCT run, on this core if it waits.
pub fn unpark_pct() {
    queues::unpark_here(&Node, Runnable(pct()));
}
