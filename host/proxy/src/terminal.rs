//! Job control: what the terminal makes of a call of the rank depends on how *workers* take SIGTTIN and SIGTTOU.
//!
//! When a process in the background uses its terminal, Linux first looks at whether the calling thread ignores or blocks the
//! signal: then it fails a read with EIO and lets a write or tcsetpgrp(3) be done. Otherwise it signals the whole process
//! group and interrupts the call. So a worker has to be as the program is at each call: the node says so
//! ([`wire::rank::terminal`]), and the worker follows. Workers of threads that make no calls follow when they make one; what
//! reaches them before is done as well, for dispositions are the process's.
//!
//! - A stop by default is the workers' alone: the watcher does not receive the signal, and Linux stops the process.
//! - What the program ignores or blocks a worker blocks; from outside it is received like any other signal.
//! - For what the program handles there is a handler that notes it. The call ends with EINTR, and not before the signal was
//!   posted to the node.

use std::os::fd::AsRawFd;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use wire::rank::terminal;

use crate::rank::Rank;
use crate::signals::{self, How, Inherited};
use crate::stub;

/// The signals, in the order of their bits in the node's word.
const STOPS: [i32; 2] = [libc::SIGTTIN, libc::SIGTTOU];

/// Signals that the handler has noted, for the watcher to post.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// Signals that only workers receive, as the program inherited them.
pub fn workers_own(inherited: Inherited) -> u64 {
    let stops = STOPS.into_iter();
    let stops = stops.filter(|signo| inherited.is_default(*signo));
    stops.map(signals::set).fold(0, |all, one| all | one)
}

/// A worker's side.
#[derive(Debug)]
pub struct Follower {
    seen: u64,
    /// What the worker blocks.
    pub blocked: u64,
}

impl Follower {
    /// A worker as it was started.
    pub fn new(rank: &Rank) -> Follower {
        Follower {
            seen: 0,
            blocked: rank.blocked,
        }
    }

    /// Makes the worker as the program is now. Says whether anything changed.
    #[inline]
    pub fn follow(&mut self, rank: &Rank) -> bool {
        let changed = rank.words.area.node.terminal_stops.load() != self.seen;
        if changed {
            self.adopt(rank);
        }
        changed
    }

    fn adopt(&mut self, rank: &Rank) {
        let mut adopted = rank.terminal.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock: what another worker has adopted is not older.
        let says = rank.words.area.node.terminal_stops.load();
        let blocked = blocked(rank, says);
        signals::mask(How::Block, blocked & !self.blocked);
        if says != *adopted {
            for (i, signo) in STOPS.into_iter().enumerate() {
                match says >> (2 * i) & 3 {
                    // Another worker may receive what this one blocks from now on.
                    terminal::HANDLED | terminal::PASSES => signals::handle(signo, on_caught),
                    terminal::INHERITED if !rank.inherited.is_default(signo) => {}
                    _ => signals::set_disposition(signo, false),
                }
            }
            rank.signalfds.receive(blocked);
            *adopted = says;
        }
        signals::mask(How::Unblock, self.blocked & !blocked);
        (self.seen, self.blocked) = (says, blocked);
    }
}

/// What workers block when the node says this.
fn blocked(rank: &Rank, says: u64) -> u64 {
    let mut blocked = rank.blocked;
    for (i, signo) in STOPS.into_iter().enumerate() {
        let passes = match says >> (2 * i) & 3 {
            terminal::INHERITED => !rank.inherited.is_default(signo),
            now => now == terminal::PASSES,
        };
        let one = signals::set(signo);
        blocked = if passes {
            blocked | one
        } else {
            blocked & !one
        };
    }
    blocked
}

/// The watcher's bell, for the handler.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// Prepares the process for handlers.
pub fn install(rank: &Rank) {
    BELL.store(rank.watcher_bell.as_raw_fd(), Ordering::Relaxed);
}

/// Any worker may be the one that receives a signal for the whole process, also one that sleeps.
extern "C" fn on_caught(signo: i32) {
    CAUGHT.fetch_or(signals::set(signo), Ordering::SeqCst);
    let one = 1u64.to_ne_bytes();
    let args = [
        BELL.load(Ordering::Relaxed) as u64,
        one.as_ptr() as u64,
        one.len() as u64,
        0,
        0,
        0,
    ];
    // SAFETY: 1. Linux reads eight bytes. 2. write(2) is async-signal-safe; errno is not touched.
    unsafe { stub::syscall(libc::SYS_write as u64, &args) };
}

/// Waits until the watcher has posted what was caught (worker only).
pub fn hand_over() {
    while CAUGHT.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
}

/// Posts what was caught, for as long as `post` takes it; one thread at a time. Says whether all was posted.
pub fn post_caught(mut post: impl FnMut(i32) -> bool) -> bool {
    STOPS.into_iter().all(|signo| {
        let one = signals::set(signo);
        if CAUGHT.load(Ordering::SeqCst) & one == 0 {
            return true;
        }
        let posted = post(signo);
        if posted {
            CAUGHT.fetch_and(!one, Ordering::SeqCst);
        }
        posted
    })
}
