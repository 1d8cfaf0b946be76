//! The server's side of QEMU's ivshmem-doorbell device: who may ring whom.
//!
//! There are two peers from the start and never another: the node and the host. Messages are 8-byte little-endian
//! numbers, some with a descriptor (QEMU, docs/specs/ivshmem-spec): protocol version 0; the client's own id; -1 with
//! the shared memory; then, peer by peer, its id with one eventfd per vector, the client's own last.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use wire::boot::{HOST_PEER, NODE_PEER};

use crate::ready;

/// Bytes of the device's own shared memory, which is unused; a power of two.
const SHM_BYTES: u64 = 4096;
/// Linux allows at least so much without privileges; each queued descriptor takes a part of it.
const SEND_BUFFER_BYTES: usize = 212_992;

/// The doorbells and what QEMU has yet to be told of them.
#[derive(Debug)]
pub struct Doorbells {
    /// Rings core c of the node.
    pub node: Vec<OwnedFd>,
    /// Rung by the node: rank r, and behind the ranks the keeper.
    pub host: Vec<OwnedFd>,
    shm: OwnedFd,
    socket: OwnedFd,
    sent: usize,
}

impl Doorbells {
    /// Makes the doorbells; also returns QEMU's end of the socket.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn new(vectors: usize) -> io::Result<(Doorbells, OwnedFd)> {
        let bells = || -> io::Result<Vec<OwnedFd>> {
            (0..vectors)
                .map(|_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
                .collect()
        };
        let shm = memfd_create("margay-ivshmem", MemfdFlags::CLOEXEC)?;
        ftruncate(&shm, SHM_BYTES)?;
        let (socket, qemu) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        let doorbells = Doorbells {
            node: bells()?,
            host: bells()?,
            shm,
            socket,
            sent: 0,
        };
        Ok((doorbells, qemu))
    }

    /// Message number `index`; `None` behind the last.
    fn message(&self, index: usize) -> Option<(i64, Option<BorrowedFd<'_>>)> {
        let vectors = self.host.len();
        match index {
            0 => Some((0, None)),
            1 => Some((NODE_PEER.into(), None)),
            2 => Some((-1, Some(self.shm.as_fd()))),
            _ => {
                let bell = index - 3;
                let (peer, bells) = if bell < vectors {
                    (HOST_PEER, &self.host)
                } else {
                    (NODE_PEER, &self.node)
                };
                bells
                    .get(bell % vectors)
                    .filter(|_| bell < 2 * vectors)
                    .map(|fd| (peer.into(), Some(fd.as_fd())))
            }
        }
    }

    /// Sends what is left to send, as far as the socket takes it; true when nothing is left. With many vectors the rest
    /// waits until QEMU reads.
    ///
    /// # Errors
    /// QEMU is gone.
    pub fn send(&mut self) -> io::Result<bool> {
        while let Some((number, fd)) = self.message(self.sent) {
            match send_message(self.socket.as_fd(), number, fd) {
                Ok(()) => self.sent += 1,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Forgets rings of the host's doorbell `vector`. Without any it would block, now and then: QEMU shares the open file, and takes
    /// O_NONBLOCK off a descriptor that it receives (io/channel-socket.c) until it knows what it is for (hw/misc/ivshmem.c).
    pub fn clear(&self, vector: usize) {
        let rung = |bell: &&OwnedFd| ready::within(Duration::ZERO, bell, PollFlags::IN);
        if let Some(bell) = self.host.get(vector).filter(rung) {
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
    }

    /// The socket, to be polled for writing while [`Self::send`] has something left.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send_message(
    socket: BorrowedFd<'_>,
    number: i64,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let bytes = number.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.as_slice();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, flags).map(drop)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;
    use crate::hang;

    #[test]
    fn the_order_is_the_protocols() {
        let (bells, _qemu) = Doorbells::new(2).expect("doorbells");
        let numbers: Vec<i64> = (0..8)
            .map_while(|i| bells.message(i))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(numbers, [0, 0, -1, 1, 1, 0, 0]);
    }

    /// A keeper that looked while QEMU started could wait for the node's first ring, and was deaf until then.
    #[test]
    fn no_ring_is_not_waited_for() {
        let (bells, _qemu) = Doorbells::new(1).expect("doorbells");
        let bell = bells.host[0].try_clone().expect("a descriptor");
        let rung = || ready::within(Duration::ZERO, &bell, PollFlags::IN);
        fcntl_setfl(&bell, OFlags::empty()).expect("a descriptor");
        rustix::io::write(&bell, &1u64.to_ne_bytes()).expect("room");
        assert!(rung());
        hang::not(move || {
            bells.clear(0);
            bells.clear(0);
        });
        assert!(!rung());
    }

    #[test]
    fn a_small_node_is_told_everything_before_it_starts() {
        let (mut bells, _qemu) = Doorbells::new(17).expect("doorbells");
        assert!(bells.send().expect("open"));
    }

    #[test]
    fn a_large_node_is_told_the_rest_as_it_reads() {
        let (mut bells, qemu) = Doorbells::new(256).expect("doorbells");
        let mut numbers = Vec::new();
        let mut fds = 0;
        let mut done = false;
        while numbers.len() < 3 + 2 * 256 {
            done = done || bells.send().expect("open");
            let mut bytes = [0u8; 8];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
            let mut io = [io::IoSliceMut::new(&mut bytes)];
            rustix::net::recvmsg(
                &qemu,
                &mut io,
                &mut control,
                rustix::net::RecvFlags::CMSG_CLOEXEC,
            )
            .expect("a message");
            for message in control.drain() {
                if let rustix::net::RecvAncillaryMessage::ScmRights(rights) = message {
                    fds += rights.count();
                }
            }
            numbers.push(i64::from_le_bytes(bytes));
        }
        assert_eq!(fds, 1 + 2 * 256);
        assert!(bells.send().expect("open"));
    }
}
