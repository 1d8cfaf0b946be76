//! The process control thread: policy of a node, in ring 3.
//!
//! The QK has the mechanism: address spaces, regions, tasks, shipping. Which rank gets which memory and core, and how a
//! Linux program is laid out, is decided here, by the one process that may make control calls. When it goes wrong the
//! job ends with a report; the node does not.
//!
//! This library is all of it but the instruction that enters the QK: it works against the trait [`Qk`], so that the
//! tests run it on the host against a kernel made of vectors. It takes no memory besides its stack, and it ends, with
//! a line that says why, whatever the QK answers.
#![no_std]
#![deny(unsafe_code)]
// There is no heap to put a line on, and refusing a program need not be fast.
#![allow(clippy::result_large_err)]

pub mod line;
pub mod load;
pub mod policy;
pub mod qk;
pub mod run;
pub mod stack;
pub mod vdso;

#[cfg(test)]
mod fake;

pub use qk::Qk;
pub use run::run;
