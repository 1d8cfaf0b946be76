//! The processor time of a thread.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Processor time of a thread, in TSC ticks. Only the core that runs the thread changes it.
#[derive(Default)]
pub struct CpuClock {
    /// What is over and counted.
    ran: AtomicU64,
    /// Since when it runs (TSC); 0: it does not.
    since: AtomicU64,
    /// The thread waits, on a core or not.
    waits: AtomicBool,
}

impl CpuClock {
    /// TSC ticks that the program or the kernel for it used a core.
    pub fn ticks(&self) -> u64 {
        self.ran.load(Ordering::Relaxed) + self.running()
    }

    /// Ticks since it has been running; 0: it does not.
    pub fn running(&self) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => hal::time::tsc().saturating_sub(since),
        }
    }

    /// Whether it counts now.
    pub fn runs(&self) -> bool {
        self.since.load(Ordering::Relaxed) != 0
    }

    /// Of a new thread.
    pub fn reset(&self) {
        self.ran.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Goes on with what another thread's shows, which ends.
    pub fn take_over(&self, other: &CpuClock) {
        self.reset();
        self.ran.store(other.ticks(), Ordering::Relaxed);
    }

    /// The thread waits from now on: leaving its core changes nothing.
    pub fn begin_wait(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// The thread waits no more.
    pub fn end_wait(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Whether the thread waits.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// It counts from now on. Returns the time.
    pub fn start(&self) -> u64 {
        let now = hal::time::tsc();
        self.since.store(now, Ordering::Relaxed);
        now
    }

    /// It stands still. Returns the time, and how long it ran until now.
    pub fn stop(&self) -> (u64, u64) {
        let now = hal::time::tsc();
        let ran = match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        let before = self.ran.load(Ordering::Relaxed);
        self.ran.store(before + ran, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        (now, ran)
    }
}
