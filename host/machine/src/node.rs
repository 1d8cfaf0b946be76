//! A yod's side of the node: its keeper, joining it, its memory and doorbells, what happens to it, leaving it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, waitpid,
};
use wire::ram::{Ram, RamRange};
use wire::rank::state;

use crate::comm::Comm;
use crate::memory::Memory;
use crate::message::{Ended, Event, Message, receive, send};
use crate::plan::Plan;
use crate::ready;

/// How often a keeper that is to end is continued: it may be stopped at any moment.
const CONTINUE_PERIOD: Duration = Duration::from_millis(250);

/// The keeper of this job's node, and the connection to it.
#[derive(Debug)]
pub struct Keeper {
    process: Process,
    socket: OwnedFd,
}

#[derive(Debug)]
enum Process {
    /// Until it was waited for, its process id is its own.
    Child(Pid),
    /// That of another yod. What stands for its process is there once it has said who it is, where Linux has such a thing.
    Other(Option<(Pid, OwnedFd)>),
}

impl Process {
    fn signal(&self, signal: Signal) -> bool {
        match self {
            Process::Child(pid) => kill_process(*pid, signal).is_ok(),
            Process::Other(Some((_, process))) => pidfd_send_signal(process, signal).is_ok(),
            Process::Other(None) => false,
        }
    }
}

/// A node this yod has joined.
#[derive(Debug)]
pub struct Node {
    /// What it is made of.
    pub plan: Plan,
    /// Its RAM.
    pub memory: Memory,
    /// Rings core c of the node.
    pub node_bells: Vec<OwnedFd>,
    /// Signalled by the node for rank r.
    pub host_bells: Vec<OwnedFd>,
    /// Where requests for the agent go, which lays pages of files over the pool, on a node that has both.
    pub agent: Option<OwnedFd>,
    /// The communication area.
    pub comm: Comm,
}

/// Why there is no node.
#[derive(Debug)]
pub enum NoNode {
    /// The keeper could not make one; whether this yod reports to the user, of all.
    Ended(Ended, bool),
    /// The first yod of the job has found a reason, said it, and ends with this status.
    Dismissed(u8),
    /// The rank that this yod is is taken.
    Taken,
    /// The keeper is gone or makes no sense.
    Io(io::Error),
    /// The caller does not wait any longer.
    GivenUp,
}

impl From<io::Error> for NoNode {
    fn from(error: io::Error) -> NoNode {
        NoNode::Io(error)
    }
}

impl Keeper {
    /// The child with this process id at the other end of `socket`.
    pub(crate) fn of_child(pid: Pid, socket: OwnedFd) -> Keeper {
        Keeper {
            process: Process::Child(pid),
            socket,
        }
    }

    /// The keeper that the first yod of the job will have at the other end of `socket`.
    #[must_use]
    pub fn of_job(socket: OwnedFd) -> Keeper {
        Keeper {
            process: Process::Other(None),
            socket,
        }
    }

    /// Its process id, once it is known.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        match &self.process {
            Process::Child(pid) => Some(*pid),
            Process::Other(process) => process.as_ref().map(|(pid, _)| *pid),
        }
    }

    /// Takes over the node when it is there. `wait` waits until a descriptor is readable; false: no longer.
    ///
    /// # Errors
    /// [`NoNode`].
    pub fn node(&mut self, mut wait: impl FnMut(BorrowedFd<'_>) -> bool) -> Result<Node, NoNode> {
        let socket = &self.socket;
        let mut next = || loop {
            match receive(socket, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other.map_err(NoNode::Io),
            }
            if !wait(socket.as_fd()) {
                return Err(NoNode::GivenUp);
            }
        };
        let (plan, ram, keeper, descriptors) = match next()?.0 {
            Message::Welcome {
                plan,
                ram,
                keeper,
                descriptors,
            } => (plan, ram, keeper, descriptors),
            Message::Event {
                event: Event::Ended(ended),
                reports,
            } => return Err(NoNode::Ended(ended, reports)),
            Message::Dismissed { status } => return Err(NoNode::Dismissed(status)),
            Message::Taken => return Err(NoNode::Taken),
            _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
        };
        let mut fds = Vec::with_capacity(descriptors);
        while fds.len() < descriptors {
            match next()? {
                (Message::Descriptors, more) => fds.extend(more),
                _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
            }
        }
        if let Process::Other(process) = &mut self.process {
            *process = self::process(&self.socket, keeper);
        }
        let ram = Ram::new(ram.into_iter().map(RamRange::from)).map_err(io::Error::other)?;
        Node::new(plan, ram, fds)
    }

    /// What happened, if anything did, and whether this yod reports to the user, of all.
    #[must_use]
    pub fn next_event(&self) -> Option<(Event, bool)> {
        match receive(&self.socket, false) {
            Ok((Message::Event { event, reports }, _)) => Some((event, reports)),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some((Event::KeeperGone, true)),
        }
    }

    /// From now on the keeper continues this process, should it be stopped, when a signal waits that ends the job, when the
    /// node has ended, after `left`; and, `with_ranks`, when something has become of a rank. False: it cannot, so this process
    /// must not stop.
    pub fn guard(&self, left: Option<Duration>, with_ranks: bool) -> bool {
        let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let message = Message::Guard {
            left_ms,
            with_ranks,
        };
        // It may be stopped itself.
        send(self.socket.as_fd(), &message, &[]).is_ok() && self.process.signal(Signal::CONT)
    }

    /// Leaves the node. Returns once the keeper is gone and the node with it, or has said that others stay. A keeper that is
    /// stopped is continued, and one that does neither within `limit` is killed: Linux then ends its node.
    pub fn leave(self, limit: Duration) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        let due = Instant::now() + limit;
        loop {
            match receive(&self.socket, false) {
                Ok((Message::Staying, _)) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let _ = self.process.signal(Signal::KILL);
                        break;
                    }
                    let _ = self.process.signal(Signal::CONT);
                    ready::within(left.min(CONTINUE_PERIOD), &self.socket, PollFlags::IN);
                }
                Err(_) => break,
            }
        }
        if let Process::Child(pid) = self.process {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// What stands for the process at the other end, which has this id. While the connection is open it lives, so that the id was
/// its own when the descriptor was made.
fn process(socket: &OwnedFd, pid: i32) -> Option<(Pid, OwnedFd)> {
    let pid = Pid::from_raw(pid)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    let open = polled.is_ok() && !fds[0].revents().contains(PollFlags::HUP);
    open.then_some((pid, process))
}

impl Node {
    fn new(plan: Plan, ram: Ram, mut fds: Vec<OwnedFd>) -> Result<Node, NoNode> {
        let count = 2 + plan.cpus + plan.ranks;
        if fds.len() != count && fds.len() != count + 1 {
            return Err(NoNode::Io(io::ErrorKind::InvalidData.into()));
        }
        let agent = fds.split_off(count).pop();
        let host_bells = fds.split_off(2 + plan.cpus);
        let node_bells = fds.split_off(2);
        let pool = fds.remove(1);
        let file = fds.remove(0);
        let memory = Memory { ram, file, pool };
        let comm = Comm::map(&memory, &plan)?;
        Ok(Node {
            plan,
            memory,
            node_bells,
            host_bells,
            agent,
            comm,
        })
    }

    /// Whether a rank's program runs, by what the kernel says.
    pub fn runs(&self, rank: usize) -> bool {
        self.comm.rank(rank).node.state.load() == state::RUNNING
    }

    /// Whether it has ended, or could not be loaded.
    pub fn has_ended(&self, rank: usize) -> bool {
        let state = self.comm.rank(rank).node.state.load();
        matches!(state, state::EXITED | state::REFUSED)
    }

    /// Signals a rank's doorbell as the node does: its proxy polls everything again.
    pub fn signal_host(&self, rank: usize) {
        // A full counter rings as well.
        let _ = rustix::io::write(&self.host_bells[rank], &1u64.to_ne_bytes());
    }
}

impl AsFd for Keeper {
    /// Readable when [`Self::next_event`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::hang;
    use crate::message::tests::pair;

    /// It was continued once, before it was stopped, and then waited for as long as it may take to end.
    #[test]
    fn a_keeper_that_is_stopped_while_it_ends_is_continued() {
        let (socket, keepers) = pair();
        // The command holds its stdin for as long as it lives.
        let keeper = Command::new("sh")
            .args(["-c", "read leaves; kill -STOP $$"])
            .stdin(Stdio::from(keepers))
            .spawn();
        let pid = Pid::from_child(&keeper.expect("sh runs"));
        hang::not(move || Keeper::of_child(pid, socket).leave(Duration::from_secs(3600)));
    }
}
