//! What the run queues of `qk_core::sched::queues` are here, and their memory.

use core::sync::atomic::Ordering;

use abi::Errno;
use hal::vectors::VEC_WAKE;
use qk_core::sched::CoreSet;
use qk_core::sched::park::HaltFlag;
use qk_core::sched::queue::RunQueue;
use qk_core::sched::queues::{self, Counts, Whereabouts};

use super::{Core, Task, core, cores, pct};
use crate::host::ship;
use crate::{preempt, timer};

static COUNTS: Counts = Counts::new();

/// A task, compared by identity.
#[derive(Clone, Copy)]
pub(super) struct Runnable(pub &'static Task);

impl PartialEq for Runnable {
    fn eq(&self, other: &Runnable) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Runnable {}

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
        if let Some(thread) = self.0.thread() {
            thread.pending_work.store(true, Ordering::SeqCst);
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
            timer::end_slice();
        } else {
            timer::share();
        }
    }

    fn is_shared(&self, cpu: usize) -> bool {
        timer::is_shared(cpu)
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

/// Whether others wait for this core.
pub fn is_wanted() -> bool {
    !core().queue.lock().is_empty()
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

/// Each list may have to be moved as a whole.
fn make_room_on(core: &Core, cpu: usize, tenants: usize) -> Result<(), Errno> {
    const MOVED_WORDS: u32 = 6; // of a tenant, at most
    let work = MOVED_WORDS * tenants as u32;
    core.queue.lock().try_reserve(tenants)?;
    preempt::point(work);
    timer::make_room(cpu, tenants)?;
    preempt::point(work);
    ship::make_room(cpu, tenants)?;
    preempt::point(work);
    Ok(())
}
