//! The time between start and end of the ranks: one loop that passes on signals and output and watches everybody.
//!
//! Who may end, and what follows:
//!
//! - a rank ends: when it failed, the others are ended (SIGKILL to their proxies) and named;
//! - the node ends, by a panic, by its machine's death or its keeper's: the ranks are ended, the reason is reported;
//! - yod ends, even by SIGKILL: Linux ends the proxies, the keeper sees it and ends the node.
//!
//! Keys pressed in the terminal reach the proxies by themselves, for they are in its foreground process group. What
//! another process sends to yod is passed on to every rank, and so is the end of the terminal, which Linux reports only to the
//! leader of the session. When all ranks have stopped, yod stops itself, so that the shell sees the job stop; continuing it
//! continues them. A stopped yod, whatever has stopped it, is continued by its keeper when something happens that it has to see.
//!
//! SIGTERM and its kin end yod whatever else is stopped or does not read: what is to end and is stopped is continued,
//! a node that takes no signals is ended, output that nothing reads is given up.

mod descent;
mod progress;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use machine::Event;
use machine::node::{Keeper, Node};
use machine::sys::{Arrived, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, getsid, kill_process};
use wire::boot::node;
use wire::children::Entry;

use crate::failure::Failure;
use crate::loss::{self, Loss};
use crate::ranks::Ranks;
use crate::streams::Streams;
use crate::verdict::{How, Verdict};
use progress::{EndRequest, State};

/// Signals that yod takes from a descriptor.
pub const TAKEN: [i32; 9] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
];
/// Those of them that end a program which does not handle them.
pub const FATAL: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
/// How often trace rings are emptied: a ring of 256 records then holds 256,000 calls per second.
const TRACE_PERIOD: Duration = Duration::from_millis(1);
/// How often ranks that are to end are polled, and for how long a rank that stops meanwhile is continued.
const END_PERIOD: Duration = Duration::from_millis(250);
const END_REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// A node that takes no signal for so long does not run; a proxy that outlives its rank for so long cannot end.
const STUCK: Duration = Duration::from_secs(5);
/// Output of ranks that were ended is given up when its destination takes nothing for so long.
const UNREAD: Duration = Duration::from_secs(1);

/// What the loop needs.
pub struct Supervisor<'a> {
    pub node: &'a Node,
    pub keeper: &'a Keeper,
    pub ranks: Ranks,
    pub signals: &'a Signals,
    pub streams: &'a mut Streams,
    pub boot_limit: Duration,
    pub timeout: Option<Duration>,
    pub context: loss::Context<'a>,
    /// The appendix waits for the ranks of other yods, too.
    pub reports_all: bool,
    /// Makes what stderr shows after the ranks' output.
    pub appendix: &'a dyn Fn() -> Option<String>,
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
        /// There is nothing to say about it.
        quiet: bool,
    },
    /// By something else, which is reported already but for this line.
    Failed(Failure),
}

impl Supervisor<'_> {
    /// Runs until all ranks have ended and their output is written.
    pub fn run(mut self) -> Outcome {
        let mut state = State::new(Instant::now(), self.boot_limit, self.timeout);
        // Looking at every rank whenever one writes a line would cost a job of many ranks more than the lines.
        let mut child_changed = true;
        while !self.is_over(&mut state) {
            self.set_guard(&mut state);
            self.wait(&state);
            while let Some(signal) = self.signals.next() {
                child_changed |= signal.signo == libc::SIGCHLD;
                self.take_signal(&mut state, signal);
            }
            if std::mem::take(&mut child_changed) {
                self.reap(&mut state);
            }
            while let Some((event, reports)) = self.node_event(&state) {
                self.take_event(&mut state, event, reports);
            }
            self.streams.advance(&self.node.comm);
            self.check_time(&mut state);
            self.check_end_request(&mut state);
            self.stop_with_ranks(&mut state);
        }
        match state.failure.or_else(|| self.streams.failure()) {
            Some(failure) => Outcome::Failed(failure),
            None => Outcome::Ranks {
                // As natively: a program whose output is not read any more ends without a word.
                quiet: self.streams.is_unread()
                    && state.verdict.first() == Some(How::Killed(libc::SIGPIPE)),
                verdict: state.verdict,
                others: state.others,
                interrupted: state.interrupted,
            },
        }
    }

    fn is_over(&mut self, state: &mut State) -> bool {
        if !self.ranks.all_ended() {
            return false;
        }
        if !state.abandoned && self.streams.finish(&self.node.comm) {
            if state.appended {
                return true;
            }
            if self.reports_all && !state.is_ending() && !state.node_gone && self.others_run() {
                return false;
            }
            state.appended = true;
            if let Some(text) = (self.appendix)() {
                self.streams.say(&text);
            }
            return self.streams.finish(&self.node.comm);
        }
        let written = self.streams.written_bytes();
        if state.written.is_none_or(|(before, _)| before != written) {
            state.written = Some((written, Instant::now()));
        }
        if let Some(end_request) = state.end_request.as_ref().filter(|_| state.unread()) {
            state
                .failure
                .get_or_insert(loss::by_signal(end_request.signo));
        }
        state.abandoned || state.failure.is_some() && state.unread()
    }

    /// Blocks until something happens or is due.
    fn wait(&self, state: &State) {
        let keeper = self.keeper.as_fd();
        let mut fds = self.streams.poll_fds();
        fds.push(PollFd::new(self.signals, PollFlags::IN));
        if state.failure.is_none() && !state.node_gone {
            fds.push(PollFd::new(&keeper, PollFlags::IN));
        }
        let due = [state.timeout_due, (!state.up).then_some(state.boot_due)]
            .into_iter()
            .flatten()
            .filter(|_| !state.is_ending())
            .min();
        let wait = [
            due.map(|due| due.saturating_duration_since(Instant::now())),
            self.streams.traces().then_some(TRACE_PERIOD),
            state.is_ending().then_some(END_PERIOD),
        ];
        let wait = wait.into_iter().flatten().min().map(|t| Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        // EINTR is as good as nothing; nothing else can happen.
        let _ = poll(&mut fds, wait.as_ref());
    }

    fn take_signal(&mut self, state: &mut State, signal: Arrived) {
        let fatal = FATAL.contains(&signal.signo);
        state.interrupted |= signal.signo == libc::SIGINT;
        // Linux reports a terminal's end to the leader of its session, and a key's signal goes to the whole group.
        let ours_alone = signal.from_process || signal.signo == libc::SIGHUP && leads_session();
        match signal.signo {
            libc::SIGCHLD | libc::SIGTSTP => {}
            // The keeper continues yod alone, to look: if nothing has happened to its ranks, it stops again.
            libc::SIGCONT
                if signal.from_process
                    && self
                        .keeper
                        .pid()
                        .is_some_and(|keeper| signal.pid == keeper.as_raw_pid()) => {}
            libc::SIGCONT => {
                // Those that were stopped together with yod are not known to be.
                self.reap(state);
                self.ranks.continue_stopped();
            }
            // No rank is there to take it: the node boots, or only output is left.
            signo if fatal && self.ranks.all_ended() => {
                state.abandoned = true;
                state.failure.get_or_insert(loss::by_signal(signo));
            }
            signo if fatal && !self.is_up(state) => {
                let what = loss::by_signal(signo);
                self.end_ranks(state, what);
            }
            signo => {
                if fatal {
                    let (at, stuck) = (Instant::now(), None);
                    state.end_request = Some(EndRequest { signo, at, stuck });
                    // A rank may answer by stopping its process group.
                    self.set_guard(state);
                }
                if let Some(named) = Signal::from_named_raw(signo).filter(|_| ours_alone) {
                    // A rank cannot signal its yod alone: it has signalled the whole group. Its children can, but have no
                    // reason to.
                    let groups = signal.from_process && self.is_of_rank(signal.pid);
                    let has_it = |rank| groups && self.ranks.shares_group(rank);
                    self.ranks.kill(named, |rank| !has_it(rank));
                }
            }
        }
    }

    /// Whether a process is a rank of the job, also one of another yod, or descends from one.
    fn is_of_rank(&self, pid: i32) -> bool {
        descent::any(pid, |pid, is_gone| {
            let mut ranks = (0..self.node.plan.ranks).map(|rank| self.node.comm.rank(rank));
            ranks.any(|area| {
                let is_it = |entry: &Entry| entry.pid.load() == pid as u64;
                area.host.pid.load() == pid as u64
                    || is_gone && area.children.listed().iter().any(is_it)
            })
        })
    }

    /// Makes sure that ranks which are to end can do so.
    fn check_end_request(&mut self, state: &mut State) {
        let Some(end_request) = &mut state.end_request else {
            return;
        };
        self.ranks.continue_stopped();
        let (now, signo) = (Instant::now(), end_request.signo);
        if now >= end_request.at + UNREAD {
            self.streams.give_up_trace();
        }
        if !self.ranks.alive().iter().any(|&rank| self.is_stuck(rank)) {
            end_request.stuck = None;
            if now >= end_request.at + END_REQUEST_LIMIT && !self.ranks.all_ended() {
                state.end_request = None;
            }
        } else if now >= *end_request.stuck.get_or_insert(now) + STUCK {
            self.end_ranks(state, loss::by_signal(signo));
        }
    }

    /// A signal is not taken from a rank's mailbox, or its proxy does not follow it.
    fn is_stuck(&self, rank: usize) -> bool {
        let area = self.node.comm.rank(rank);
        !area.mailbox.is_empty() || self.node.has_ended(rank)
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

    fn node_event(&self, state: &State) -> Option<(Event, bool)> {
        if state.failure.is_some() || state.node_gone {
            None
        } else {
            self.keeper.next_event()
        }
    }

    fn take_event(&mut self, state: &mut State, event: Event, reports: bool) {
        let loss = match event {
            Event::Log(text) => {
                self.streams.log(&text);
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
            Event::Left { lost: Some(rank) } => Loss::Yod(rank),
            Event::Left { lost: None } => return,
            Event::Ended(ended) => Loss::Node(ended),
            Event::KeeperGone => {
                // Its socket stays readable for ever.
                state.node_gone = true;
                Loss::Keeper(self.keeper.pid())
            }
        };
        // Ranks that have ended on the node need it no more; it may have been lost before it rang for them.
        let alive = self.ranks.alive();
        if alive.iter().all(|&rank| self.node.has_ended(rank)) {
            alive.iter().for_each(|&rank| self.node.signal_host(rank));
            state.up = true;
            return;
        }
        let failure = loss.explain_or_status(&self.context, state.up, reports);
        self.end_ranks(state, failure);
    }

    /// Whether the node is up. What a rank prints may be read before the keeper has said so.
    fn is_up(&self, state: &State) -> bool {
        state.up || self.ranks.alive().iter().any(|&rank| self.node.runs(rank))
    }

    /// Whether ranks of the job run still; the keeper says when another yod leaves.
    fn others_run(&self) -> bool {
        (0..self.node.plan.ranks).any(|rank| !self.node.has_ended(rank))
    }

    fn end_ranks(&mut self, state: &mut State, failure: Failure) {
        state.failure.get_or_insert(failure);
        self.ranks.kill(Signal::KILL, |_| true);
    }

    fn check_time(&mut self, state: &mut State) {
        if state.failure.is_some() {
            return;
        }
        let now = Instant::now();
        if let (Some(due), Some(timeout)) = (state.timeout_due, self.timeout)
            && now >= due
        {
            // When the ranks have ended by themselves, only their output is left.
            state.abandoned = self.ranks.all_ended();
            let failure = loss::timed_out(timeout, &self.ranks.alive());
            self.end_ranks(state, failure);
        } else if !state.up && now >= state.boot_due && !self.ranks.all_ended() {
            let failure = Loss::Hangs(self.boot_limit).explain(&self.context, false);
            self.end_ranks(state, failure);
        }
    }

    /// Stops when all ranks have.
    fn stop_with_ranks(&mut self, state: &mut State) {
        if state.is_ending() || !self.ranks.all_stopped() {
            return;
        }
        let before = Instant::now();
        if !self.keeper.guard(state.time_left(), true) {
            return;
        }
        // SIGSTOP takes effect before kill returns. The SIGCONT that ends it is taken as all signals are.
        let _ = kill_process(getpid(), Signal::STOP);
        self.keeper.guard(state.time_left(), false);
        state.boot_due += before.elapsed();
    }

    /// Notifies the keeper for how long yod may be stopped: its ranks or another process may stop it at any moment. What ends has
    /// no time left for that.
    fn set_guard(&self, state: &mut State) {
        let ending = state.is_ending() || state.verdict.first().is_some();
        if state.guarded.replace(ending) != Some(ending) {
            let left = if ending {
                Some(Duration::ZERO)
            } else {
                state.time_left()
            };
            self.keeper.guard(left, false);
        }
    }
}

fn leads_session() -> bool {
    getsid(None).is_ok_and(|session| session == getpid())
}
