//! What a thread is to do before it goes back to ring 3: words that any core may set, but for the page that is lost.

use core::num::NonZero;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a thread is to do before it goes back to ring 3.
#[derive(Default)]
pub struct Pending {
    /// Something is to be done.
    work: AtomicBool,
    /// It is the one to act on a signal: its own, or one of the process that others are not to take before it
    /// (Linux: TIF_SIGPENDING).
    signal: AtomicBool,
    /// What its core was told of a lost page ([`wire::lost`]); 0: nothing.
    lost: AtomicU64,
}

impl Pending {
    /// Of another thread from now on.
    pub(super) fn reset(&self) {
        self.lost.store(0, Ordering::Relaxed);
        self.signal.store(false, Ordering::Relaxed);
        self.work.store(false, Ordering::Relaxed);
    }

    /// Something is to be done before the thread, which may run on another core, goes back to ring 3.
    #[inline]
    pub fn note_work(&self) {
        self.work.store(true, Ordering::SeqCst);
    }

    /// As [`Self::note_work`], for the thread that runs here or is about to.
    #[inline]
    pub fn note_own_work(&self) {
        self.work.store(true, Ordering::Relaxed);
    }

    /// Whether something is to be done.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.work.load(Ordering::Relaxed)
    }

    /// Whether something is to be done that was noted since [`Self::begin_work`].
    #[inline]
    pub fn has_new_work(&self) -> bool {
        self.work.load(Ordering::SeqCst)
    }

    /// All that was noted is done next: what is noted from here on counts anew.
    #[inline]
    pub fn begin_work(&self) {
        self.work.store(false, Ordering::SeqCst);
    }

    /// The thread is to look at its signals before it goes back to ring 3.
    #[inline]
    pub fn note_signal(&self) {
        self.signal.store(true, Ordering::SeqCst);
        self.note_work();
    }

    /// As [`Self::note_signal`], for the thread that runs here.
    #[inline]
    pub fn note_own_signal(&self) {
        self.signal.store(true, Ordering::Relaxed);
        self.note_own_work();
    }

    /// The thread, which runs here, is to look for a page that is lost.
    pub fn note_lost(&self, said: u64) {
        self.lost.store(said, Ordering::Relaxed);
        self.note_own_work();
    }

    /// What the thread, which runs here, is to look for.
    #[inline]
    pub fn take_lost(&self) -> Option<NonZero<u64>> {
        let said = NonZero::new(self.lost.load(Ordering::Relaxed))?;
        self.lost.store(0, Ordering::Relaxed);
        Some(said)
    }

    /// Whether the thread is to look at its signals.
    #[inline]
    pub fn has_signal(&self) -> bool {
        self.signal.load(Ordering::SeqCst)
    }

    /// Notes whether there is a signal that the thread acts on. The caller has locked the signals that it looked at.
    #[inline]
    pub fn settle_signal(&self, wanted: bool) {
        self.signal.store(wanted, Ordering::SeqCst);
    }

    /// Whether the thread is to look at its signals, which it does next.
    #[inline]
    pub fn take_signal(&self) -> bool {
        self.signal.swap(false, Ordering::SeqCst)
    }
}
