//! Why no thread of a rank goes back to ring 3.

use core::sync::atomic::{AtomicBool, Ordering};

/// Why no thread of a rank goes back to ring 3. Who sets or clears a reason has the threads look ([`super::Rank::call_threads`]).
#[derive(Default)]
pub struct Stops {
    /// A signal stopped it.
    by_signal: AtomicBool,
    /// A child gets a copy of its memory.
    for_copy: AtomicBool,
}

impl Stops {
    /// Whether there is a reason.
    pub fn any(&self) -> bool {
        self.by_signal.load(Ordering::SeqCst) || self.for_copy.load(Ordering::SeqCst)
    }

    /// A signal stops it, or lets it go on.
    pub(super) fn set_by_signal(&self, stopped: bool) {
        self.by_signal.store(stopped, Ordering::SeqCst);
    }

    /// A child is to get a copy of its memory.
    pub fn begin_copy(&self) {
        self.for_copy.store(true, Ordering::SeqCst);
    }

    /// The child has it, or gets none; whether it was to get one.
    pub fn end_copy(&self) -> bool {
        self.for_copy.swap(false, Ordering::SeqCst)
    }
}
