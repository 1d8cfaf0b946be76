//! A yod as its keeper sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SocketFlags, accept_with, sockopt::socket_peercred};
use rustix::process::Pid;

use super::guard::Guard;
use super::socket_file::SocketFile;
use crate::message::{Event, MOST_FDS, Message, receive, send};
use crate::plan::Plan;
use crate::serial::{Cursor, Log};

/// Bytes of log per message.
const LOG_BYTES: usize = 16 << 10;

/// A connection.
pub struct Client {
    socket: OwnedFd,
    pid: Pid,
    /// It forked this keeper.
    holds: bool,
    joined: bool,
    /// While it is stopped.
    guard: Option<Guard>,
    /// Place in the kernel log, for those who want it.
    log: Option<Cursor>,
    /// Messages it has been told of, of those in the keeper's list.
    told: usize,
}

/// What a client did.
#[derive(PartialEq, Eq)]
pub enum Did {
    /// Nothing.
    Nothing,
    /// It asks for the node.
    Join,
    /// It is gone.
    Leave,
}

impl Client {
    /// The yod that forked this keeper.
    pub fn first(socket: OwnedFd) -> io::Result<Client> {
        // Of a pair of sockets both ends are the process's that made it.
        Client::new(socket, true)
    }

    /// The next yod that connects; `None` when it belongs to another user.
    pub fn accept(listener: &OwnedFd) -> io::Result<Option<Client>> {
        let socket = accept_with(listener, SocketFlags::CLOEXEC)?;
        if SocketFile::admits(&socket) {
            Client::new(socket, false).map(Some)
        } else {
            Ok(None)
        }
    }

    fn new(socket: OwnedFd, holds: bool) -> io::Result<Client> {
        let pid = socket_peercred(&socket)?.pid;
        Ok(Client {
            socket,
            pid,
            holds,
            joined: false,
            guard: None,
            log: None,
            told: 0,
        })
    }

    /// Whether the node is kept for it: for the first yod, and for whoever has joined.
    pub fn holds(&self) -> bool {
        self.holds || self.joined
    }

    /// Reads what it says, if anything.
    pub fn read(&mut self) -> Did {
        match receive(&self.socket, false) {
            Ok((Message::Join { log }, _)) if !self.joined => {
                self.joined = true;
                self.log = log.then(Cursor::default);
                Did::Join
            }
            Ok((Message::Stopping { left_ms }, _)) => {
                self.guard = Some(Guard::new(left_ms));
                Did::Nothing
            }
            Ok((Message::GoingOn, _)) => {
                self.guard = None;
                Did::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Did::Nothing,
            _ => Did::Leave,
        }
    }

    /// Whether it has to be looked after from time to time.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// Continues it if it is stopped and must not be; without a node it must not.
    pub fn look_after(&self, node_ended: bool) {
        if let Some(guard) = &self.guard {
            guard.look_after(self.pid, node_ended);
        }
    }

    /// Hands over the node: RAM, the node's doorbells, the host's.
    pub fn welcome(&self, plan: &Plan, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(
            self.socket.as_fd(),
            &Message::Welcome {
                plan: *plan,
                descriptors: fds.len(),
            },
            &[],
        )?;
        fds.chunks(MOST_FDS)
            .try_for_each(|some| send(self.socket.as_fd(), &Message::Descriptors, some))
    }

    /// Passes on log and events as far as it takes them. True when it has to be tried again.
    pub fn tell(&mut self, log: &Log, events: &[Event]) -> bool {
        if !self.joined {
            return false;
        }
        while let Some(cursor) = self.log {
            let bytes = log.next(cursor, LOG_BYTES);
            if bytes.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            if !self.send(Event::Log(text)) {
                return true;
            }
            self.log = Some(log.advance(cursor, bytes.len()));
        }
        while let Some(event) = events.get(self.told) {
            if !self.send(event.clone()) {
                return true;
            }
            self.told += 1;
        }
        false
    }

    fn send(&self, event: Event) -> bool {
        // One that is gone is noticed when it is read from.
        send(self.socket.as_fd(), &Message::Event(event), &[]).is_ok()
    }

    /// Lets it go while others stay.
    pub fn dismiss(self) {
        let _ = send(self.socket.as_fd(), &Message::Staying, &[]);
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
