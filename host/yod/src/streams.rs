//! All that yod writes while ranks run: their merged output, the trace, the kernel's log.

use std::os::fd::AsFd;

use machine::comm::Comm;
use rustix::event::{PollFd, PollFlags};

use crate::failure::Failure;
use crate::klog::KernelLog;
use crate::output::{Source, Stream};
use crate::sink::Sink;
use crate::trace::Trace;

/// Bytes read from a rank at once.
const READ_BYTES: usize = 64 << 10;

/// Sources and sinks.
pub struct Streams {
    sources: Vec<Source>,
    out: Sink,
    err: Sink,
    trace: Option<Trace>,
    log: Option<KernelLog>,
    /// Room to read into; on the stack, `ulimit -s` may leave too little.
    buffer: Vec<u8>,
}

impl Streams {
    /// To stdout and stderr, from nowhere yet.
    pub fn new(trace: Option<Trace>, log: Option<KernelLog>) -> Result<Streams, Failure> {
        Ok(Streams {
            sources: Vec::new(),
            out: Sink::new("stdout", std::io::stdout().as_fd())?,
            err: Sink::new("stderr", std::io::stderr().as_fd())?,
            trace,
            log,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Takes the ranks' output.
    pub fn merge(&mut self, sources: Vec<Source>) {
        self.sources = sources;
    }

    /// What to poll for.
    pub fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let sinks = self.sinks().filter_map(Sink::pollable);
        let sources = self.sources.iter().filter_map(|source| {
            source.pollable(match source.stream {
                Stream::Out => &self.out,
                Stream::Err => &self.err,
            })
        });
        sinks
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT))
            .chain(sources.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
            .collect()
    }

    /// Whether trace rings have to be polled from time to time: they have no doorbell.
    pub fn traces(&self) -> bool {
        self.trace
            .as_ref()
            .is_some_and(|trace| !trace.sink.is_full())
    }

    /// Moves what is there and can be moved.
    pub fn advance(&mut self, comm: &Comm) {
        if let Some(trace) = &mut self.trace {
            trace.drain(comm);
        }
        self.for_each_source(Source::read);
        self.sinks_mut().for_each(Sink::write);
    }

    /// The ranks have ended: moves what they left. True when everything is written.
    pub fn finish(&mut self, comm: &Comm) -> bool {
        let traced = self.trace.as_mut().is_none_or(|trace| {
            while trace.drain(comm) {}
            let has_room = !trace.sink.is_full();
            if has_room {
                trace.finish();
            }
            has_room
        });
        let all_read = self.read_rest();
        self.sinks_mut().for_each(Sink::write);
        traced && all_read && self.sinks().all(Sink::is_empty)
    }

    /// Reads what the ranks left in their pipes, as far as the sinks take it. True when that is all.
    fn read_rest(&mut self) -> bool {
        let mut all = true;
        self.for_each_source(|source, sink, buffer| all &= source.read_rest(sink, buffer));
        all
    }

    /// Gives up a trace that nothing reads: ranks wait for room in it, and that cannot be interrupted.
    pub fn give_up_trace(&mut self) {
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.sink.is_full()) {
            trace.sink.give_up();
        }
    }

    /// More of the kernel's log.
    pub fn log(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            log.append(text);
        }
    }

    /// Text on stderr, after what the ranks wrote there.
    pub fn say(&mut self, text: &str) {
        self.err.pending().extend_from_slice(text.as_bytes());
    }

    /// Bytes that were written so far.
    pub fn written_bytes(&self) -> u64 {
        self.sinks().map(Sink::total_bytes).sum()
    }

    /// The ranks' output that could not be written first: what comes later may be a consequence.
    pub fn failure(&self) -> Option<Failure> {
        let sinks = [&self.out, &self.err].into_iter();
        let failed = sinks.filter_map(|sink| Some((sink.broken_since()?, sink.failure()?)));
        let (_, first) = failed.min_by_key(|(since, _)| *since)?;
        Some(first)
    }

    /// A file beside the output that could not be written; the job does not depend on it.
    pub fn side_failures(&self) -> impl Iterator<Item = Failure> {
        self.side().filter_map(Sink::failure)
    }

    /// Nothing reads the ranks' stdout any more.
    pub fn is_unread(&self) -> bool {
        self.out.is_unread()
    }

    fn side(&self) -> impl Iterator<Item = &Sink> {
        let trace = self.trace.iter().map(|trace| &trace.sink);
        trace.chain(self.log.iter().map(|log| &log.sink))
    }

    fn sinks(&self) -> impl Iterator<Item = &Sink> {
        [&self.out, &self.err].into_iter().chain(self.side())
    }

    fn sinks_mut(&mut self) -> impl Iterator<Item = &mut Sink> {
        let trace = self.trace.iter_mut().map(|trace| &mut trace.sink);
        let log = self.log.iter_mut().map(|log| &mut log.sink);
        [&mut self.out, &mut self.err]
            .into_iter()
            .chain(trace)
            .chain(log)
    }

    fn for_each_source(&mut self, mut act: impl FnMut(&mut Source, &mut Sink, &mut [u8])) {
        for source in &mut self.sources {
            let sink = match source.stream {
                Stream::Out => &mut self.out,
                Stream::Err => &mut self.err,
            };
            act(source, sink, &mut self.buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was always stdout that was named when neither could be written.
    #[test]
    fn the_first_output_that_fails_is_named() {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let full = full.expect("a device");
        for (first, second) in [("stderr", "stdout"), ("stdout", "stderr")] {
            let mut streams = Streams::new(None, None).expect("descriptors");
            streams.out = Sink::new("stdout", full.as_fd()).expect("a descriptor");
            streams.err = Sink::new("stderr", full.as_fd()).expect("a descriptor");
            assert_eq!(streams.failure(), None);
            for name in [first, second] {
                let sink = if name == "stdout" {
                    &mut streams.out
                } else {
                    &mut streams.err
                };
                sink.pending().push(b'x');
                sink.write();
                let line = streams.failure().expect("a failure").line;
                assert!(line.contains(first), "{line}");
            }
        }
    }

    /// What ranks had left in their pipes was lost without a word when the reader had been slow: the first of them filled the
    /// sink again, and all were closed.
    #[test]
    fn what_ended_ranks_left_is_read_as_the_sink_takes_it() {
        const PIPE_BYTES: usize = 64 << 10;
        const PENDING_BYTES: usize = 200 << 10;
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let mut streams = Streams::new(None, None).expect("descriptors");
        streams.out = Sink::new("stdout", writer.as_fd()).expect("a sink");
        streams
            .out
            .pending()
            .resize(PIPE_BYTES + PENDING_BYTES, b'x');
        streams.out.write();
        let (rank_pipes, mut held): (Vec<_>, Vec<_>) = (0..3)
            .map(|_| {
                let (read, write) = rustix::pipe::pipe().expect("a pipe");
                rustix::io::write(&write, &[b'y'; PIPE_BYTES]).expect("room");
                (read, write)
            })
            .unzip();
        // Of the others nothing holds the writing end; of this one a child that the rank left behind.
        held.truncate(1);
        let sources = rank_pipes.into_iter();
        let sources = sources.map(|pipe| Source::new(pipe, String::new(), Stream::Out));
        streams.merge(sources.map(|source| source.expect("a source")).collect());

        let mut buffer = vec![0; PIPE_BYTES];
        let mut total_bytes = 0;
        loop {
            let all_read = streams.read_rest();
            streams.out.write();
            if all_read && streams.out.is_empty() {
                break;
            }
            total_bytes += rustix::io::read(&reader, &mut buffer[..]).expect("output");
        }
        total_bytes += rustix::io::ioctl_fionread(&reader).expect("a pipe") as usize;
        assert_eq!(total_bytes, 4 * PIPE_BYTES + PENDING_BYTES);
    }
}
