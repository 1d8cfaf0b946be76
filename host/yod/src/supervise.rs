//! The time between start and end of the ranks: one loop that passes on signals and output and watches everybody.
//!
//! Who may end, and what follows:
//!
//! - a rank ends: when it failed, the others are ended (SIGKILL to their proxies) and named;
//! - the node ends, by a panic, by QEMU's death or its keeper's: the ranks are ended, the reason is told;
//! - yod ends, even by SIGKILL: Linux ends the proxies, the keeper sees it and ends the node.
//!
//! Keys pressed in the terminal reach the proxies by themselves, for they are in its foreground process group. What
//! another process sends to yod is passed on to every rank. When all ranks have stopped, yod stops itself, so that the
//! shell sees the job stop; continuing it continues them.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use machine::Event;
use machine::node::Node;
use machine::sys::{Arrived, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process};
use wire::boot::node;
use wire::rank::state;

use crate::failure::Failure;
use crate::klog::KernelLog;
use crate::loss::{self, Loss};
use crate::output::{Sink, Source, Stream};
use crate::ranks::Ranks;
use crate::trace::Trace;
use crate::verdict::{Verdict, ranks_text};

/// Signals that yod takes from a descriptor.
pub const TAKEN: [i32; 8] = [
    libc::SIGCHLD,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
];
/// How often trace rings are emptied: a ring of 256 records then holds 256,000 calls per second.
const TRACE_PERIOD: Duration = Duration::from_millis(1);

/// What the loop needs.
pub struct Supervisor<'a> {
    pub node: &'a Node,
    pub keeper: Pid,
    pub ranks: Ranks,
    pub signals: &'a Signals,
    pub out: Sink<'a>,
    pub err: Sink<'a>,
    pub trace: Option<Trace>,
    pub log: Option<KernelLog>,
    pub boot_limit: Duration,
    pub timeout: Option<Duration>,
    pub context: loss::Context<'a>,
}

/// How it ended.
#[derive(Debug)]
pub enum Outcome {
    /// By the ranks' own ends.
    Ranks {
        verdict: Verdict,
        /// Ranks that were ended because another failed.
        others: Vec<usize>,
        /// The terminal's interrupt key was pressed.
        interrupted: bool,
    },
    /// By something else, which is told already but for this line.
    Failed(Failure),
}

struct State {
    up: bool,
    boot_due: Instant,
    timeout_due: Option<Instant>,
    verdict: Verdict,
    others: Vec<usize>,
    interrupted: bool,
    failure: Option<Failure>,
    /// Nobody waits for the rest of the output any more.
    abandoned: bool,
}

impl Supervisor<'_> {
    /// Runs until all ranks have ended and their output is written.
    pub fn run(mut self) -> Outcome {
        let now = Instant::now();
        let mut state = State {
            up: false,
            boot_due: now + self.boot_limit,
            timeout_due: self.timeout.map(|timeout| now + timeout),
            verdict: Verdict::default(),
            others: Vec::new(),
            interrupted: false,
            failure: None,
            abandoned: false,
        };
        while !self.is_over(&state) {
            self.wait(&state);
            while let Some(signal) = self.signals.next() {
                self.take_signal(&mut state, signal);
            }
            self.reap(&mut state);
            while let Some(event) = self.node_event(&state) {
                self.take_event(&mut state, event);
            }
            self.move_output();
            self.check_time(&mut state);
            self.stop_with_ranks(&mut state);
        }
        if let Some(trace) = &mut self.trace {
            trace.finish(&self.node.comm);
        }
        match state.failure {
            Some(failure) => Outcome::Failed(failure),
            None => Outcome::Ranks {
                verdict: state.verdict,
                others: state.others,
                interrupted: state.interrupted,
            },
        }
    }

    fn is_over(&mut self, state: &State) -> bool {
        if !self.ranks.all_ended() {
            return false;
        }
        if state.abandoned {
            return true;
        }
        // Children that a rank left behind may hold its pipes open: what is there now is all that is waited for.
        let full = self.out.is_full() || self.err.is_full();
        if !full {
            self.move_output();
            for_each_source(
                &mut self.ranks.sources,
                &mut self.out,
                &mut self.err,
                Source::finish,
            );
        }
        !full && self.out.is_empty() && self.err.is_empty()
    }

    /// Blocks until something happens or is due.
    fn wait(&self, state: &State) {
        let node = self.node.as_fd();
        let (out, err) = (self.out.as_fd(), self.err.as_fd());
        let mut fds = vec![PollFd::new(self.signals, PollFlags::IN)];
        if state.failure.is_none() {
            fds.push(PollFd::new(&node, PollFlags::IN));
        }
        if !self.out.is_empty() {
            fds.push(PollFd::new(&out, PollFlags::OUT));
        }
        if !self.err.is_empty() {
            fds.push(PollFd::new(&err, PollFlags::OUT));
        }
        let sources: Vec<BorrowedFd<'_>> = self
            .ranks
            .sources
            .iter()
            .filter_map(|source| {
                source.pollable(if source.stream == Stream::Out {
                    &self.out
                } else {
                    &self.err
                })
            })
            .collect();
        fds.extend(sources.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let due = [state.timeout_due, (!state.up).then_some(state.boot_due)]
            .into_iter()
            .flatten()
            .min();
        let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = wait
            .into_iter()
            .chain(self.trace.as_ref().map(|_| TRACE_PERIOD))
            .min();
        let wait = wait.map(|t| Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        // EINTR is as good as nothing; nothing else can happen.
        let _ = poll(&mut fds, wait.as_ref());
    }

    fn take_signal(&mut self, state: &mut State, signal: Arrived) {
        let fatal =
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal.signo);
        state.interrupted |= signal.signo == libc::SIGINT;
        match signal.signo {
            libc::SIGCHLD | libc::SIGTSTP => {}
            // Nobody there who could take it: the node boots, or only output is left.
            signo if fatal && self.ranks.all_ended() => {
                state.abandoned = true;
                state.failure.get_or_insert(loss::by_signal(signo));
            }
            signo if fatal && !state.up => {
                let what = loss::by_signal(signo);
                self.end_ranks(state, what);
            }
            signo if signal.from_process => {
                if let Some(signal) = Signal::from_named_raw(signo) {
                    self.ranks.kill(signal, |_| true);
                }
            }
            _ => {}
        }
    }

    fn reap(&mut self, state: &mut State) {
        for (rank, how) in self.ranks.reap() {
            if state.failure.is_none() && state.verdict.ended(rank, how) {
                state.others = self.ranks.alive();
            }
        }
        if state.verdict.first().is_some() {
            self.ranks.kill(Signal::KILL, |_| true);
        }
    }

    fn node_event(&self, state: &State) -> Option<Event> {
        if state.failure.is_some() {
            None
        } else {
            self.node.next_event()
        }
    }

    fn take_event(&mut self, state: &mut State, event: Event) {
        let loss = match event {
            Event::Log(text) => {
                if let Some(log) = &mut self.log {
                    log.write(&text);
                }
                return;
            }
            Event::State {
                state: node::UP, ..
            } => {
                state.up = true;
                return;
            }
            Event::State {
                state: node::PCT_LOST,
                log,
            } => Loss::Pct(log),
            Event::State { .. } => return,
            Event::Ended(ended) => Loss::Node(ended),
            Event::KeeperGone => Loss::Keeper(self.keeper),
        };
        // Ranks that have ended on the node need it no more.
        if self
            .ranks
            .alive()
            .iter()
            .all(|&rank| self.has_ended_on_node(rank))
        {
            state.up = true;
            return;
        }
        let failure = loss.explain(&self.context, state.up);
        self.end_ranks(state, failure);
    }

    fn has_ended_on_node(&self, rank: usize) -> bool {
        matches!(
            self.node.comm.rank(rank).node.state.load(),
            state::EXITED | state::REFUSED
        )
    }

    fn end_ranks(&mut self, state: &mut State, failure: Failure) {
        state.failure.get_or_insert(failure);
        self.ranks.kill(Signal::KILL, |_| true);
    }

    fn move_output(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.drain(&self.node.comm);
        }
        for_each_source(
            &mut self.ranks.sources,
            &mut self.out,
            &mut self.err,
            Source::read,
        );
        for sink in [&mut self.out, &mut self.err] {
            while !sink.is_empty() && writable(sink.as_fd()) {
                sink.write_piece();
            }
        }
    }

    fn check_time(&mut self, state: &mut State) {
        if state.failure.is_some() || self.ranks.all_ended() {
            return;
        }
        let now = Instant::now();
        if let (Some(due), Some(timeout)) = (state.timeout_due, self.timeout)
            && now >= due
        {
            let failure = loss::timed_out(timeout, &ranks_text(&self.ranks.alive()));
            self.end_ranks(state, failure);
        } else if !state.up && now >= state.boot_due {
            let failure = Loss::Hangs(self.boot_limit).explain(&self.context, false);
            self.end_ranks(state, failure);
        }
    }

    /// Stops when all ranks have.
    fn stop_with_ranks(&mut self, state: &mut State) {
        if !self.ranks.all_stopped() {
            return;
        }
        let before = Instant::now();
        // SIGSTOP takes effect before kill returns.
        let _ = kill_process(getpid(), Signal::STOP);
        self.ranks.kill(Signal::CONT, |_| true);
        self.ranks.continued();
        state.boot_due += before.elapsed();
    }
}

fn for_each_source<'s>(
    sources: &mut [Source],
    out: &mut Sink<'s>,
    err: &mut Sink<'s>,
    act: impl Fn(&mut Source, &mut Sink<'s>),
) {
    for source in sources {
        match source.stream {
            Stream::Out => act(source, out),
            Stream::Err => act(source, err),
        }
    }
}

fn writable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .is_ok_and(|n| n > 0)
}
