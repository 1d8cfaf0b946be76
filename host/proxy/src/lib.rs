//! The proxy: one Linux process per rank that carries out the calls the rank ships.
//!
//! It is a fork of yod that never returns. The program itself is never executed here: a *worker* (the main thread, whose
//! thread id is the rank's) takes requests from the rank's ship slot and makes the same Linux calls in its own context, so
//! that descriptors, working directory, credentials and sockets are simply Linux's. The rank's memory appears in this
//! process at the addresses it has on the node (module `memory`), so pointers mean the same on both sides and file data
//! moves straight into the program's memory. A second thread, the *watcher*, receives the signals that Linux has for the
//! rank, interrupts the worker when a call is given up, and ends the process as the rank ended.
//!
//! What the node says is checked before it is believed: a wrong pointer costs the program an `EFAULT`, a wrong record of
//! its kernel ends the rank with one line.

pub mod agent;
mod call;
mod cancel;
mod child;
mod crash;
mod debug;
mod describe;
mod doorbell;
mod dump;
mod end;
mod errno;
mod exec;
mod fds;
mod files;
mod halt;
mod heritage;
mod host_op;
mod io_priority;
mod kick;
mod left;
mod memory;
mod objects;
mod posted;
pub mod program;
mod ram_files;
mod rank;
mod regions;
mod reservations;
mod sandbox;
mod shared;
mod signalfds;
mod signals;
mod special;
mod spin;
mod stack;
mod start;
mod stub;
mod sync;
mod terminal;
mod watcher;
mod worker;
mod workers;

use std::os::fd::OwnedFd;

pub use debug::Gdb;
pub use debug::late::{READY as ATTACH_READY, SIGNAL as ATTACH_SIGNAL, request as attach_request};
pub use program::Program;
pub use signals::inherited::Inherited;
pub use start::{EXIT_IMPOSSIBLE, Impossible, check_limits};

/// All a proxy needs.
#[derive(Debug)]
pub struct Config {
    /// Guest RAM but for its end.
    pub ram: OwnedFd,
    /// Its end, with the node pool.
    pub pool: OwnedFd,
    /// Where requests to lay pages of files over the pool go, if the node takes any.
    pub agent: Option<OwnedFd>,
    /// Which guest-physical addresses are RAM, and where in these files they lie.
    pub ram_layout: wire::ram::Ram,
    /// Guest-physical address of the communication area.
    pub comm_gpa: u64,
    /// What the communication area is laid out by.
    pub wire: wire::boot::Config,
    /// Number of the rank on its node.
    pub rank: usize,
    /// The host's eventfd of this rank, which the node signals.
    pub doorbell_in: OwnedFd,
    /// The node's eventfds, one per core: signalling them interrupts the core.
    pub core_doorbells: Vec<OwnedFd>,
    /// The program.
    pub program: Program,
    /// How messages name the rank, e.g. "rank 3"; empty when it is the only one.
    pub label: String,
    /// Signal mask and dispositions that yod was started with.
    pub inherited: Inherited,
    /// Where its gdb is to connect, if it is to be debugged.
    pub gdb: Option<Gdb>,
    /// Bytes of memory that the host has for this process now.
    pub room: Room,
    /// Process id of yod: when it is not the parent any more, it has died and so does the proxy.
    pub parent: u32,
}

/// Says how many bytes of memory there are for this process. To be called in a process that other threads run in.
#[derive(Clone, Copy)]
pub struct Room(pub fn() -> u64);

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Room")
    }
}

/// Turns this process, a fresh single-threaded fork, into the proxy of a rank. Ends as the rank ends.
///
/// Descriptors that are marked close-on-exec are closed, as an exec would do; the others become the rank's. When the
/// proxy cannot be set up it prints one line to stderr and exits with [`EXIT_IMPOSSIBLE`].
pub fn serve(config: Config) -> ! {
    stack::on_own(Box::new(config), live)
}

extern "C" fn live(config: Box<Config>) -> ! {
    match start::start(*config) {
        Ok(rank) => worker::run(rank),
        Err(impossible) => start::give_up(&impossible),
    }
}
