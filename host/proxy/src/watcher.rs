//! The watcher: a thread that receives what does not come through the ship slots.
//!
//! - Signals that Linux has for the process: all are blocked in the workers, read here and posted to the node, which
//!   delivers them to the program. Before the program runs they act on the proxy as they would on any process.
//! - Calls to give up: the node signals them, and the worker is kicked out of Linux (module `stub`).
//! - The rank's end, and requests of other threads, while the first worker is in a call.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io;
use wire::rank::state;
use wire::signal::Signal;

use crate::debug::late;
use crate::doorbell;
use crate::end;
use crate::left;
use crate::posted::Posted;
use crate::rank::Rank;
use crate::signalfds::Signalfds;
use crate::signals::{self, Default, How};
use crate::terminal;

/// How often it is tried again when the node has no room; meanwhile signals wait in Linux.
const RETRY: Duration = Duration::from_millis(5);

/// When a call that was kicked is polled again: it may have been kicked just before it began to block.
const KICK_AGAIN: Duration = Duration::from_micros(100);
/// The same after many kicks: Linux does not wake from every wait.
const KICK_AT_LAST: Duration = Duration::from_millis(10);

/// The watcher's descriptor: what it waits for.
#[derive(Debug)]
pub struct Watcher(OwnedFd);

impl Watcher {
    /// Prepares to watch a doorbell, one of its own and signals. The first worker's own epoll set must exist already.
    ///
    /// # Errors
    /// What epoll says.
    pub fn new(doorbell: &OwnedFd, own: &OwnedFd, signals: &Signalfds) -> io::Result<Watcher> {
        let set = doorbell::set(doorbell)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let [standard, real_time] = signals.both();
        for fd in [own, standard, real_time] {
            epoll::add(&set, fd, epoll::EventData::new_u64(1), edge)?;
        }
        Ok(Watcher(set))
    }

    /// Moves the descriptor by `keep`.
    ///
    /// # Errors
    /// What `keep` says.
    pub fn keep(self, keep: impl Fn(OwnedFd) -> io::Result<OwnedFd>) -> io::Result<Watcher> {
        keep(self.0).map(Watcher)
    }

    /// Watches until the process ends.
    pub fn run(self, rank: &'static Rank) -> ! {
        // The C library starts threads with its cancellation signal unblocked.
        signals::mask(How::Set, signals::ALL);
        let mut kick_again = KICK_AGAIN;
        loop {
            end::if_over(rank);
            rank.wake_workers();
            left::take(rank);
            let kicked = rank.kick_calls();
            let waiting = pass_on_signals(rank);
            let timeout = if kicked {
                Some(kick_again)
            } else {
                waiting.then_some(RETRY)
            };
            kick_again = if kicked {
                (kick_again * 2).min(KICK_AT_LAST)
            } else {
                KICK_AGAIN
            };
            self.wait(timeout);
        }
    }

    /// Blocks until a signal comes, the node or a worker signals, or the time is over.
    fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: 0, // all are shorter than a second
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; 2];
        // Interrupted or not: the caller polls everything again.
        let _ = epoll::wait(&self.0, &mut events, timeout.as_ref());
    }
}

/// Posts pending signals to the node for as long as there is room. Says whether there are more, which have to wait.
fn pass_on_signals(rank: &'static Rank) -> bool {
    let mut so_far = rank.posting();
    let mut posted = false;
    let mailbox = &rank.words().area.mailbox;
    let posted_caught = terminal::post_caught(|signo| {
        rank.reception().stops().posted();
        let caught = Signal {
            signo: signo as u32,
            code: libc::SI_KERNEL,
            ..Signal::default()
        };
        let done = mailbox.post(&caught);
        posted |= done;
        done
    });
    while let Some(signal) = so_far.take_held().or_else(|| receive_one(rank, &so_far)) {
        if !so_far.post(mailbox, signal) {
            break;
        }
        posted = true;
    }
    if posted {
        rank.link().signal();
    }
    !posted_caught || so_far.holds() || rank.reception().real_time_waits()
}

/// The next signal that is the program's.
fn receive_one(rank: &'static Rank, so_far: &Posted) -> Option<Signal> {
    loop {
        let taken = rank.words().area.node.signals_taken.load();
        let signal = rank.reception().read(so_far.has_place(taken))?;
        if late::is_request(&signal) {
            late::serve(rank, &signal);
            continue;
        }
        let signo = signal.signo as i32;
        if signals::stop::ends_a_stop(signo, signal.code) {
            continue;
        }
        match Default::of(signo) {
            Default::Stop => rank.reception().stops().posted(),
            _ if signo == libc::SIGCONT => rank.reception().stops().continued(),
            _ => {}
        }
        if runs(rank) && !rank.debug().waits_for_gdb()
            || rank.reception().inherited().blocked & signals::set(signo) != 0
        {
            return Some(signal);
        }
        if rank.reception().inherited().is_default(signo) {
            act_by_default(rank, signo);
        }
    }
}

/// Whether the program runs, so that signals are its own affair.
fn runs(rank: &Rank) -> bool {
    !matches!(
        rank.words().area.node.state.load(),
        state::EMPTY | state::LOADING
    )
}

/// What Linux would do to a process without handlers.
fn act_by_default(rank: &Rank, signo: i32) {
    match Default::of(signo) {
        Default::Terminate => end::die(rank, signo),
        Default::Stop => {
            if rank.reception().stops().take() {
                signals::stop::stop_by(signo);
            }
        }
        Default::Ignore => {}
    }
}

/// Posts the signals that are pending now, from whatever thread, as far as the node has room: SIGCHLD comes before wait4
/// returns, and what was sent to a stopped process takes effect before it goes on.
pub fn settle(rank: &'static Rank) {
    if pass_on_signals(rank) {
        rank.wake_watcher(); // it tries again
    }
}
