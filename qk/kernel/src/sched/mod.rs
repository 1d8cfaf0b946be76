//! Tasks and cores: which task runs where, and how a task waits.
//!
//! A task that waits *parks*; an event for it *unparks* it. As with threads of the same names, an unpark that comes first
//! is not lost (`qk_core::sched::park`). A parked task whose core has nothing else to run halts the core right where it is
//! ([`halt`]); there is no tick, and a halted core executes nothing. Where more tasks are runnable than cores, a core gives each a slice
//! of time in turn, by a one-shot timer that is gone when one is left.
//!
//! A task runs on the cores that it is allowed: on its last one if that is idle, else on any that is. The PCT runs on
//! whatever core has an event for it.
//!
//! # Locks
//! A core's run queue is the last of those that are taken one inside of another: docs/concurrency.md has the order.

mod halt;
mod queues;
mod slices;
mod switch;
mod task;

pub use queues::{allow, interrupt, make_room, moving_work, start, unpark, unpark_pct};
pub use slices::{
    SLICE_NS, begin as begin_slice, due as slice_due, is_over as is_slice_over, share,
};
pub use switch::{ARRIVED, adopt, exit, idle, init, park, should_yield, yield_now};
pub use task::{
    Hooks, Owner, Task, current, has_left_work, is_current, is_wanted, leave_work, pct, rearm,
};
