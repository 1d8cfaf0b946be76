//! Writing without ever blocking.
//!
//! A reader that is slow must not keep yod from its other duties, so a sink keeps what its destination does not take yet. A
//! pipe or terminal may be shared with the ranks, which fill it between poll's answer and a write: it is opened once more,
//! without blocking, for the flag belongs to the open file and the ranks must not see it on theirs. Where Linux does not
//! allow that, a write is only as long as poll's answer covers.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use machine::ready;
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::failure::Failure;

/// A sink with more to write than this takes no more.
const FULL_BYTES: usize = 256 << 10;
/// A pipe that poll calls writable takes so much without blocking (pipe(7), PIPE_BUF).
const POLLED_PIECE_BYTES: usize = 4096;
/// Regular files take everything; what does not block writes what it can.
const PIECE_BYTES: usize = 128 << 10;

/// How bytes get to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// write(2), of at most so many bytes.
    Write(usize),
    /// send(2), which has a flag not to block.
    Send,
}

/// A destination and what it has not taken yet.
#[derive(Debug)]
pub struct Sink {
    name: String,
    fd: OwnedFd,
    way: Way,
    pending: Vec<u8>,
    written: usize,
    total_bytes: u64,
    /// Why nothing can be written any more, and since when.
    broken: Option<(Errno, Instant)>,
}

impl Sink {
    /// A sink for `fd`, which messages call `name`.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn new(name: impl Into<String>, fd: BorrowedFd<'_>) -> Result<Sink, Failure> {
        let name = name.into();
        let (fd, way) = destination(fd).map_err(|error| cannot_write(&name, error))?;
        Ok(Sink {
            name,
            fd,
            way,
            pending: Vec::new(),
            written: 0,
            total_bytes: 0,
            broken: None,
        })
    }

    /// Nothing is left to write, or nothing can be written any more.
    pub fn is_empty(&self) -> bool {
        self.broken.is_some() || self.written == self.pending.len()
    }

    pub fn is_full(&self) -> bool {
        self.broken.is_none() && self.pending.len() - self.written > FULL_BYTES
    }

    /// A write has failed: whatever comes is dropped.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Its reader has gone away.
    pub fn is_unread(&self) -> bool {
        matches!(self.broken, Some((Errno::PIPE | Errno::CONNRESET, _)))
    }

    /// The first write that failed. A reader that went away is no failure: programs end quietly then.
    pub fn failure(&self) -> Option<Failure> {
        let (error, _) = self.broken.filter(|_| !self.is_unread())?;
        Some(cannot_write(&self.name, error))
    }

    /// When a write failed first.
    pub fn broken_since(&self) -> Option<Instant> {
        self.broken.map(|(_, since)| since)
    }

    /// Bytes that the destination has taken.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Where to append what is to be written.
    pub fn pending(&mut self) -> &mut Vec<u8> {
        if self.broken.is_some() {
            self.pending.clear();
            self.written = 0;
        }
        &mut self.pending
    }

    /// Drops what is left and whatever comes, as if its reader had gone away.
    pub fn give_up(&mut self) {
        self.end(Errno::PIPE);
    }

    fn end(&mut self, why: Errno) {
        self.broken.get_or_insert((why, Instant::now()));
    }

    /// To be polled for writing, when there is something to write.
    pub fn pollable(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_empty()).then(|| self.fd.as_fd())
    }

    /// Writes what the destination takes now.
    pub fn write(&mut self) {
        while !self.is_empty() && self.wait(Duration::ZERO) {
            self.write_piece();
        }
    }

    /// Writes everything unless the destination takes nothing for as long as `limit`.
    pub fn write_all(&mut self, limit: Duration) {
        while !self.is_empty() && self.wait(limit) {
            self.write_piece();
        }
    }

    /// Whether the destination takes something, now or within the limit.
    fn wait(&self, limit: Duration) -> bool {
        ready::within(limit, &self.fd, PollFlags::OUT)
    }

    fn write_piece(&mut self) {
        let rest = &self.pending[self.written..];
        let most = match self.way {
            Way::Write(most) => &rest[..rest.len().min(most)],
            Way::Send => &rest[..rest.len().min(PIECE_BYTES)],
        };
        // Where possible a piece ends with a line: the other sink may be the same terminal.
        let end = most
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(most.len(), |at| at + 1);
        let written = match self.way {
            Way::Write(_) => rustix::io::write(&self.fd, &most[..end]),
            Way::Send => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                send(&self.fd, &most[..end], flags)
            }
        };
        match written {
            Ok(written) => {
                self.written += written;
                self.total_bytes += written as u64;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => self.end(error),
        }
        if self.is_empty() || self.written > FULL_BYTES {
            self.pending.drain(..self.written);
            self.written = 0;
        }
    }
}

/// A descriptor of our own for the destination, and how to write to it.
fn destination(fd: BorrowedFd<'_>) -> Result<(OwnedFd, Way), Errno> {
    let kind = FileType::from_raw_mode(fstat(fd)?.st_mode);
    if let FileType::Fifo | FileType::CharacterDevice = kind {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if let Ok(own) = open(path, flags, Mode::empty()) {
            return Ok((own, Way::Write(PIECE_BYTES)));
        }
    }
    let way = match kind {
        FileType::Socket => Way::Send,
        FileType::RegularFile => Way::Write(PIECE_BYTES),
        _ => Way::Write(POLLED_PIECE_BYTES),
    };
    Ok((rustix::io::fcntl_dupfd_cloexec(fd, 0)?, way))
}

fn cannot_write(name: &str, error: Errno) -> Failure {
    Failure::os(
        "write",
        format_args!("{name}: {}", std::io::Error::from(error)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fcntl_getfl;

    fn sink(fd: impl AsFd) -> Sink {
        Sink::new("test", fd.as_fd()).expect("a descriptor")
    }

    #[test]
    fn pieces_end_with_lines() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let mut sink = sink(&write);
        sink.way = Way::Write(POLLED_PIECE_BYTES);
        let line = [b"x".repeat(2999), vec![b'\n']].concat();
        sink.pending().extend(line.repeat(3));
        sink.write_piece();
        let mut bytes = [0; 10_000];
        assert_eq!(rustix::io::read(&read, &mut bytes[..]), Ok(3000));
        sink.write();
        assert_eq!(rustix::io::read(&read, &mut bytes[..]), Ok(6000));
        assert!(sink.is_empty() && sink.total_bytes() == 9000);
    }

    /// yod hung in a write once the program, which has the same pipe, had filled it after poll.
    #[test]
    fn a_full_pipe_does_not_block_and_others_do_not_notice() {
        let (_read, write) = rustix::pipe::pipe().expect("a pipe");
        let mut sink = sink(&write);
        sink.pending().resize(1 << 20, b'x');
        sink.write_piece();
        sink.write_piece();
        sink.write();
        sink.write_all(Duration::from_millis(1));
        assert!(!sink.is_empty() && sink.is_full());
        let flags = fcntl_getfl(&write).expect("a pipe");
        assert!(!flags.contains(OFlags::NONBLOCK));
    }

    /// Output to a full disk was lost without a word.
    #[test]
    fn a_full_disk_is_a_failure() {
        let full = open("/dev/full", OFlags::WRONLY, Mode::empty()).expect("a device");
        let mut sink = sink(&full);
        sink.pending().extend(b"line\n");
        sink.write();
        assert!(sink.is_broken() && sink.is_empty());
        let failure = sink.failure().expect("a failure");
        assert_eq!(failure.status, 71);
        assert!(
            failure
                .line
                .starts_with("cannot write: test: No space left")
        );
    }

    #[test]
    fn errors_of_a_medium_are_failures() {
        for (errno, text) in [
            (Errno::IO, "Input/output error"),
            (Errno::DQUOT, "Disk quota exceeded"),
        ] {
            let mut sink = sink(std::io::stdout());
            sink.end(errno);
            let line = sink.failure().expect("a failure").line;
            assert!(line.starts_with(&format!("cannot write: test: {text}")));
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let (read, write) = std::os::unix::net::UnixStream::pair().expect("sockets");
        read.shutdown(std::net::Shutdown::Both).expect("a socket");
        let mut sink = sink(&write);
        sink.pending().extend(b"line\n");
        sink.write();
        assert!(sink.is_unread() && sink.failure().is_none());
    }
}
