//! The node keeper: the process that owns a node.
//!
//! yod forks it into a session of its own, so that keys pressed in the terminal do not reach it, and so that the death
//! of one yod does not take the node from the others of its job. It ends, its machine first, when the last yod has left or died:
//! their sockets tell. The machine in turn ends with the keeper, as QEMU is killed by Linux when its parent dies. So whichever
//! dies first, nothing stays.
//!
//! The first yod and its keeper are connected by a pair of sockets that the fork inherits: no other process can take part,
//! and there is no moment at which a keeper could wait for a yod that is already gone. The other yods of the job were connected to the
//! first ([`crate::rendezvous`]); the keeper inherits those connections, too. No process can join later.

mod client;
mod guard;
mod lost;
mod running;
#[cfg(test)]
mod tests;
mod ticker;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use self::client::Client;
use self::running::Running;
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior};

use crate::binding::Binding;
use crate::clock::Sample;
use crate::machine::Machine;
use crate::message::{Cause, Ended, Event, receive};
use crate::node::Keeper;
use crate::plan::Plan;
use crate::rendezvous::Guest;
use crate::sys::{self, Forked};

/// What a keeper needs.
#[derive(Clone, Debug)]
pub struct Launch<M> {
    /// What the node is made of.
    pub machine: M,
    /// The kernel; an absolute path.
    pub kernel: PathBuf,
    /// The PCT; an absolute path.
    pub pct: PathBuf,
    /// System calls that the node is to treat as missing, a bit per number.
    pub refuse: [u64; 8],
    /// Whether the partitions are given memory of the host before they are touched.
    pub populate: bool,
    /// All clocks of the host, some time ago: the longer, the better the TSC's rate is known.
    pub first: Sample,
}

impl<M> Launch<M> {
    /// The same with another machine.
    #[must_use]
    pub fn with<N>(&self, machine: N) -> Launch<N> {
        Launch {
            machine,
            kernel: self.kernel.clone(),
            pct: self.pct.clone(),
            refuse: self.refuse,
            populate: self.populate,
            first: self.first,
        }
    }
}

/// Whose node it is.
#[derive(Debug)]
pub struct Job {
    /// Cores and memory.
    pub plan: Plan,
    /// The ranks of the yod that forks the keeper.
    pub ranks: Range<usize>,
    /// It takes the kernel log.
    pub log: bool,
    /// Its time limit until the node is there: before it can notify its keeper, it may be stopped.
    pub due: Option<Instant>,
    /// The other yods of the job.
    pub guests: Vec<Guest>,
    /// Where the ranks' cores are to run.
    pub binding: Option<Binding>,
}

/// Forks a keeper.
///
/// # Errors
/// No process, descriptor or memory left.
pub fn start<M: Machine>(launch: &Launch<M>, job: Job) -> io::Result<Keeper> {
    let (ours, keepers) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match sys::fork()? {
        // The guests' connections are the keeper's alone from here on.
        Forked::Parent(pid) => Ok(Keeper::of_child(pid, ours)),
        Forked::Child => keep(keepers, launch, job),
    }
}

/// The keeper's life.
fn keep<M: Machine>(first: OwnedFd, launch: &Launch<M>, job: Job) -> ! {
    let guests = job.guests.iter().map(|guest| guest.socket.as_raw_fd());
    let sockets: Vec<RawFd> = guests.chain([first.as_raw_fd()]).collect();
    sys::close_all_but(&sockets);
    let running = detach().and_then(|()| {
        job.binding.iter().for_each(Binding::take_all);
        Running::start(launch, &job)
    });
    let status = clients(first, job).and_then(|clients| match running {
        Ok(running) => running.run(clients),
        Err(error) => refuse(clients, &explain(&error)),
    });
    std::process::exit(i32::from(status.is_err()))
}

fn clients(first: OwnedFd, job: Job) -> io::Result<Vec<Client>> {
    let guests = job.guests.into_iter().map(|Guest { member, socket }| {
        Client::new(socket, member.rank..member.rank + 1, member.log, None)
    });
    // Of a pair of sockets both ends are the process's that made it.
    let first = Client::new(first, job.ranks, job.log, job.due);
    std::iter::once(first).chain(guests).collect()
}

/// Leaves the terminal, the working directory and the signals of the yod that forked it.
fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    // Should it be stopped when its yod dies: it then goes on, and ends.
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    std::env::set_current_dir("/")?;
    // Descriptors 0, 1 and 2 are free now: nothing that is opened later may become one of them by accident.
    for _ in 0..3 {
        std::mem::forget(rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR,
            rustix::fs::Mode::empty(),
        )?);
    }
    sys::set_ignored(libc::SIGTSTP, false);
    for signo in sys::OF_THE_RANKS {
        sys::set_ignored(signo, true);
    }
    // A limit on file sizes makes growing RAM fail with an error, not with a signal.
    sys::set_ignored(libc::SIGXFSZ, true);
    // No other process of the user traces it or reads its memory. QEMU becomes dumpable again by its exec.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::thread::set_name(c"margay-keeper");
    sys::Mask::NONE.restore();
    Ok(())
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EFBIG) => "the limit on file sizes (ulimit -f) is below the node's memory: raise it or ask for less with -m".into(),
        Some(libc::EMFILE) => "the limit on open files (ulimit -n) is too low for this many ranks: raise it".into(),
        Some(libc::ENOMEM) => "no memory for the node: ask for less with -m".into(),
        _ => error.to_string(),
    }
}

/// There will be no node: sends all yods the reason, and waits for them to leave.
fn refuse(clients: Vec<Client>, reason: &str) -> io::Result<()> {
    let ended = Ended {
        cause: Cause::NotStarted(reason.into()),
        complaint: String::new(),
        log: String::new(),
        used_up: None,
    };
    for (i, client) in clients.iter().enumerate() {
        client.send(Event::Ended(ended.clone()), i == 0);
    }
    for client in &clients {
        while receive(client, true).is_ok() {}
    }
    Ok(())
}
