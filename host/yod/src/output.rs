//! The ranks' output, when there are several: read from pipes, passed on by whole lines.
//!
//! Ranks are not read from while a sink has much left to write: then they wait, as they would natively.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread};

use crate::lines::Lines;
use crate::sink::Sink;

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
    /// Once its rank has ended: what is left to read of what was in the pipe then.
    left_bytes: Option<usize>,
}

impl Source {
    pub fn new(pipe: OwnedFd, label: String, stream: Stream) -> std::io::Result<Source> {
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        Ok(Source {
            pipe: Some(pipe),
            lines: Lines::new(label),
            stream,
            left_bytes: None,
        })
    }

    /// To be polled, unless the stream has ended or its sink takes no more.
    pub fn pollable(&self, sink: &Sink) -> Option<BorrowedFd<'_>> {
        self.pipe
            .as_ref()
            .filter(|_| !sink.is_full())
            .map(AsFd::as_fd)
    }

    /// Moves what is there to the sink. A sink that cannot write closes the pipe: the rank gets EPIPE.
    /// `buffer` is room to read into.
    pub fn read(&mut self, sink: &mut Sink, buffer: &mut [u8]) {
        if sink.is_broken() {
            self.pipe = None;
        }
        while let Some(pipe) = self.pipe.as_ref().filter(|_| !sink.is_full()) {
            let room = buffer.len().min(self.left_bytes.unwrap_or(usize::MAX));
            match rustix::io::read(pipe, &mut buffer[..room]) {
                Ok(0) => self.finish(sink),
                Ok(n) => {
                    self.lines.feed(&buffer[..n], sink.pending());
                    self.left_bytes = self.left_bytes.map(|left| left - n);
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    /// As [`read`](Source::read), of a rank that has ended: when what it left in the pipe is read, the stream is given up, for its
    /// children may hold the pipe open and write on. True when that is so.
    pub fn read_rest(&mut self, sink: &mut Sink, buffer: &mut [u8]) -> bool {
        if let (Some(pipe), None) = (&self.pipe, self.left_bytes) {
            // Linux answers this for every pipe.
            self.left_bytes = Some(ioctl_fionread(pipe).unwrap_or_default() as usize);
        }
        self.read(sink, buffer);
        self.pipe.is_none()
    }

    /// Gives the stream up; what was read of it goes out.
    fn finish(&mut self, sink: &mut Sink) {
        if self.pipe.take().is_some() {
            self.lines.finish(sink.pending());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_closes_the_ranks_pipe() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let (rank_read, rank_write) = rustix::pipe::pipe().expect("a pipe");
        drop(read);
        let mut sink = Sink::new("stdout", write.as_fd()).expect("a sink");
        let mut source = Source::new(rank_read, String::new(), Stream::Out).expect("a source");
        // A process that another test forks just now holds a copy of the ends closed here, for a moment.
        let soon = |mut holds: Box<dyn FnMut() -> bool + '_>| {
            (0..20_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                holds()
            })
        };
        assert!(soon(Box::new(|| {
            rustix::io::write(&rank_write, b"line\n").expect("room");
            source.read(&mut sink, &mut [0; 100]);
            sink.write();
            sink.is_unread() && sink.is_empty()
        })));
        source.read(&mut sink, &mut [0; 100]);
        assert!(soon(Box::new(|| {
            rustix::io::write(&rank_write, b"more\n") == Err(Errno::PIPE)
        })));
    }

    /// Else yod would not end before a child that writes on.
    #[test]
    fn what_comes_after_a_ranks_end_is_not_waited_for() {
        let (_read, write) = rustix::pipe::pipe().expect("a pipe");
        let (rank_read, rank_write) = rustix::pipe::pipe().expect("a pipe");
        let mut sink = Sink::new("stdout", write.as_fd()).expect("a sink");
        let mut source = Source::new(rank_read, String::new(), Stream::Out).expect("a source");
        rustix::io::write(&rank_write, b"the rank's").expect("room");
        // A full sink takes nothing of it.
        sink.pending().resize(1 << 20, b'x');
        assert!(!source.read_rest(&mut sink, &mut [0; 100]));
        rustix::io::write(&rank_write, b" and its child's").expect("room");
        sink.pending().clear();
        assert!(source.read_rest(&mut sink, &mut [0; 100]));
        assert_eq!(sink.pending(), b"the rank's");
    }
}
