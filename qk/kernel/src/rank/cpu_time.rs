//! The processor time of a rank.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The processor time of a rank, but for that of the threads that run now.
#[derive(Default)]
pub struct CpuTime {
    /// In TSC ticks.
    used: AtomicU64,
    /// A deadline on it is set: a core's timer is to be armed whenever a thread goes on.
    has_deadline: AtomicBool,
}

impl CpuTime {
    /// What its threads have used before they last stopped, in TSC ticks.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A thread has used a core for so many TSC ticks, and uses it no more.
    #[inline]
    pub fn add(&self, ticks: u64) {
        self.used.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Whether a deadline on it is set.
    #[inline]
    pub fn has_deadline(&self) -> bool {
        self.has_deadline.load(Ordering::Relaxed)
    }

    /// Notes whether one is.
    pub fn set_deadline(&self, is_set: bool) {
        self.has_deadline.store(is_set, Ordering::Relaxed);
    }
}
