//! How long a worker spins for its next request before it blocks.
//!
//! To end its sleep the node signals a doorbell and Linux wakes a thread, on an emulated node some 50 us in all, and the caller,
//! which has spun for less, sleeps too by then. A program that is busy with files ships again sooner: a worker spins so long while
//! that pays ([`Trial`]). It does not yield meanwhile: Linux counts that against a thread, and keeps it waiting when it is woken later,
//! beside others that compute.

use std::time::Duration;

use wire::trial::Trial;

/// How long it spins in any case: for a program that does nothing between its calls.
const SHORT: Duration = Duration::from_micros(2);
/// How long it spins while that pays.
const LONG: Duration = Duration::from_micros(50);

/// How one worker spins.
#[derive(Debug, Default)]
pub struct Spin(Trial);

impl Spin {
    /// How long it is to spin now.
    pub fn limit(&self) -> Duration {
        if self.0.is_due() { LONG } else { SHORT }
    }

    /// It has spun as long as [`limit`](Self::limit) said, or until there was a request: `found`.
    pub fn ended(&self, found: bool) {
        match (self.0.is_due(), found) {
            (true, found) => self.0.polled(found),
            (false, false) => self.0.left_out(),
            (false, true) => {} // the short spin is enough
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the worker wait `waits` times for requests that come after `gap`; how often it spins long.
    fn long_spins(spin: &Spin, waits: usize, gap: Duration) -> usize {
        let wait = |_: &usize| {
            let limit = spin.limit();
            spin.ended(gap < limit);
            limit == LONG
        };
        (0..waits).filter(wait).count()
    }

    #[test]
    fn who_ships_again_soon_is_awaited_after_a_while_and_from_then_on() {
        let spin = Spin::default();
        assert!(long_spins(&spin, 1_000, LONG / 2) > 900);
        assert_eq!(long_spins(&spin, 1_000, LONG / 2), 1_000);
        assert!(long_spins(&spin, 1_000, 2 * LONG) < 100);
    }

    /// Of calls that follow each other at once nothing is learned: the short spin is enough for them.
    #[test]
    fn requests_that_come_at_once_need_no_long_spin() {
        let waits_after = |at_once| {
            let spin = Spin::default();
            long_spins(&spin, 2_000, 2 * LONG);
            assert_eq!(long_spins(&spin, at_once, SHORT / 2), 0);
            (0..).find(|_| long_spins(&spin, 1, 2 * LONG) == 1)
        };
        assert_eq!(waits_after(1_000), waits_after(0));
    }
}
