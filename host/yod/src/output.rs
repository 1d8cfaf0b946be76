//! Passing the ranks' output on, when there are several: whole lines, without ever blocking.
//!
//! A reader that is slow must not keep yod from its other duties, so a sink is written to only when it takes something,
//! and ranks are not read from while a sink has much left to write: then they wait, as they would natively.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;

use crate::lines::Lines;

/// A sink with more to write than this takes no more.
const FULL_BYTES: usize = 256 << 10;
/// A pipe that poll calls writable takes so much without blocking (pipe(7), PIPE_BUF); terminals do as well.
const PIECE_BYTES: usize = 4096;
/// Regular files always take everything.
const FILE_PIECE_BYTES: usize = 128 << 10;

/// stdout or stderr of yod.
#[derive(Debug)]
pub struct Sink<'a> {
    fd: BorrowedFd<'a>,
    piece_bytes: usize,
    pending: Vec<u8>,
    written: usize,
    broken: bool,
}

impl<'a> Sink<'a> {
    pub fn new(fd: BorrowedFd<'a>) -> Sink<'a> {
        let regular = fstat(fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let piece_bytes = if regular {
            FILE_PIECE_BYTES
        } else {
            PIECE_BYTES
        };
        Sink {
            fd,
            piece_bytes,
            pending: Vec::new(),
            written: 0,
            broken: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.broken || self.written == self.pending.len()
    }

    pub fn is_full(&self) -> bool {
        !self.broken && self.pending.len() - self.written > FULL_BYTES
    }

    /// Nobody reads any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Where to append what is to be written.
    pub fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Writes a piece; poll must have called the sink writable.
    pub fn write_piece(&mut self) {
        let rest = &self.pending[self.written..];
        let most = &rest[..rest.len().min(self.piece_bytes)];
        // Where possible a piece ends with a line: the other sink may be the same terminal.
        let end = most
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(most.len(), |at| at + 1);
        match rustix::io::write(self.fd, &most[..end]) {
            Ok(written) => self.written += written,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.broken = true,
        }
        if self.is_empty() || self.written > FULL_BYTES {
            self.pending.drain(..self.written);
            self.written = 0;
        }
    }
}

impl AsFd for Sink<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}

/// Which stream of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Out,
    Err,
}

/// The reading end of a rank's stdout or stderr.
#[derive(Debug)]
pub struct Source {
    pipe: Option<OwnedFd>,
    lines: Lines,
    pub stream: Stream,
}

impl Source {
    pub fn new(pipe: OwnedFd, label: String, stream: Stream) -> std::io::Result<Source> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Source {
            pipe: Some(pipe),
            lines: Lines::new(label),
            stream,
        })
    }

    /// To be polled, unless the stream has ended or its sink takes no more.
    pub fn pollable(&self, sink: &Sink<'_>) -> Option<BorrowedFd<'_>> {
        self.pipe
            .as_ref()
            .filter(|_| !sink.is_full())
            .map(AsFd::as_fd)
    }

    /// Moves what is there to the sink. A sink that nobody reads closes the pipe: the rank learns it by EPIPE.
    pub fn read(&mut self, sink: &mut Sink<'_>) {
        if sink.is_broken() {
            self.pipe = None;
        }
        let mut bytes = [0; 64 << 10];
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !sink.is_full()) {
            match rustix::io::read(pipe, &mut bytes[..]) {
                Ok(0) => self.finish(sink),
                Ok(n) => self.lines.feed(&bytes[..n], sink.pending()),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Gives the stream up; what was read of it goes out.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        if self.pipe.take().is_some() {
            self.lines.finish(sink.pending());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_goes_through_in_pieces_that_end_with_lines() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let mut sink = Sink::new(write.as_fd());
        let line = [b"x".repeat(2999), vec![b'\n']].concat();
        sink.pending().extend(line.repeat(3));
        sink.write_piece();
        let mut bytes = [0; 10_000];
        assert_eq!(rustix::io::read(&read, &mut bytes[..]), Ok(3000));
        while !sink.is_empty() {
            sink.write_piece();
        }
        assert_eq!(rustix::io::read(&read, &mut bytes[..]), Ok(6000));
    }

    #[test]
    fn a_reader_that_went_away_closes_the_ranks_pipe() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let (rank_read, rank_write) = rustix::pipe::pipe().expect("a pipe");
        drop(read);
        let mut sink = Sink::new(write.as_fd());
        let mut source = Source::new(rank_read, String::new(), Stream::Out).expect("a source");
        // A process that another test forks just now holds a copy of the ends closed here, for a moment.
        let soon = |mut holds: Box<dyn FnMut() -> bool + '_>| {
            (0..2000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                holds()
            })
        };
        assert!(soon(Box::new(|| {
            rustix::io::write(&rank_write, b"line\n").expect("room");
            source.read(&mut sink);
            sink.write_piece();
            sink.is_broken() && sink.is_empty()
        })));
        source.read(&mut sink);
        assert!(soon(Box::new(|| {
            rustix::io::write(&rank_write, b"more\n") == Err(Errno::PIPE)
        })));
    }
}
