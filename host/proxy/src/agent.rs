//! Requests to the agent, a library in the machine's process that lays pages of files over the node pool (host/agent/agent.c).
//!
//! Each has a socket of its own for its answer. The agent gets the only other end: when that is gone, so is the agent.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Numbers of requests, as agent.c has them.
const LAY: u64 = 1;
const CLEAR: u64 = 2;
const SEGMENT: u64 = 5;
const RESTORE: u64 = 6;
/// Of the last word of a request.
const ID_SHIFT: u32 = 32;

/// A part of the node pool's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// In bytes, a multiple of a page.
    pub offset: u64,
    /// Likewise.
    pub len_bytes: u64,
}

/// What the node is to have a file for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// To write to it, besides reading.
    pub is_writable: bool,
}

/// Who sends requests, by the job's end of the agent's socket.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    socket: BorrowedFd<'a>,
}

impl Access {
    /// To read.
    pub const READ: Access = Access { is_writable: false };
    /// To read and to write.
    pub const WRITE: Access = Access { is_writable: true };
}

impl<'a> Agent<'a> {
    /// At the other end of this.
    #[must_use]
    pub fn of(socket: &'a OwnedFd) -> Agent<'a> {
        let socket = socket.as_fd();
        Agent { socket }
    }

    /// Has a part of the pool show a regular file from `file_offset` on, a multiple of a page. The file may end before. Waits until it
    /// is so.
    ///
    /// # Errors
    /// PIPE when there is no agent (any more); INVAL for what is no part of the pool or no such file; else what socketpair(2), sendmsg(2) or
    /// mmap(2) say. After what Linux has refused the pool's own pages are there, after another error what was there before.
    pub fn lay(
        &self,
        file: BorrowedFd<'_>,
        place: Place,
        file_offset: u64,
        access: Access,
    ) -> Result<()> {
        let how = u64::from(access.is_writable);
        self.request([LAY, file_offset, how], place, Some(file))
    }

    /// The same of a segment of System V shared memory.
    ///
    /// # Errors
    /// As [`Self::lay`]; INVAL also for what lies behind its end; what shmat(2) says.
    pub fn lay_segment(&self, id: i32, place: Place, offset: u64, access: Access) -> Result<()> {
        let how = u64::from(id as u32) << ID_SHIFT | u64::from(access.is_writable);
        self.request([SEGMENT, offset, how], place, None)
    }

    /// Has it show the pool's own pages again. Those that something was laid over are zeros.
    ///
    /// # Errors
    /// As [`Self::lay`].
    pub fn clear(&self, place: Place) -> Result<()> {
        self.request([CLEAR, 0, 0], place, None)
    }

    /// Has pages that were lost, for the file did not have them, be the file's again, of one that was laid there.
    ///
    /// # Errors
    /// As [`Self::lay`]; INVAL where there is no file.
    pub fn restore(&self, place: Place) -> Result<()> {
        self.request([RESTORE, 0, 0], place, None)
    }

    fn request(
        &self,
        [command, file_offset, how]: [u64; 3],
        place: Place,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<()> {
        let (answer, agents) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let words = [command, place.offset, place.len_bytes, file_offset, how];
        let fds: Vec<_> = std::iter::once(agents.as_fd()).chain(file).collect();
        send(self.socket, words, &fds)?;
        drop(agents);
        self.wait(&answer)
    }

    /// The agent's answer. One that was never there does not take the request, and its end stays open.
    fn wait(&self, answer: &OwnedFd) -> Result<()> {
        let mut ends = [
            PollFd::new(answer, PollFlags::IN),
            PollFd::from_borrowed_fd(self.socket, PollFlags::empty()),
        ];
        retry_on_intr(|| poll(&mut ends, None))?;
        let mut errno = [0; size_of::<i32>()];
        let mut parts = [IoSliceMut::new(&mut errno)];
        let mut none = RecvAncillaryBuffer::default();
        let received = recvmsg(answer, &mut parts, &mut none, RecvFlags::DONTWAIT);
        match received.map(|received| received.bytes) {
            Ok(4) => {}
            _ => return Err(Errno::PIPE),
        }
        match i32::from_ne_bytes(errno) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }
}

fn send(socket: BorrowedFd<'_>, words: [u64; 5], fds: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes = words.map(u64::to_ne_bytes);
    let parts = [IoSlice::new(bytes.as_flattened())];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    match retry_on_intr(|| sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)) {
        // Reset: it ended with something unread.
        Err(Errno::CONNRESET) => Err(Errno::PIPE),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair")
    }

    const PLACE: Place = Place {
        offset: 4096,
        len_bytes: 8192,
    };

    /// One that there never was takes nothing: who had sent a request, or sends one, waited for ever.
    #[test]
    fn requests_end_when_there_is_no_agent() {
        let (ours, agents) = pair();
        thread::scope(|scope| {
            let waits = scope.spawn(|| Agent::of(&ours).clear(PLACE));
            // It has come when it can be read.
            let mut fds = [PollFd::new(&agents, PollFlags::IN)];
            retry_on_intr(|| poll(&mut fds, None)).expect("it comes");
            rustix::net::shutdown(&ours, rustix::net::Shutdown::Both).expect("open");
            assert_eq!(waits.join().expect("no panic"), Err(Errno::PIPE));
        });
        assert_eq!(Agent::of(&ours).clear(PLACE), Err(Errno::PIPE));
    }

    #[test]
    fn requests_end_with_the_agent() {
        let (ours, agents) = pair();
        thread::scope(|scope| {
            let waits = scope.spawn(|| Agent::of(&ours).clear(PLACE));
            let mut fds = [PollFd::new(&agents, PollFlags::IN)];
            retry_on_intr(|| poll(&mut fds, None)).expect("it comes");
            drop(agents);
            assert_eq!(waits.join().expect("no panic"), Err(Errno::PIPE));
        });
        assert_eq!(Agent::of(&ours).clear(PLACE), Err(Errno::PIPE));
    }

    /// An answer that has come counts, whatever has become of the agent.
    #[test]
    fn an_answer_is_an_errno() {
        for (word, result) in [(0, Ok(())), (libc::ENOMEM, Err(Errno::NOMEM))] {
            let (ours, agents) = pair();
            thread::scope(|scope| {
                let waits = scope.spawn(|| Agent::of(&ours).clear(PLACE));
                let (words, fds) = receive(&agents);
                assert_eq!(words, [CLEAR, PLACE.offset, PLACE.len_bytes, 0, 0]);
                rustix::io::write(&fds[0], &i32::to_ne_bytes(word)).expect("open");
                drop(agents);
                assert_eq!(waits.join().expect("no panic"), result);
            });
        }
    }

    fn receive(agents: &OwnedFd) -> ([u64; 5], Vec<OwnedFd>) {
        let mut bytes = [0; 40];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(agents, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).expect("it comes");
        let rights = control.drain().flat_map(|message| match message {
            rustix::net::RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
            _ => Vec::new(),
        });
        let fds = rights.collect();
        let (words, _) = bytes.as_chunks();
        let words = [0, 1, 2, 3, 4].map(|word| u64::from_ne_bytes(words[word]));
        (words, fds)
    }
}
