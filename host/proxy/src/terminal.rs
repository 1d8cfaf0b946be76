//! Job control: what the terminal makes of a call of the rank depends on which of SIGTTIN and SIGTTOU *workers* block.
//!
//! When a process in the background uses its terminal, Linux first checks whether the calling thread ignores or blocks the
//! signal: then it fails a read with EIO and lets a write or tcsetpgrp(3) be done. Otherwise it signals the whole process
//! group and interrupts the call. So a worker blocks at each call what its thread does not take: the node says what it takes
//! ([`wire::thread::FromNode::takes`]), and the worker follows. What another thread takes has no part in it.
//!
//! What the signal then does, the node decides, as for all signals. Workers that do not block it have a handler that notes it
//! for the watcher to post. That interrupts the worker's call, which ends with EINTR, and not before the node has the signal.
//! When all workers block it the watcher receives it, and only then: it would be quicker now and then than the worker, which
//! Linux would have try again, and send the signal again. Either way the node gets it, so it does no harm that workers
//! of threads that make no calls do not follow.

pub(crate) mod takers;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::rank::Rank;
use crate::signals;
use crate::stub;
use takers::BACKGROUND;

/// Signals that the handler has noted, for the watcher to post.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// A worker's side.
#[derive(Debug)]
pub struct Follower {
    index: usize,
    seen: u64,
    /// What the worker blocks.
    pub blocked: u64,
}

impl Follower {
    /// Worker `index` as it was started.
    pub fn new(rank: &Rank, index: usize) -> Follower {
        Follower {
            index,
            seen: 0,
            blocked: rank.reception().blocked(),
        }
    }

    /// Has the worker block exactly what its thread does not take now. Says whether anything changed.
    #[inline]
    pub fn follow(&mut self, rank: &Rank) -> bool {
        let takes = rank.words().threads[self.index].node.takes();
        let changed = takes != self.seen;
        if changed {
            self.adopt(rank, takes);
        }
        changed
    }

    fn adopt(&mut self, rank: &Rank, takes: u64) {
        let of_terminal = BACKGROUND.map(signals::set);
        let blocked = rank.reception().blocked() & !(takes & (of_terminal[0] | of_terminal[1]));
        rank.reception().block(self.blocked, blocked);
        (self.seen, self.blocked) = (takes, blocked);
    }
}

/// The watcher's doorbell, for the handler.
static DOORBELL: AtomicI32 = AtomicI32::new(-1);

/// Installs the handlers. Until the program runs all workers block the signals.
pub fn install(rank: &Rank) {
    DOORBELL.store(
        rank.reception().watcher_doorbell().as_raw_fd(),
        Ordering::Relaxed,
    );
    for signo in BACKGROUND {
        signals::handle(signo, on_caught);
    }
}

/// Any worker may be the one that receives a signal for the whole process, also one that sleeps.
extern "C" fn on_caught(signo: i32) {
    CAUGHT.fetch_or(signals::set(signo), Ordering::SeqCst);
    let one = 1u64.to_ne_bytes();
    let args = [
        DOORBELL.load(Ordering::Relaxed) as u64,
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
    BACKGROUND.into_iter().all(|signo| {
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
