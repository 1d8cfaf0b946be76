//! A yod as its keeper sees it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use wire::ram::Ram;

use super::guard::Guard;
use crate::message::{Event, MOST_FDS, Message, Piece, receive, send};
use crate::plan::Plan;
use crate::rendezvous::Peer;
use crate::serial::{Cursor, Log};

/// Bytes of log per message.
const LOG_BYTES: usize = 16 << 10;

/// A connection.
pub struct Client {
    socket: OwnedFd,
    /// Its ranks.
    pub ranks: Range<usize>,
    guard: Guard,
    /// Place in the kernel log, for those that take it.
    log: Option<Cursor>,
    /// Events that it has been sent, of those in the keeper's list.
    notified: usize,
}

impl Client {
    /// The yod at the other end, which has these ranks; with `log` it gets the kernel log. `due`: until it says otherwise.
    pub fn new(
        socket: OwnedFd,
        ranks: Range<usize>,
        log: bool,
        due: Option<Instant>,
    ) -> io::Result<Client> {
        let pid = Peer::of(&socket).and_then(|peer| peer.pid);
        let pid = pid.ok_or(io::ErrorKind::NotConnected)?;
        Ok(Client {
            socket,
            ranks,
            guard: Guard::new(pid, due),
            log: log.then(Cursor::default),
            notified: 0,
        })
    }

    /// Reads what it says, if anything. True when it has left.
    pub fn read(&mut self) -> bool {
        match receive(&self.socket, false) {
            Ok((
                Message::Guard {
                    left_ms,
                    with_ranks,
                },
                _,
            )) => self.guard.set(left_ms, with_ranks),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return true,
        }
        false
    }

    /// How long it need not be checked; see [`Guard::timeout`].
    pub fn timeout(&self, node_ended: bool) -> Option<Duration> {
        self.guard.timeout(node_ended)
    }

    /// Continues it if it is stopped and must not be; without a node it must not.
    pub fn check_guard(&mut self, node_ended: bool) {
        self.guard.check(node_ended);
    }

    /// Hands over the node: RAM, the node's doorbells, the host's, and the agent's socket if there is one.
    pub fn welcome(&self, plan: &Plan, ram: &Ram, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(
            self.socket.as_fd(),
            &Message::Welcome {
                plan: *plan,
                ram: ram.ranges().iter().map(Piece::from).collect(),
                keeper: rustix::process::getpid().as_raw_pid(),
                descriptors: fds.len(),
            },
            &[],
        )?;
        fds.chunks(MOST_FDS)
            .try_for_each(|some| send(self.socket.as_fd(), &Message::Descriptors, some))
    }

    /// Passes on log and events as far as it takes them. True when it has to be tried again. `reports`: of
    /// all yods this one reports to the user.
    pub fn notify(&mut self, log: &Log, events: &[Event], reports: bool) -> bool {
        while let Some(cursor) = self.log {
            let bytes = log.next(cursor, LOG_BYTES);
            if bytes.is_empty() {
                break;
            }
            let text = String::from_utf8_lossy(bytes).into_owned();
            if !self.send(Event::Log(text), reports) {
                return true;
            }
            self.log = Some(log.advance(cursor, bytes.len()));
        }
        while let Some(event) = events.get(self.notified) {
            if !self.send(event.clone(), reports) {
                return true;
            }
            self.notified += 1;
        }
        false
    }

    /// Passes on an event, if it takes it.
    pub fn send(&self, event: Event, reports: bool) -> bool {
        // One that is gone is noticed when it is read from.
        send(self.socket.as_fd(), &Message::Event { event, reports }, &[]).is_ok()
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
