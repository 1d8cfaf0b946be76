//! The keeper's end of the agent's socket. The agent is a library in the machine's process that lays pages of files over the node pool, where
//! that process has it mapped (host/agent/agent.c); its requests are the proxies', which are handed this end, too.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

/// Numbers and bytes of what the keeper is sent, as agent.c has them.
const HELLO: u64 = 3;
const LOST: u64 = 4;
const RESTORE: u64 = 6;
const NOTICE_BYTES: usize = 24;

/// The end of the socket that is the job's, and what came from the other.
#[derive(Debug)]
pub struct Agent {
    socket: OwnedFd,
    is_there: Cell<bool>,
}

/// A page of the pool that a file was laid over has none of the file's bytes any more: it is zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// In the pool's file, in bytes.
    pub offset: u64,
    /// The core that touched it, where that is known.
    pub core: Option<u64>,
}

impl Agent {
    /// Makes the socket; also returns the agent's end of it.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new() -> io::Result<(Agent, OwnedFd)> {
        let (socket, agents) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let is_there = Cell::new(false);
        Ok((Agent { socket, is_there }, agents))
    }

    /// Reads what has come, without waiting.
    pub fn read(&self, mut lost: impl FnMut(Lost)) {
        let mut bytes = [0; NOTICE_BYTES];
        while let Ok((_, NOTICE_BYTES)) = recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
            let (words, _) = bytes.as_chunks();
            match [0, 1, 2].map(|word| u64::from_ne_bytes(words[word])) {
                [HELLO, ..] => self.is_there.set(true),
                [LOST, offset, core] => lost(Lost {
                    offset,
                    core: (core != u64::MAX).then_some(core),
                }),
                _ => {}
            }
        }
    }

    /// Whether requests are taken, as far as [`Self::read`] has found out. It says so before the machine does anything.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.is_there.get()
    }

    /// Has a page that was lost be the file's again, if that has it; false when the agent cannot take the request now.
    pub fn restore(&self, offset: u64) -> bool {
        let words = [RESTORE, offset, abi::map::PAGE, 0, 0].map(u64::to_ne_bytes);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        send(&self.socket, words.as_flattened(), flags) != Err(Errno::AGAIN)
    }

    /// There is none: requests fail from now on, also those that wait.
    pub fn refuse(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Agent {
    /// Readable when [`Self::read`] has something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(words: [u64; 3]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn notices_are_read_and_nothing_else_is_believed() {
        let (agent, other) = Agent::new().expect("a socket");
        let send = |bytes: &[u8]| {
            rustix::net::send(&other, bytes, SendFlags::empty()).expect("room");
            let mut all = Vec::new();
            agent.read(|lost| all.push(lost));
            (agent.is_there(), all)
        };
        let nothing = (false, Vec::new());
        assert_eq!(send(&notice([5, 0, 0])), nothing);
        assert_eq!(send(&notice([HELLO, 0, 0])[..23]), nothing);
        assert_eq!(send(b""), nothing);
        assert_eq!(send(&notice([HELLO, 0, 0])), (true, Vec::new()));
        let lost = |offset, core| (true, vec![Lost { offset, core }]);
        assert_eq!(send(&notice([LOST, 4096, 3])), lost(4096, Some(3)));
        assert_eq!(send(&notice([LOST, 0, u64::MAX])), lost(0, None));
    }

    #[test]
    fn a_page_is_restored_unless_the_agent_is_busy() {
        let (agent, other) = Agent::new().expect("a socket");
        assert!(agent.restore(8192));
        let mut bytes = [0; 41];
        let received = recv(&other, &mut bytes[..], RecvFlags::empty());
        assert_eq!(received.map(|(_, len)| len), Ok(40));
        let (words, _) = bytes.as_chunks();
        let words = [0, 1, 2, 3, 4].map(|word| u64::from_ne_bytes(words[word]));
        assert_eq!(words, [RESTORE, 8192, 4096, 0, 0]);
        assert!((0..1_000_000).any(|_| !agent.restore(0)));
        drop(other);
        assert!(
            agent.restore(0),
            "there is none, which is not to be waited for"
        );
    }

    /// They would have waited for an answer for as long as QEMU runs.
    #[test]
    fn who_has_the_socket_sees_that_there_is_no_agent() {
        let (agent, _other) = Agent::new().expect("a socket");
        let proxys = agent.socket.try_clone().expect("a descriptor");
        let request = || send(&proxys, &[0; 32], SendFlags::NOSIGNAL);
        assert_eq!(request(), Ok(32));
        agent.refuse();
        assert_eq!(request(), Err(Errno::PIPE));
    }
}
