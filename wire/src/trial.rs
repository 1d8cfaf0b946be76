//! Whether it pays to poll for what the other side sends before one sleeps.
//!
//! To end a sleep a thread of the host must be woken, which takes tens of microseconds; who polls has what was sent in one or two. But
//! who polls has a CPU that others may need, even those it waits for. So it tries: as long as polls are worth it, it goes on, and after
//! one in vain it leaves out the next waits, twice as many each time. Idle cores of the node and the proxy's workers go by it.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Waits that are left out at most.
const MOST_LEFT_OUT: u32 = 255;
/// What is left out at first: while ranks start they need the CPUs.
const AT_FIRST: u32 = 15;

/// Whether one thread or core polls. Only it uses this.
#[derive(Debug)]
pub struct Trial {
    /// Waits before the next poll.
    left_out: AtomicU32,
    /// How many were left out after the last poll in vain.
    in_vain: AtomicU32,
}

impl Trial {
    /// Of one that has not waited.
    #[must_use]
    pub const fn new() -> Trial {
        Trial {
            left_out: AtomicU32::new(AT_FIRST),
            in_vain: AtomicU32::new(0),
        }
    }

    /// Whether it is to poll now.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.left_out.load(Relaxed) == 0
    }

    /// It polled; `paid`: what it waited for came meanwhile.
    pub fn polled(&self, paid: bool) {
        let in_vain = self.in_vain.load(Relaxed);
        if paid {
            self.in_vain.store(in_vain / 2, Relaxed);
        } else {
            let in_vain = (in_vain * 2 + 1).min(MOST_LEFT_OUT);
            self.in_vain.store(in_vain, Relaxed);
            self.left_out.store(in_vain, Relaxed);
        }
    }

    /// It slept without a poll until the other side sent what it waited for.
    pub fn left_out(&self) {
        let left_out = self.left_out.load(Relaxed);
        self.left_out.store(left_out.saturating_sub(1), Relaxed);
    }
}

impl Default for Trial {
    fn default() -> Trial {
        Trial::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits `waits` times; `paid`: whether a poll then ends in time. How often it polled.
    fn polls(trial: &Trial, waits: usize, paid: bool) -> usize {
        let wait = |_: &usize| {
            let polled = trial.is_due();
            if polled {
                trial.polled(paid);
            } else {
                trial.left_out();
            }
            polled
        };
        (0..waits).filter(wait).count()
    }

    #[test]
    fn what_pays_is_done_after_some_waits_and_from_then_on() {
        let trial = Trial::new();
        assert_eq!(polls(&trial, AT_FIRST as usize, true), 0);
        assert_eq!(polls(&trial, 1_000, true), 1_000);
    }

    #[test]
    fn polls_in_vain_are_few() {
        let trial = Trial::new();
        const DOUBLINGS: usize = MOST_LEFT_OUT.count_ones() as usize;
        const LATER: usize = 10;
        let waits = AT_FIRST as usize + 2 * 256 + LATER * 256;
        let polled = polls(&trial, waits, false);
        assert!(
            (LATER..=DOUBLINGS + LATER + 1).contains(&polled),
            "{polled} polls in vain in {waits} waits"
        );
    }

    #[test]
    fn it_is_tried_again_until_it_pays() {
        let trial = Trial::new();
        polls(&trial, 2_000, false);
        let until = polls(&trial, MOST_LEFT_OUT as usize + 1, true);
        assert!(until > 0, "no poll in as many waits as are left out");
        assert_eq!(polls(&trial, 100, true), 100);
    }

    /// One poll in vain among many that paid leaves out one wait.
    #[test]
    fn what_polls_in_vain_cost_is_forgotten() {
        let trial = Trial::new();
        polls(&trial, 2_000, false);
        polls(&trial, 2_000, true);
        trial.polled(false);
        assert_eq!(polls(&trial, 10, true), 9);
    }
}
