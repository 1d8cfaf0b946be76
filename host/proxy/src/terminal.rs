//! Job control: what the terminal makes of a call of the rank depends on how the *worker* takes SIGTTIN and SIGTTOU.
//!
//! When a process in the background uses its terminal, Linux first looks at whether the calling thread ignores or blocks the
//! signal: then it fails a read with EIO and lets a write or tcsetpgrp(3) be done. Otherwise it signals the whole process
//! group and interrupts the call. So the worker has to be as the program is at each call: the node says so
//! ([`wire::rank::terminal`]), and the worker follows.
//!
//! - A stop by default is the worker's alone: no other thread may receive the signal, and Linux stops the process.
//! - What the program ignores or blocks the worker blocks; from outside it is received like any other signal.
//! - For what the program handles the worker has a handler that notes it. The call ends with EINTR, and not before the
//!   signal was posted to the node.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::rank::terminal;

use crate::rank::Rank;
use crate::signals::{self, How, Inherited};
use crate::watcher;

/// The signals, in the order of their bits in the node's word.
const STOPS: [i32; 2] = [libc::SIGTTIN, libc::SIGTTOU];

/// Signals that the worker's handler has noted, for the watcher to post.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// Signals that only the worker receives, as the program inherited them.
pub fn workers_own(inherited: Inherited) -> u64 {
    let stops = STOPS.into_iter();
    let stops = stops.filter(|signo| inherited.is_default(*signo));
    stops.map(signals::set).fold(0, |all, one| all | one)
}

/// The worker's side.
#[derive(Debug)]
pub struct Follower {
    seen: u64,
    /// What the worker blocks.
    pub blocked: u64,
    signalfd: RawFd,
}

impl Follower {
    /// A worker as it was started.
    pub fn new(rank: &Rank) -> Follower {
        Follower {
            seen: 0,
            blocked: rank.blocked,
            signalfd: rank.signalfd,
        }
    }

    /// Makes the worker as the program is now. Says whether anything changed.
    #[inline]
    pub fn follow(&mut self, rank: &Rank) -> bool {
        let says = rank.words.area.node.terminal_stops.load();
        if says == self.seen {
            return false;
        }
        for (i, signo) in STOPS.into_iter().enumerate() {
            let now = says >> (2 * i) & 3;
            if now != self.seen >> (2 * i) & 3 {
                self.adopt(rank, signo, now);
            }
        }
        self.seen = says;
        true
    }

    fn adopt(&mut self, rank: &Rank, signo: i32, now: u64) {
        let (one, passes) = (
            signals::set(signo),
            match now {
                terminal::INHERITED => !rank.inherited.is_default(signo),
                now => now == terminal::PASSES,
            },
        );
        if passes {
            self.blocked |= one;
            signals::mask(How::Block, one);
            watcher::receive(self.signalfd, self.blocked);
            return;
        }
        if now == terminal::HANDLED {
            signals::handle(signo, on_caught);
        } else {
            signals::set_disposition(signo, false);
        }
        self.blocked &= !one;
        watcher::receive(self.signalfd, self.blocked);
        signals::mask(How::Unblock, one);
    }
}

extern "C" fn on_caught(signo: i32) {
    CAUGHT.fetch_or(signals::set(signo), Ordering::SeqCst);
}

/// Has the watcher post what the worker has caught, and waits for it (worker only).
pub fn hand_over(rank: &Rank) {
    if CAUGHT.load(Ordering::SeqCst) == 0 {
        return;
    }
    rank.ring_watcher();
    while CAUGHT.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
}

/// Posts what the worker has caught, for as long as `post` takes it (watcher only). Says whether all was posted.
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
