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

    /// Whether trace rings have to be looked at from time to time: they do not ring.
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
        self.read_sources();
        self.sinks_mut().for_each(Sink::write);
    }

    /// The ranks have ended: moves what they left. True when everything is written.
    pub fn finish(&mut self, comm: &Comm) -> bool {
        if let Some(trace) = &mut self.trace {
            while trace.drain(comm) {}
            if !trace.sink.is_full() {
                trace.finish();
            }
        }
        let full = self.sinks().any(Sink::is_full);
        if !full {
            // Children that a rank left behind may hold its pipes open: what is there now is all that is waited for.
            self.read_sources();
            self.for_each_source(Source::finish);
        }
        self.sinks_mut().for_each(Sink::write);
        !full && self.sinks().all(Sink::is_empty)
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

    fn read_sources(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.for_each_source(|source, sink| source.read(sink, &mut buffer));
        self.buffer = buffer;
    }

    fn for_each_source(&mut self, mut act: impl FnMut(&mut Source, &mut Sink)) {
        for source in &mut self.sources {
            match source.stream {
                Stream::Out => act(source, &mut self.out),
                Stream::Err => act(source, &mut self.err),
            }
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
}
