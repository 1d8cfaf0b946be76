//! A node that is a QEMU machine: which QEMU, what executes, its command line, its doorbells, its RAM.
//!
//! RAM and the ivshmem server are handed over as descriptors, so nothing is ever created in a file system.

pub mod accel;
mod command;
mod features;
pub(crate) mod ivshmem;
mod program;
mod ram;

pub use command::Machine;
pub use features::lacking;
pub use program::{NotFound, OLDEST, Qemu, Version};
pub use ram::of as ram;
