//! The server's side of QEMU's ivshmem-doorbell device: who may ring whom.
//!
//! There are two peers from the start and never another: the node and the host. Messages are 8-byte little-endian
//! numbers, some with a descriptor (QEMU, docs/specs/ivshmem-spec): protocol version 0; the client's own id; the host's id
//! with an eventfd, once per vector; -1 with the shared memory; the client's own id with an eventfd, once per vector.
//!
//! QEMU starts the machine when it has read up to the shared memory, and reads the rest when it comes to it
//! (hw/misc/ivshmem.c, `ivshmem_recv_setup`). What the node rings before QEMU knows it is lost, so the host's doorbells come before the
//! shared memory: QEMU takes them in any order. It cannot take the node's so early, and need not: a ring waits in the eventfd.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use wire::boot::{HOST_PEER, NODE_PEER};

use crate::bells::Bells;

/// Bytes of the device's own shared memory, which is unused; a power of two.
const SHM_BYTES: u64 = 4096;
/// Linux allows at least so much without privileges; each queued descriptor takes a part of it.
const SEND_BUFFER_BYTES: usize = 212_992;

/// The server, and what it has yet to send to QEMU.
#[derive(Debug)]
pub struct Server {
    shm: OwnedFd,
    socket: OwnedFd,
    sent: usize,
}

impl Server {
    /// Makes the socket; also returns QEMU's end of it.
    ///
    /// # Errors
    /// No descriptors or memory left.
    pub fn new() -> io::Result<(Server, OwnedFd)> {
        let shm = memfd_create("margay-ivshmem", MemfdFlags::CLOEXEC)?;
        ftruncate(&shm, SHM_BYTES)?;
        let (socket, qemu) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
        let server = Server {
            shm,
            socket,
            sent: 0,
        };
        Ok((server, qemu))
    }

    /// Message number `index`; `None` behind the last.
    fn message<'a>(
        &'a self,
        index: usize,
        bells: &'a Bells,
    ) -> Option<(i64, Option<BorrowedFd<'a>>)> {
        let of = |peer: u16, fd: &'a OwnedFd| (peer.into(), Some(fd.as_fd()));
        let host = bells.host.iter().map(|fd| of(HOST_PEER, fd));
        let node = bells.node.iter().map(|fd| of(NODE_PEER, fd));
        let mut all = [(0, None), (NODE_PEER.into(), None)]
            .into_iter()
            .chain(host)
            .chain([(-1, Some(self.shm.as_fd()))])
            .chain(node);
        all.nth(index)
    }

    /// Sends what is left to send of the doorbells, as many for either peer, as far as the socket takes it; true when nothing is left. With many vectors the rest
    /// waits until QEMU reads.
    ///
    /// # Errors
    /// QEMU is gone.
    pub fn send(&mut self, bells: &Bells) -> io::Result<bool> {
        while let Some((number, fd)) = self.message(self.sent, bells) {
            match send_message(self.socket.as_fd(), number, fd) {
                Ok(()) => self.sent += 1,
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
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
    use super::*;

    fn server(vectors: usize) -> (Bells, Server, OwnedFd) {
        let bells = Bells::new(vectors, vectors).expect("doorbells");
        let (server, qemu) = Server::new().expect("a socket");
        (bells, server, qemu)
    }

    /// The host's came behind the shared memory. When QEMU's main thread did not run while the kernel booted, the node's first ring of
    /// a proxy was lost, and the job hung.
    #[test]
    fn qemu_knows_whom_the_node_rings_before_the_machine_starts() {
        let (bells, server, _qemu) = server(2);
        let numbers: Vec<i64> = (0..8)
            .map_while(|i| server.message(i, &bells))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(numbers, [0, 0, 1, 1, -1, 0, 0]);
    }

    #[test]
    fn a_small_node_is_sent_everything_before_it_starts() {
        let (bells, mut server, _qemu) = server(17);
        assert!(server.send(&bells).expect("open"));
    }

    #[test]
    fn a_large_node_is_sent_the_rest_as_it_reads() {
        let (bells, mut server, qemu) = server(256);
        let mut numbers = Vec::new();
        let mut fds = 0;
        let mut done = false;
        while numbers.len() < 3 + 2 * 256 {
            done = done || server.send(&bells).expect("open");
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
        assert!(server.send(&bells).expect("open"));
    }
}
