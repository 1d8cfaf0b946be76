//! What crosses between host and node through shared memory, and how.
//!
//! All of it lives in one *communication area* of guest RAM, laid out by [`layout::Layout`] from the numbers in the
//! [`boot::Header`] that the host writes before the node starts. Three rules hold everywhere:
//!
//! 1. Every word is written by one side, and but for the state of the node, which several cores move forward
//!    ([`boot::Header::reach`]), by one writer. No word is changed by read-modify-write from both sides, for the guest's locked
//!    instructions are not atomic against host processes under single-threaded TCG. What others depend on is read with acquire
//!    and written with release order ([`word`]).
//! 2. What a reader takes is copied once, checked, and only the copy is used: the other side is never trusted.
//! 3. A side that blocks says so first, then checks once more ([`ship`]); doorbells are rung only for a side that blocks.
#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod child;
pub mod children;
pub mod clock;
pub mod cokernel;
pub mod info;
pub mod layout;
pub mod lost;
pub mod mappable;
#[cfg(loom)]
pub mod model;
pub mod ram;
pub mod rank;
pub mod region_log;
pub mod registers;
pub mod ring;
pub mod ship;
pub mod signal;
pub mod stats;
pub mod thread;
pub mod trace;
pub mod trial;
pub mod word;
