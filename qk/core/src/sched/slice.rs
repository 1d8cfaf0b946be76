//! How long a task may keep its core: for ever while no other task waits for it, else until its slice ends.
//!
//! The core itself begins and ends slices. Another one that queues a task there reads [`Slice::is_shared`] after that, and
//! interrupts a core that is not shared; one that is will look at its queue at the slice's end. So a core says that it is
//! not shared any more before it looks whether a task waits, not after: the queue's lock puts the two looks in an order.

use core::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU64;

/// The end of a slice that is over whatever the time is.
const PAST: u64 = 1;

/// When the slice of a core's task ends, in the caller's unit; 0: never.
#[derive(Debug)]
pub struct Slice(AtomicU64);

/// What a slice means to a timer that is being set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// It ends at this time at the latest.
    At(u64),
    /// It ended, which no interrupt will show any more: a host may keep a core for longer than a slice in the middle of setting
    /// its timer.
    Over,
}

impl Slice {
    /// Of a core that is not shared.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Slice {
        Slice(AtomicU64::new(0))
    }

    /// Of a core that is not shared.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Slice {
        Slice(AtomicU64::new(0))
    }

    /// Whether what runs on the core has a slice only. From any core, after it has queued a task there.
    #[must_use = "a core that is not shared has to be interrupted"]
    pub fn is_shared(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// The core goes on with a task, which has a slice until `end` if a task waits: certainly (`shared`) or as the queue shows
    /// (`is_wanted`). Returns the end; 0: never.
    #[inline]
    pub fn begin(
        &self,
        shared: bool,
        is_wanted: impl FnOnce() -> bool,
        end: impl FnOnce() -> u64,
    ) -> u64 {
        if !shared {
            self.0.store(0, Relaxed);
            if !is_wanted() {
                return 0;
            }
        }
        let end = end();
        self.0.store(end, Relaxed);
        end
    }

    /// A task waits for the core. Returns the end of the slice that begins with that; `None`: there was one.
    #[inline]
    pub fn share(&self, end: impl FnOnce() -> u64) -> Option<u64> {
        if self.0.load(Relaxed) != 0 {
            return None;
        }
        let end = end();
        self.0.store(end, Relaxed);
        Some(end)
    }

    /// The slice is over.
    pub fn end(&self) {
        self.0.store(PAST, Relaxed);
    }

    /// Whether the slice is over.
    #[inline]
    #[must_use]
    pub fn is_over(&self, now: impl FnOnce() -> u64) -> bool {
        match self.0.load(Relaxed) {
            0 => false,
            end => now() >= end,
        }
    }

    /// What a timer that is due at `due` for other reasons has to be set to.
    #[inline]
    #[must_use]
    pub fn due(&self, due: u64, now: impl FnOnce() -> u64) -> Due {
        match self.0.load(Relaxed) {
            end if end == 0 || end >= due => Due::At(due),
            end if end > now() => Due::At(end),
            _ => Due::Over,
        }
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn of(end: u64) -> Slice {
        let slice = Slice::new();
        assert_eq!(slice.begin(true, || unreachable!(), || end), end);
        slice
    }

    #[test]
    fn a_task_has_a_slice_while_somebody_waits() {
        let slice = of(10);
        assert!(slice.is_shared() && !slice.is_over(|| 9) && slice.is_over(|| 10));
        assert_eq!(slice.share(|| 20), None);
        assert_eq!(slice.begin(false, || true, || 30), 30);
        assert_eq!(slice.begin(false, || false, || unreachable!()), 0);
        assert!(!slice.is_shared() && !slice.is_over(|| u64::MAX));
        assert_eq!(slice.share(|| 20), Some(20));
        slice.end();
        assert!(slice.is_shared() && slice.is_over(|| PAST));
        assert_eq!(slice.begin(false, || false, || unreachable!()), 0);
        assert!(!slice.is_shared());
    }

    /// The timer stayed off then, and the task kept its core for as long as it did not enter the kernel.
    #[test]
    fn a_slice_that_ended_before_the_timer_is_set_is_told() {
        assert_eq!(of(10).due(u64::MAX, || 9), Due::At(10));
        assert_eq!(of(10).due(u64::MAX, || 10), Due::Over);
        assert_eq!(of(10).due(5, || 20), Due::At(5));
        assert_eq!(Slice::new().due(u64::MAX, || 20), Due::At(u64::MAX));
    }
}
