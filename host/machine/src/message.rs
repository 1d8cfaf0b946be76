//! Messages between a keeper and its yods, and between the yods of a job: one datagram per message on a SOCK_SEQPACKET socket.
//!
//! A message is a letter and what follows it; see [`Message`]. The node is handed over in two kinds of messages: the
//! plan, then its descriptors in as many messages as it takes (Linux passes at most 253 at once).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use wire::ram::{Place, RamRange};

use crate::plan::Plan;
use crate::rendezvous::Member;

/// Descriptors per message; below Linux's SCM_MAX_FD of 253.
pub const MOST_FDS: usize = 128;
/// Bytes of a message.
const MOST_BYTES: usize = 160 << 10;

/// From either side.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// yod, to the first of its job: I am part of it.
    Hello(Member),
    /// First yod: another yod has this rank, or there is no such rank.
    Taken,
    /// First yod: there will be no node.
    Dismissed {
        /// Exit status; why has been said.
        status: u8,
    },
    /// yod: what I am to be continued for when I am stopped, besides signals that end the job and the node's end.
    Guard {
        /// The end of my time, so long from now.
        left_ms: Option<u64>,
        /// I stop because all my ranks have: what becomes of them.
        with_ranks: bool,
    },
    /// Keeper: this is the node; so many descriptors follow.
    Welcome {
        /// Its plan.
        plan: Plan,
        /// Its RAM; checked again where it is received.
        ram: Vec<Piece>,
        /// The keeper's process id.
        keeper: i32,
        /// RAM, the node's doorbells, the host's, and the agent's socket if there is one.
        descriptors: usize,
    },
    /// Keeper: descriptors, attached.
    Descriptors,
    /// Keeper: something happened.
    Event {
        /// What.
        event: Event,
        /// Of all yods this one reports to the user.
        reports: bool,
    },
    /// Keeper, to a yod that leaves: others stay, so do I.
    Staying,
}

/// A [`RamRange`] as it is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    gpa: u64,
    len_bytes: u64,
    pool: bool,
    offset: u64,
}

impl From<&RamRange> for Piece {
    fn from(range: &RamRange) -> Piece {
        Piece {
            gpa: range.gpa,
            len_bytes: range.len_bytes,
            pool: matches!(range.place, Place::Pool(_)),
            offset: range.place.offset(),
        }
    }
}

impl From<Piece> for RamRange {
    fn from(range: Piece) -> RamRange {
        let place = if range.pool { Place::Pool } else { Place::Ram };
        RamRange {
            gpa: range.gpa,
            len_bytes: range.len_bytes,
            place: place(range.offset),
        }
    }
}

/// What happens to a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// More of the kernel log.
    Log(String),
    /// The node's state changed.
    State {
        /// See `wire::boot::node`.
        state: u64,
        /// The end of the kernel log, when the new state is a bad one.
        log: String,
    },
    /// There is no node any more.
    Ended(Ended),
    /// Another yod of the job has left.
    Left {
        /// The first of its ranks that has not ended on the node, which cannot be served any more.
        lost: Option<usize>,
    },
    /// The keeper is gone, and the node with it.
    KeeperGone,
}

/// How a node ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// What became of the machine.
    pub cause: Cause,
    /// What it complained of, if anything: its last lines.
    pub complaint: String,
    /// The end of the kernel log.
    pub log: String,
    /// The limit on its processor time (RLIMIT_CPU), when it has used that up.
    pub used_up: Option<UsedUp>,
}

/// A limit on processor time that a machine has used up, or nearly so by another account than the limit's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UsedUp {
    /// Milliseconds that it has used.
    pub used_ms: u64,
    /// Seconds that it was allowed.
    pub limit_s: u64,
}

/// What became of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// It was never started, for this reason.
    NotStarted(String),
    /// A signal ended it in order.
    Ended(i32),
    /// The kernel reset it.
    Reset,
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It executes no more, and would not have ended by itself.
    Stopped,
}

/// Sends a message without blocking.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when the other side does not read, [`io::ErrorKind::UnexpectedEof`] when it is gone.
pub fn send(socket: BorrowedFd<'_>, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags) {
        // Reset: it ended with something of ours unread.
        Err(Errno::PIPE | Errno::CONNRESET) => Err(io::ErrorKind::UnexpectedEof.into()),
        other => Ok(other.map(drop)?),
    }
}

/// Receives a message and the descriptors that came with it; blocks if the socket does and `wait` is set.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the other side is gone, [`io::ErrorKind::WouldBlock`] when there is nothing.
pub fn receive(socket: &impl AsFd, wait: bool) -> io::Result<(Message, Vec<OwnedFd>)> {
    let mut bytes = vec![0u8; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC
        | if wait {
            RecvFlags::empty()
        } else {
            RecvFlags::DONTWAIT
        };
    let received = loop {
        match recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags,
        ) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(io::ErrorKind::UnexpectedEof.into()),
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((serde_json::from_slice(&bytes[..received.bytes])?, fds))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use abi::map::MAX_RANKS;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use wire::boot::MAX_CPUS;
    use wire::ram::{MAX_RANGES, Ram};

    /// Two ends of a connection.
    pub fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair")
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (a, b) = pair();
        let null = std::fs::File::open("/dev/null").expect("a null device");
        send(a.as_fd(), &Message::Descriptors, &[null.as_fd(); MOST_FDS]).expect("sent");
        let (message, fds) = receive(&b, true).expect("received");
        assert!(matches!(message, Message::Descriptors) && fds.len() == MOST_FDS);
    }

    #[test]
    fn the_longest_event_fits() {
        let (a, b) = pair();
        let ended = Ended {
            cause: Cause::Killed(9),
            complaint: "\u{1}".repeat(4 << 10),
            log: "\u{1}".repeat(16 << 10),
            used_up: Some(UsedUp {
                used_ms: u64::MAX,
                limit_s: u64::MAX,
            }),
        };
        let event = Message::Event {
            event: Event::Ended(ended),
            reports: true,
        };
        send(a.as_fd(), &event, &[]).expect("sent");
        assert!(receive(&b, true).is_ok());
    }

    #[test]
    fn the_longest_list_of_ram_arrives() {
        let (a, b) = pair();
        let range = |i: u64| RamRange {
            gpa: (1 << 51) + i * (2 << 20),
            len_bytes: 1 << 20,
            place: [Place::Ram, Place::Pool][(i % 2) as usize]((1 << 50) + i * (1 << 20)),
        };
        let ranges = (0..MAX_RANGES as u64).map(range);
        let ram = Ram::new(ranges).expect("room");
        let plan = Plan {
            ranks: MAX_RANKS,
            cpus: MAX_CPUS,
            partition_bytes: u64::MAX,
            pool_bytes: u64::MAX,
            node_bytes: u64::MAX,
            comm_offset: u64::MAX,
            flags: u64::MAX,
            tsc_hz: u64::MAX,
        };
        let welcome = Message::Welcome {
            plan,
            ram: ram.ranges().iter().map(Piece::from).collect(),
            keeper: i32::MAX,
            descriptors: usize::MAX,
        };
        send(a.as_fd(), &welcome, &[]).expect("sent");
        let Ok((Message::Welcome { ram: arrived, .. }, _)) = receive(&b, true) else {
            panic!("no welcome");
        };
        assert_eq!(Ram::new(arrived.into_iter().map(RamRange::from)), Ok(ram));
    }

    /// A keeper killed at the wrong moment gave "Connection reset by peer".
    #[test]
    fn a_peer_that_ended_without_reading_is_gone() {
        let (a, b) = pair();
        send(a.as_fd(), &Message::Staying, &[]).expect("sent");
        drop(b);
        let kind = |result: io::Result<()>| result.expect_err("gone").kind();
        assert_eq!(
            kind(receive(&a, true).map(drop)),
            io::ErrorKind::UnexpectedEof
        );
        assert_eq!(
            kind(send(a.as_fd(), &Message::Staying, &[])),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn an_end_is_distinguished_from_nothing_yet() {
        let (a, b) = pair();
        assert_eq!(
            receive(&b, false).expect_err("nothing").kind(),
            io::ErrorKind::WouldBlock
        );
        drop(a);
        assert_eq!(
            receive(&b, true).expect_err("end").kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
