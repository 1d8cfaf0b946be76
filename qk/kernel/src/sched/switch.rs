//! Getting from one task to the next.

use core::sync::atomic::Ordering;

use hal::task::Context;
use hal::vectors::VEC_WAKE;
use qk_core::sched::queues as run_queues;

use super::halt::halt;
use super::queues::{Node, next};
use super::task::{
    CURRENT, Core, Hooks, Runnable, Task, Why, core, current, has_left_work, hooks, is_wanted,
};
use super::{slices, task};
use crate::preempt;

/// Makes the cores and the PCT's task, which have no room yet. The clock is known.
pub fn init(cpus: usize, hooks: Hooks) {
    task::init(cpus, hooks);
    slices::init();
}

/// The stack that this core started on is where it is when it has nothing to do.
pub fn adopt() {
    let idle = core().idle.set(hal::task::adopt());
    assert!(idle.is_ok(), "core started twice");
}

/// What every core does when it has nothing to do, on the stack it started on, which it has [adopted](adopt).
pub fn idle() -> ! {
    let core = core();
    // BOUND: every turn ends in a task or a halt, which let interrupts in.
    loop {
        look_on();
        match next() {
            Some(next) => switch(core, core.idle_context(), Some(next), false),
            None => halt(),
        }
    }
}

/// Does what an interrupt has left to this core's task.
#[inline]
pub fn look_on() {
    if has_left_work() {
        (hooks().left_work)();
    }
}

/// Waits for an [`unpark`] of this core's task. May return without one: callers look at what they wait for again.
///
/// Interrupts are let in: many tasks in turn may wait, or end, without one of them coming to ring 3.
pub fn park() {
    preempt::take_interrupts();
    look_on();
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
    look_on(); // before another task runs
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
        None => slices::alone(),
    }
}

/// Whether `task`, which this core runs, should let others go first before it returns to ring 3.
#[inline]
pub fn should_yield(task: &Task) -> bool {
    slices::is_over() || !task.may_run_here()
}

/// Switches from the running task to `next`, or to the idle context; returns when the task has a core again.
fn leave(task: &'static Task, why: Why, next: Option<&'static Task>) {
    let core = core();
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
            (hooks().vacant)();
            slices::alone();
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
    match next.owner() {
        Some(owner) => owner.enters(moved, shared),
        None => {
            (hooks().vacant)();
            slices::alone();
        }
    }
}

/// What a core does as soon as it is off the stack of the task that it left.
extern "C" fn arrived() {
    let left = core().left.lock().take();
    if let Some((task, why)) = left {
        match why {
            Why::Ends => {
                task.whereabouts.parking.gone();
                if let Some(owner) = task.owner() {
                    owner.gone();
                }
            }
            // The core that it prefers may be another one by now.
            Why::Parks | Why::Yields => {
                if task.whereabouts.parking.left(why == Why::Yields) {
                    run_queues::enqueue(&Node, Runnable(task));
                    // It got a slice's end set here, and went elsewhere.
                    let elsewhere = task.core() != hal::cpu::id();
                    if why == Why::Yields && elsewhere && !is_wanted() {
                        slices::alone();
                    }
                }
            }
        }
    }
    let Some(task) = CURRENT.get() else { return };
    if task.fresh.swap(false, Ordering::Relaxed)
        && task.owner().is_some_and(|owner| owner.has_work())
    {
        // It goes straight to ring 3. An interrupt that strikes right there delivers what came meanwhile.
        hal::cpu::send_ipi(hal::cpu::id(), VEC_WAKE);
    }
}

/// What a task's context is to call when it begins.
pub const ARRIVED: hal::task::Arrived = arrived;
