//! Stops and continues.

use std::sync::atomic::{AtomicU8, Ordering};

/// Keeps a stop from outliving the SIGCONT that followed it.
///
/// A stop signal travels to the node and comes back as a request to stop; a SIGCONT may pass it on the way.
#[derive(Debug, Default)]
pub struct Stops(AtomicU8);

const IDLE: u8 = 0;
const POSTED: u8 = 1;
const CONTINUED: u8 = 2;

impl Stops {
    /// A stop signal was passed on.
    pub fn posted(&self) {
        self.0.store(POSTED, Ordering::SeqCst);
    }

    /// SIGCONT was passed on.
    pub fn continued(&self) {
        let _ = self
            .0
            .compare_exchange(POSTED, CONTINUED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a request to stop still holds.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.swap(IDLE, Ordering::SeqCst) != CONTINUED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_was_continued_does_not_hold() {
        let stops = Stops::default();
        assert!(stops.take());
        stops.posted();
        assert!(stops.take());
        stops.posted();
        stops.continued();
        assert!(!stops.take());
        stops.continued();
        assert!(stops.take());
    }
}
