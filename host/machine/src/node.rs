//! A yod's side of the node: its keeper, joining it, its memory and doorbells, what happens to it, leaving it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::comm::Comm;
use crate::keeper::SocketFile;
use crate::message::{Ended, Event, Message, receive, send};
use crate::plan::Plan;

/// The keeper that this process has started, and the connection to it.
#[derive(Debug)]
pub struct Keeper {
    pid: Pid,
    socket: OwnedFd,
    file: Option<SocketFile>,
}

/// A node this yod has joined.
#[derive(Debug)]
pub struct Node {
    /// What it is made of.
    pub plan: Plan,
    /// Guest RAM.
    pub ram: OwnedFd,
    /// Rings core c of the node.
    pub node_bells: Vec<OwnedFd>,
    /// Rung by the node for rank r.
    pub host_bells: Vec<OwnedFd>,
    /// The communication area.
    pub comm: Comm,
}

/// Why there is no node.
#[derive(Debug)]
pub enum NoNode {
    /// The keeper could not make one.
    Ended(Ended),
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
    /// The keeper with this process id at the other end of `socket`.
    pub(crate) fn new(pid: Pid, socket: OwnedFd, file: Option<SocketFile>) -> Keeper {
        Keeper { pid, socket, file }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Joins the node; with `log`, its kernel log comes as events. `wait` waits until a descriptor is readable; false: no
    /// longer.
    ///
    /// # Errors
    /// [`NoNode`].
    pub fn join(
        &self,
        log: bool,
        mut wait: impl FnMut(BorrowedFd<'_>) -> bool,
    ) -> Result<Node, NoNode> {
        send(self.socket.as_fd(), &Message::Join { log }, &[])?;
        let mut next = || loop {
            match receive(&self.socket, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other.map_err(NoNode::Io),
            }
            if !wait(self.socket.as_fd()) {
                return Err(NoNode::GivenUp);
            }
        };
        let (plan, descriptors) = match next()?.0 {
            Message::Welcome { plan, descriptors } => (plan, descriptors),
            Message::Event(Event::Ended(ended)) => return Err(NoNode::Ended(ended)),
            _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
        };
        let mut fds = Vec::with_capacity(descriptors);
        while fds.len() < descriptors {
            match next()? {
                (Message::Descriptors, more) => fds.extend(more),
                _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
            }
        }
        Node::new(plan, fds)
    }

    /// What happened, if anything did.
    #[must_use]
    pub fn next_event(&self) -> Option<Event> {
        match receive(&self.socket, false) {
            Ok((Message::Event(event), _)) => Some(event),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(Event::KeeperGone),
        }
    }

    /// This process is about to stop: the keeper is to continue it after `left`, when the node has ended, or when a signal
    /// waits that ends the job or tells of a child. False: the keeper cannot, so this process must not stop.
    #[must_use]
    pub fn stopping(&self, left: Option<Duration>) -> bool {
        let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let told = send(self.socket.as_fd(), &Message::Stopping { left_ms }, &[]);
        // It may be stopped itself.
        told.is_ok() && kill_process(self.pid, Signal::CONT).is_ok()
    }

    /// This process was continued.
    pub fn going_on(&self) {
        let _ = send(self.socket.as_fd(), &Message::GoingOn, &[]);
    }

    /// Leaves the node. Returns once the keeper is gone and the node with it, or has said that others stay. A keeper that was
    /// stopped is continued, and one that does neither within `limit` is killed: Linux then ends its node.
    pub fn leave(self, limit: Duration) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        // Until it was waited for, its process id is its own.
        let _ = kill_process(self.pid, Signal::CONT);
        let due = Instant::now() + limit;
        loop {
            match receive(&self.socket, false) {
                Ok((Message::Staying, _)) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let _ = kill_process(self.pid, Signal::KILL);
                        break;
                    }
                    readable(self.socket.as_fd(), left);
                }
                Err(_) => break,
            }
        }
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
        // One that was killed has not done it.
        self.file.iter().for_each(SocketFile::remove);
    }
}

/// Waits until there is something to read, at most for `limit`.
fn readable(fd: BorrowedFd<'_>, limit: Duration) {
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // The caller looks.
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
}

impl Node {
    fn new(plan: Plan, mut fds: Vec<OwnedFd>) -> Result<Node, NoNode> {
        if fds.len() != 1 + plan.cpus + plan.ranks {
            return Err(NoNode::Io(io::ErrorKind::InvalidData.into()));
        }
        let host_bells = fds.split_off(1 + plan.cpus);
        let node_bells = fds.split_off(1);
        let ram = fds.remove(0);
        let comm = Comm::map(ram.as_fd(), &plan)?;
        Ok(Node {
            plan,
            ram,
            node_bells,
            host_bells,
            comm,
        })
    }
}

impl AsFd for Keeper {
    /// Readable when [`Self::next_event`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
