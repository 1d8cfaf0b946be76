//! The hardware layer of the QK: the one kernel crate with `unsafe`.
//!
//! Everything above (`qk/kernel`) is `#![forbid(unsafe_code)]` and speaks to the machine through the safe functions here. Two rules
//! carry most of the safety arguments and are worth knowing before reading on:
//!
//! 1. **Interrupts are off in the kernel**, except inside [`cpu::take_interrupts`], [`cpu::halt`] and [`mem::zero_interruptibly`]. Nothing is preempted,
//!    so per-CPU data needs no lock.
//! 2. **Three kinds of RAM.** Memory that holds Rust objects (image, heap, stacks) is only reached through Rust references, page
//!    tables only through [`tables`]. All other RAM is *pool* memory ([`mem`]): it is only reached through bounds-checked accessors,
//!    so no address computed by safe code can break a Rust object. README.md says it function by function.
//!
//! The modules that touch the machine are compiled only for the bare target; the pure ones ([`addr`], [`ranges`], [`firmware`], [`pci`]'s registers)
//! also build on the host, where their unit tests run.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod addr;
pub mod firmware;
// The host only tests it.
#[cfg_attr(not(target_os = "none"), allow(dead_code))]
pub mod pci;
#[cfg(any(test, target_os = "none"))]
mod pte;
pub mod ranges;
pub mod vectors;

#[cfg(target_os = "none")]
pub mod apic;
#[cfg(target_os = "none")]
pub mod aspace;
#[cfg(target_os = "none")]
pub mod boot;
#[cfg(target_os = "none")]
mod cokernel;
#[cfg(target_os = "none")]
pub mod cpu;
#[cfg(target_os = "none")]
pub mod doorbell;
#[cfg(target_os = "none")]
pub mod heap;
#[cfg(target_os = "none")]
pub mod mem;
#[cfg(target_os = "none")]
pub mod panic;
#[cfg(target_os = "none")]
mod ram;
#[cfg(target_os = "none")]
pub mod serial;
#[cfg(target_os = "none")]
pub mod smp;
#[cfg(any(test, target_os = "none"))]
pub mod sync;
#[cfg(target_os = "none")]
pub mod tables;
#[cfg(target_os = "none")]
pub mod task;
#[cfg(target_os = "none")]
pub mod time;
#[cfg(target_os = "none")]
pub mod traps;
#[cfg(target_os = "none")]
pub mod user;
