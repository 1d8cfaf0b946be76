//! The agent in QEMU, played by a thread of the test: it lays files over the pool as the test has it mapped.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};

const LAY: u64 = 1;
const CLEAR: u64 = 2;

/// Where the pool is mapped, and its file.
pub struct Pool {
    pub address: usize,
    pub file: OwnedFd,
}

/// Starts one; the proxy's end of its socket. It ends with the last of those.
pub fn start(pool: Pool) -> OwnedFd {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (theirs, ours) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
    thread::spawn(move || while serve(&ours, &pool) {});
    theirs
}

fn serve(socket: &OwnedFd, pool: &Pool) -> bool {
    let mut bytes = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let Some(mut fds) = fds.next() else {
        assert_eq!(received.bytes, 0);
        return false;
    };
    let answer = fds.next().expect("where the answer goes");
    let word = |n: usize| u64::from_ne_bytes(bytes[n * 8..n * 8 + 8].try_into().unwrap());
    let [command, offset, len_bytes, file_offset, how] = [0, 1, 2, 3, 4].map(word);
    let file = fds.next();
    let done = match (command, &file) {
        (LAY, Some(file)) => pool.show(file, [offset, len_bytes, file_offset], how == 1),
        (CLEAR, None) => pool.show(&pool.file, [offset, len_bytes, offset], true),
        _ => Err(Errno::INVAL),
    };
    let error = done.map_or_else(Errno::raw_os_error, |()| 0);
    let _ = send(answer, &error.to_ne_bytes(), SendFlags::NOSIGNAL);
    true
}

impl Pool {
    fn show(
        &self,
        file: impl AsFd,
        [at, len_bytes, offset]: [u64; 3],
        is_writable: bool,
    ) -> Result<(), Errno> {
        let mut access = ProtFlags::READ;
        access.set(ProtFlags::WRITE, is_writable);
        let to = std::ptr::with_exposed_provenance_mut(self.address + at as usize);
        let how = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: 1. What is replaced is the pool as the test has it mapped: the proxy checks places before it requests anything.
        unsafe { mmap(to, len_bytes as usize, access, how, file, offset) }.map(drop)
    }
}
