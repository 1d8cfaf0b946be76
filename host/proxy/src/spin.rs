//! How long a worker spins for its next request before it blocks.
//!
//! To end its sleep the node signals a doorbell and Linux wakes a thread, on an emulated node some 50 us in all, and the caller,
//! which has spun for less, sleeps too by then. A program that is busy with files ships again sooner. But who spins
//! has a CPU of the host that others may need, the program itself too. So a worker tries: as long as requests come while it spins it
//! goes on so, and after a long spin in vain it leaves out the next ones, twice as many each time. It does not yield meanwhile: Linux
//! counts that against a thread, and keeps it waiting when it is woken later, beside others that compute.

use std::time::Duration;

/// How long it spins in any case: for a program that does nothing between its calls.
const SHORT: Duration = Duration::from_micros(2);
/// How long it spins while that pays.
const LONG: Duration = Duration::from_micros(50);
/// Long spins that it leaves out at most.
const MOST_LEFT_OUT: u32 = 255;
/// What it leaves out at first: while ranks start they need the CPUs.
const AT_FIRST: u32 = 15;

/// How one worker spins.
#[derive(Debug)]
pub struct Spin {
    /// Waits before it tries a long spin again.
    left_out: u32,
    /// How many it left out after its last one in vain.
    in_vain: u32,
}

impl Spin {
    /// Of a worker that has not waited.
    pub const fn new() -> Spin {
        Spin {
            left_out: AT_FIRST,
            in_vain: 0,
        }
    }

    /// How long it is to spin now.
    pub fn limit(&self) -> Duration {
        match self.left_out {
            0 => LONG,
            _ => SHORT,
        }
    }

    /// It has spun as long as [`limit`](Self::limit) said, or until there was a request: `found`.
    pub fn ended(&mut self, found: bool) {
        match (self.left_out, found) {
            (0, true) => self.in_vain /= 2,
            (0, false) => {
                self.in_vain = (self.in_vain * 2 + 1).min(MOST_LEFT_OUT);
                self.left_out = self.in_vain;
            }
            (_, true) => {}
            (_, false) => self.left_out -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the worker wait `waits` times for requests that come after `gap`; how often it spins long.
    fn long_spins(spin: &mut Spin, waits: usize, gap: Duration) -> usize {
        let wait = |_: &usize| {
            let limit = spin.limit();
            spin.ended(gap < limit);
            limit == LONG
        };
        (0..waits).filter(wait).count()
    }

    #[test]
    fn who_ships_again_soon_is_awaited_after_a_while_and_from_then_on() {
        let mut spin = Spin::new();
        assert_eq!(long_spins(&mut spin, AT_FIRST as usize, LONG / 2), 0);
        assert_eq!(long_spins(&mut spin, 1_000, LONG / 2), 1_000);
    }

    #[test]
    fn long_spins_in_vain_are_few() {
        let mut spin = Spin::new();
        const DOUBLINGS: usize = MOST_LEFT_OUT.count_ones() as usize;
        const LATER: usize = 10;
        let waits = AT_FIRST as usize + 2 * 256 + LATER * 256;
        let long = long_spins(&mut spin, waits, 2 * LONG);
        assert!((LATER..=DOUBLINGS + LATER + 1).contains(&long), "{long}");
    }

    #[test]
    fn it_is_tried_again_until_it_pays() {
        let mut spin = Spin::new();
        long_spins(&mut spin, 2_000, 2 * LONG);
        long_spins(&mut spin, MOST_LEFT_OUT as usize + 1, LONG / 2);
        assert_eq!(long_spins(&mut spin, 100, LONG / 2), 100);
        // One in vain among many that paid leaves out one.
        spin.ended(false);
        assert_eq!(long_spins(&mut spin, 10, LONG / 2), 9);
    }

    /// Of calls that follow each other at once nothing is learned: the short spin is enough for them.
    #[test]
    fn requests_that_come_at_once_need_no_long_spin() {
        let mut spin = Spin::new();
        long_spins(&mut spin, 2_000, 2 * LONG);
        let before = spin.left_out;
        assert_eq!(long_spins(&mut spin, 1_000, SHORT / 2), 0);
        assert_eq!(spin.left_out, before);
    }
}
