//! What the parts of Margay agree on: the address map, the system call table, error numbers, identifiers,
//! the control calls between PCT and QK, and what an executable must look like to be loaded.
//!
//! Everything here is data and pure functions. It depends on nothing of ours, so that kernel, PCT, host
//! programs, documentation and tests can all read the one truth.
#![no_std]
#![forbid(unsafe_code)]

pub mod addr;
pub mod areas;
pub mod control;
pub mod cores;
pub mod errno;
pub mod halt;
pub mod ident;
pub mod image;
pub mod map;
pub mod pte;
pub mod rlimit;
pub mod script;
pub mod stack;
pub mod syscall;

pub use errno::Errno;
