//! The scheduler's bookkeeping: where a task is, which cores it may use, and which comes next.
//!
//! Switching contexts, locks, interrupts and the clock are the kernel's. A task that waits *parks*; an event for it
//! *unparks* it, and an unpark that comes first is not lost ([`park`]). Lists here never allocate while they are used:
//! a new thread's place is reserved first, so that waking one cannot fail.

pub mod deadlines;
pub mod fifo;
pub mod park;
pub mod queue;
pub mod queues;
pub mod slice;

/// A set of cores.
pub type CoreSet = crate::set::Set;
/// A set of cores that cores change at the same time.
pub type AtomicCoreSet = crate::set::AtomicSet;
