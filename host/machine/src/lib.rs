//! The machine under the node: what the host has, how much of it a job gets, and who keeps it.
//!
//! A node is a machine ([`machine`]): QEMU's ([`qemu`]), or CPUs and memory that Linux gives up ([`cokernel`]). Its keeper ([`keeper`]), a process of its own session, owns
//! machine and RAM and hands both to every yod of the job ([`node`]), which have met before there was a node ([`rendezvous`]). The node ends
//! when the last yod has left or died, so nothing outlives a job, however it ends. Which machine it is gets decided before anything is started, by pure code
//! ([`plan`]) from what the host has ([`resources`], [`qemu`], [`cokernel`]).
//!
//! `unsafe` lives in [`sys`], [`shared`] and the device of [`cokernel`] only: fork, signal masks, mapping shared memory, reading the TSC, ioctl.
#![deny(unsafe_code)]

pub mod agent;
pub mod bells;
pub mod binding;
pub mod clock;
pub mod cokernel;
pub mod comm;
pub mod keeper;
pub mod machine;
pub mod memory;
mod message;
pub mod node;
pub mod pages;
pub mod plan;
mod populate;
pub mod qemu;
pub mod ready;
pub mod rendezvous;
pub mod resources;
pub mod serial;
#[allow(unsafe_code)]
pub mod shared;
pub mod stat;
#[allow(unsafe_code)]
pub mod sys;

pub use message::{Cause, Ended, Event, UsedUp};

/// For tests of what must not hang.
#[cfg(test)]
mod hang {
    use std::sync::mpsc::channel;
    use std::thread::spawn;
    use std::time::Duration;

    /// Panics when `work` takes longer than anything does.
    pub fn not(work: impl FnOnce() + Send + 'static) {
        let (done, is_done) = channel();
        spawn(move || {
            work();
            let _ = done.send(());
        });
        let ended = is_done.recv_timeout(Duration::from_secs(20));
        ended.expect("it hangs, or failed");
    }
}
