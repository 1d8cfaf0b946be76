//! The kernel's pure logic: what can be decided without touching hardware.
//!
//! Everything here is `no_std`, free of `unsafe`, and tested on the host in milliseconds against
//! simple models. Memory is allocated by constructors; where an operation needs some (a region map
//! that grows), it is set aside before anything changes, and not having it is an error value.
//!
//! | module | decides |
//! |---|---|
//! | [`bits`] | a set of numbers that finds its lowest member |
//! | [`page`] | the three page sizes and which of them fits |
//! | [`frames`] | which physical frames of a rank's partition are free |
//! | [`regions`] | what is mapped where in a rank's memory |
//! | [`mman`] | what mmap and its kin may do, and which errors they give |
//! | [`aspace`] | an address space: the four above together, and the log for its proxy |
//! | [`objects`] | which frames of the node pool hold what of the files that ranks share |
//! | [`paging`] | what page-table entries are to be, over table memory that the kernel supplies |
//! | [`futex`] | which threads wait for a futex, which are woken, and what becomes of its word |
//! | [`interval`] | when an interval timer expires |
//! | [`posix_timers`] | the timers of timer_create: their ids, signals and overruns |
//! | [`sched`] | where a task is, which cores it may use, which runs next, which is woken when |
//! | [`set`] | sets of cores or ranks |
//! | [`signals`] | dispositions, masks, what is pending and what is delivered next |
//! | [`xpmem`] | which rank may attach which memory of which other |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

/// Called with an amount of work, in about as many instructions, wherever a program decides how much there is to do: the
/// kernel's preemption point. Loops of this crate whose length is a program's choice call it in every turn.
pub type Point = fn(u32);

pub mod aio;
pub mod aspace;
pub mod bits;
pub mod frames;
pub mod futex;
pub mod interval;
pub mod mman;
pub mod objects;
pub mod page;
pub mod paging;
pub mod posix_timers;
pub mod regions;
pub mod sched;
pub mod set;
pub mod signals;
mod sync;
pub mod xpmem;
