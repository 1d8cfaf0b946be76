//! How a call that blocks is given up.
//!
//! A kick (a signal with a handler that does nothing) interrupts a call that blocks in Linux. One that arrives just before
//! the instruction is lost on the call, so kicks are repeated until the call is over. The call is made in any case: as a
//! process with a signal pending, a rank gets EINTR only where Linux would really have waited.
//!
//! A kick must not reach the *next* call either. [`Kick`] holds the two sides' handshake: the thread that cancels publishes that it is
//! about to kick, checks whether the call is still running, kicks, and publishes that it has; the worker that finishes a kicked
//! call waits for that last word, and the pending signal is taken as it next enters Linux.

#[cfg(test)]
mod tests;

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::signals;

/// The signal that interrupts a worker. One that the rank is sent from outside with this number is lost: Linux itself never
/// sends it. It is not a real-time signal, for those are not sent where RLIMIT_SIGPENDING is reached.
pub const KICK: i32 = libc::SIGSTKFLT;

/// The handshake between a worker and who cancels its calls. Sequence numbers are the ship slot's, from 1.
#[derive(Debug, Default)]
pub struct Kick {
    /// The call that the worker carries out; 0: none. Written by the worker.
    running: AtomicU64,
    /// Twice the call that was kicked last, plus one while a kick is being sent. Written by the watcher.
    kicked: AtomicU64,
}

impl Kick {
    /// Installs the handler, for the whole process.
    pub fn install() {
        signals::handle(KICK, on_kick);
    }

    /// The worker begins a call.
    pub fn begin(&self, seq: u64) {
        self.running.store(seq, Ordering::SeqCst);
    }

    /// The worker has finished the call; no kick meant for it can come any more.
    pub fn finish(&self) {
        let seq = self.running.swap(0, Ordering::SeqCst);
        if self.kicked.load(Ordering::SeqCst) / 2 == seq {
            while self.kicked.load(Ordering::SeqCst) == 2 * seq + 1 {
                hint::spin_loop();
                std::thread::yield_now();
            }
            // Any way out of Linux delivers the signal that is pending now.
            std::thread::yield_now();
        }
    }

    /// Whether there is a running call and `wanted` says that it is to be kicked.
    pub fn is_wanted(&self, wanted: impl FnOnce(u64) -> bool) -> bool {
        let seq = self.running.load(Ordering::SeqCst);
        seq != 0 && wanted(seq)
    }

    /// Kicks the running call if it is `wanted`, `kick` sending [`KICK`] to the worker (watcher only). Returns whether it
    /// did: then it has to be called again until the call is over.
    pub fn kick_if(&self, wanted: impl FnOnce(u64) -> bool, kick: impl FnOnce()) -> bool {
        let seq = self.running.load(Ordering::SeqCst);
        if seq == 0 || !wanted(seq) {
            return false;
        }
        self.kicked.store(2 * seq + 1, Ordering::SeqCst);
        let runs = self.running.load(Ordering::SeqCst) == seq;
        if runs {
            kick();
        }
        self.kicked.store(2 * seq, Ordering::SeqCst);
        runs
    }
}

extern "C" fn on_kick(_signo: i32) {}
