//! Spin locks, the order in which locks are taken, and run-once cells.
//!
//! Interrupts are off in the kernel, so a holder is never preempted and a plain test-and-set lock suffices; sections are short and
//! contention rare (each core's data is its own). Tickets would add fairness at the price of a second atomic; revisit if a lock
//! ever shows up under contention.
//!
//! A lock's type names its [`class`]. With debug assertions each CPU records what it holds, and a lock taken out of order, or waiting
//! under a spin lock, is a panic; what a context holds when it waits stays with it. Without them a class is a name and costs nothing.

pub mod class;
#[cfg(target_os = "none")]
mod lock;
#[cfg(target_os = "none")]
mod once;
mod order;

#[cfg(target_os = "none")]
pub(crate) use lock::{Holds, change_context, check_order, end_order, may_wait};
#[cfg(target_os = "none")]
pub use lock::{Mutex, MutexGuard, RawSpin, may_take};
#[cfg(target_os = "none")]
pub use once::Once;
