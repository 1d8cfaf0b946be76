//! What holds of a thread until it ends or its program is replaced: mostly what that has said of it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What holds of a thread until it ends or its program is replaced.
#[derive(Default)]
pub struct OfProgram {
    rseq: Rseq,
    /// Where to write 0 and wake a waiter when it ends (set_tid_address(2)); 0: nowhere.
    clear_tid: AtomicU64,
    /// set_robust_list's head.
    robust_list: AtomicU64,
    /// Where an interrupted sleep ends (TSC), should it go on; 0: none.
    sleep_end: AtomicU64,
    /// It has begun to end: others get its locks.
    ends: AtomicBool,
}

/// The struct rseq of a thread (rseq(2)).
#[derive(Default)]
pub struct Rseq {
    /// Its address; 0: none is registered.
    at: AtomicU64,
    signature: AtomicU64,
    /// The thread was preempted or moved to another core: its restartable sequence is to be updated.
    due: AtomicBool,
}

impl Rseq {
    /// Its address; 0: none is registered.
    #[inline]
    pub fn at(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    /// What stands before the abort address of each of its sections.
    #[inline]
    pub fn signature(&self) -> u64 {
        self.signature.load(Ordering::Relaxed)
    }

    /// Registers it.
    pub fn register(&self, at: u64, signature: u64) {
        self.at.store(at, Ordering::Relaxed);
        self.signature.store(signature, Ordering::Relaxed);
    }

    /// None is registered any more.
    pub fn unregister(&self) {
        self.at.store(0, Ordering::Relaxed);
    }

    /// The thread was preempted, or runs on another core.
    #[inline]
    pub fn note_due(&self) {
        self.due.store(true, Ordering::Relaxed);
    }

    /// Whether it was since the last time.
    #[inline]
    pub fn take_due(&self) -> bool {
        self.due.swap(false, Ordering::Relaxed)
    }
}

impl OfProgram {
    /// Nothing of it holds any more.
    pub(super) fn forget(&self) {
        self.ends.store(false, Ordering::Relaxed);
        for word in [
            &self.rseq.at,
            &self.clear_tid,
            &self.robust_list,
            &self.sleep_end,
        ] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Its struct rseq.
    #[inline]
    pub fn rseq(&self) -> &Rseq {
        &self.rseq
    }

    /// Where 0 is written and a waiter woken when it ends; 0: nowhere.
    pub fn clear_tid(&self) -> u64 {
        self.clear_tid.load(Ordering::Relaxed)
    }

    /// Has 0 written there when it ends (set_tid_address(2)).
    pub fn set_clear_tid(&self, at: u64) {
        self.clear_tid.store(at, Ordering::Relaxed);
    }

    /// The head of its list of robust locks; 0: there is none.
    pub fn robust_list(&self) -> u64 {
        self.robust_list.load(Ordering::Relaxed)
    }

    /// Has this list of locks given to others when it ends (set_robust_list(2)).
    pub fn set_robust_list(&self, head: u64) {
        self.robust_list.store(head, Ordering::Relaxed);
    }

    /// It begins to end: others get its locks, and it gets none any more.
    pub fn begin_end(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    /// Whether it has begun to end.
    pub fn has_begun_end(&self) -> bool {
        self.ends.load(Ordering::SeqCst)
    }

    /// Stores the end of a sleep that a signal interrupts.
    pub fn keep_sleep_end(&self, tsc: u64) {
        self.sleep_end.store(tsc, Ordering::Relaxed);
    }

    /// The end of the interrupted sleep that is now to go on.
    pub fn take_sleep_end(&self) -> Option<u64> {
        let kept = self.sleep_end.swap(0, Ordering::Relaxed);
        Some(kept).filter(|tsc| *tsc != 0)
    }
}
