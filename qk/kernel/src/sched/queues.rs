//! Run queues: where a runnable task goes, and what a core runs next.

use core::sync::atomic::{AtomicUsize, Ordering};

use abi::Errno;
use hal::vectors::VEC_WAKE;
use qk_core::sched::CoreSet;

use super::{HALTED, Task, core, cores, pct};
use crate::{preempt, ship, timer};

/// Tasks in all run queues: idle cores look at others' only when there are any.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Tasks of each other core that an idle one looks at before it halts. There may be a thousand that may not run here, and those that
/// may come to the front in their turn.
const LOOKS: usize = 8;

/// A task, compared by identity.
#[derive(Clone, Copy)]
pub(super) struct Runnable(&'static Task);

impl PartialEq for Runnable {
    fn eq(&self, other: &Runnable) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Runnable {}

/// Puts a runnable task into the queue of the core that suits it best.
pub(super) fn enqueue(task: &'static Task) {
    // BOUND: again only when the task's cores were changed meanwhile.
    loop {
        let cpu = place(task);
        task.core.store(cpu, Ordering::Release);
        push(task, cpu);
        // Where it is allowed may have changed meanwhile, and the change has not found it in a queue.
        if task.allowed.contains(cpu) || !take_back(task, cpu) {
            return;
        }
    }
}

/// Takes a task out of the queue of core `cpu`; `false`: it was not there any more.
pub(super) fn take_back(task: &'static Task, cpu: usize) -> bool {
    let taken = cores()[cpu].queue.lock().remove(&Runnable(task));
    if taken {
        QUEUED.fetch_sub(1, Ordering::Relaxed);
    }
    taken
}

/// Puts a runnable task into the queue of core `cpu`. The PCT goes before all others: while ranks compute there, each step
/// of loading another would else take a slice of every one of them.
pub(super) fn push(task: &'static Task, cpu: usize) {
    let first = core::ptr::eq(task, pct());
    let core = &cores()[cpu];
    QUEUED.fetch_add(1, Ordering::Relaxed);
    {
        let mut queue = core.queue.lock();
        if first {
            queue.push_front(Runnable(task));
        } else {
            queue.push(Runnable(task));
        }
    }
    // The task that runs there has to share from now on, or halts.
    if cpu == hal::cpu::id() {
        // Also when its task halts: what it waits for may have come with the same interrupt, and then it goes on.
        if first {
            timer::end_slice();
        } else {
            timer::share();
        }
    } else if core.halted.is_set() || !timer::is_shared(cpu) {
        hal::cpu::send_ipi(cpu, VEC_WAKE);
    }
}

/// The core for a task that becomes runnable: its last one if it is idle, else any idle one, else its last one.
fn place(task: &Task) -> usize {
    let last = task.core.load(Ordering::Relaxed);
    if HALTED.load(Ordering::Relaxed) == 0 && task.allowed.contains(last) {
        return last;
    }
    let allowed = task.allowed.load();
    let idle = |cpu: usize| {
        let core = &cores()[cpu];
        core.halted.is_set() && core.queue.lock().is_empty()
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

/// The next task for this core: of its own queue, else of another's that may run here.
#[inline]
pub(super) fn next() -> Option<&'static Task> {
    if QUEUED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    take()
}

#[inline(never)] // Mostly no task waits.
fn take() -> Option<&'static Task> {
    let (core, here) = (core(), hal::cpu::id());
    let may_run = |task: &Runnable| task.0.allowed.contains(here);
    let own = core.queue.lock().pop(may_run);
    let Runnable(task) = match own {
        Some(task) => task,
        None => {
            let mut others = cores().iter().filter(|other| !core::ptr::eq(*other, core));
            // BOUND: the cores, and LOOKS tasks of each.
            others.find_map(|other| other.queue.lock().pop_among(LOOKS, may_run))?
        }
    };
    QUEUED.fetch_sub(1, Ordering::Relaxed);
    Some(task)
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
        // Counted first: another call that makes room at the same time makes it for both.
        let tenants = cores()[cpu].tenants.fetch_add(tasks, Ordering::SeqCst) + tasks;
        if let Err(errno) = make_room_on(cpu, tenants) {
            let so_far = allowed.iter().take_while(|other| *other <= cpu);
            // BOUND: the cores.
            so_far.for_each(|cpu| _ = cores()[cpu].tenants.fetch_sub(tasks, Ordering::SeqCst));
            return Err(errno);
        }
    }
    Ok(())
}

/// Each list may have to be moved as a whole.
fn make_room_on(cpu: usize, tenants: usize) -> Result<(), Errno> {
    const MOVED_WORDS: u32 = 6; // of a tenant, at most
    let work = MOVED_WORDS * tenants as u32;
    cores()[cpu].queue.lock().try_reserve(tenants)?;
    preempt::point(work);
    timer::make_room(cpu, tenants)?;
    preempt::point(work);
    ship::make_room(cpu, tenants)?;
    preempt::point(work);
    Ok(())
}
