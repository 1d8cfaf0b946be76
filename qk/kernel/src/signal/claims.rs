//! What was left to do about signals of a rank where there was no time for it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use qk_core::signals::SigSet;

/// What threads of a rank are still to do about its signals ([`super::claim`]).
#[derive(Default)]
pub struct Claims {
    /// There was no time to find which thread takes a signal of the process.
    unclaimed: AtomicBool,
    /// Signals that were forgotten since timers that sent some went on.
    forgotten: AtomicU64,
}

impl Claims {
    /// There was no time to find which thread takes a signal of the process: a thread is to do that.
    pub fn leave(&self) {
        self.unclaimed.store(true, Ordering::SeqCst);
    }

    /// Whether that is left to do.
    #[inline]
    pub fn are_left(&self) -> bool {
        self.unclaimed.load(Ordering::SeqCst)
    }

    /// The same; the caller does it if so, and no other.
    #[inline]
    pub fn take(&self) -> bool {
        self.are_left() && self.unclaimed.swap(false, Ordering::SeqCst)
    }

    /// These signals were forgotten: timers that sent some go on when a thread next looks at its signals.
    pub fn note_forgotten(&self, set: SigSet) {
        self.forgotten.fetch_or(set.0, Ordering::SeqCst);
    }

    /// Those that were forgotten since the last time.
    pub fn take_forgotten(&self) -> SigSet {
        SigSet(self.forgotten.swap(0, Ordering::SeqCst))
    }
}
