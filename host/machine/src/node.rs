//! A yod's side of the node: joining it, its memory and doorbells, what happens to it, leaving it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::comm::Comm;
use crate::message::{Ended, Event, Message, receive, send};
use crate::plan::Plan;

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
    socket: OwnedFd,
}

/// Why there is no node.
#[derive(Debug)]
pub enum NoNode {
    /// The keeper could not make one.
    Ended(Ended),
    /// The keeper is gone or makes no sense.
    Io(io::Error),
}

impl From<io::Error> for NoNode {
    fn from(error: io::Error) -> NoNode {
        NoNode::Io(error)
    }
}

impl Node {
    /// Joins the node behind `socket`; with `log`, its kernel log comes as events.
    ///
    /// # Errors
    /// [`NoNode`].
    pub fn join(socket: OwnedFd, log: bool) -> Result<Node, NoNode> {
        send(socket.as_fd(), &Message::Join { log }, &[])?;
        let (plan, descriptors) = match receive(&socket, true)?.0 {
            Message::Welcome { plan, descriptors } => (plan, descriptors),
            Message::Event(Event::Ended(ended)) => return Err(NoNode::Ended(ended)),
            _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
        };
        let mut fds = Vec::with_capacity(descriptors);
        while fds.len() < descriptors {
            match receive(&socket, true)? {
                (Message::Descriptors, more) => fds.extend(more),
                _ => return Err(NoNode::Io(io::ErrorKind::InvalidData.into())),
            }
        }
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
            socket,
        })
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

    /// Leaves. Returns once the keeper has noticed: `true` when it and the node are gone, `false` when others stay.
    #[must_use]
    pub fn leave(self) -> bool {
        if rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write).is_err() {
            return true;
        }
        loop {
            match receive(&self.socket, true) {
                Ok((Message::Staying, _)) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }
}

impl AsFd for Node {
    /// Readable when [`Self::next_event`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
