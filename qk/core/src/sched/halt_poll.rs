//! Whether an idle core polls for interrupts for a while before it halts.
//!
//! To end the halt of a virtual CPU the host wakes a thread, which takes tens of microseconds; one that polls has the interrupt in
//! one or two. But where the host runs the CPUs of a node in turn, who polls keeps the others from what it waits for. So a core tries:
//! as long as another core wakes it while it polls it goes on polling, and after a poll in vain it leaves out the next waits, twice as many each
//! time. What the core waits for is not known; only waits that another core ended count.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Waits that a core leaves out at most.
const MOST_LEFT_OUT: u32 = 255;
/// What it leaves out at first: no core polls while a node starts.
const AT_FIRST: u32 = 15;

/// Whether one core polls. Only that core uses it.
#[derive(Debug)]
pub struct HaltPoll {
    /// Waits before it tries the next time.
    left_out: AtomicU32,
    /// How many it left out after its last poll in vain.
    in_vain: AtomicU32,
}

impl HaltPoll {
    /// Of a core that has not waited.
    #[must_use]
    pub const fn new() -> HaltPoll {
        HaltPoll {
            left_out: AtomicU32::new(AT_FIRST),
            in_vain: AtomicU32::new(0),
        }
    }

    /// Whether it is to poll now.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.left_out.load(Relaxed) == 0
    }

    /// It polled; `woken`: until another core woke it.
    pub fn polled(&self, woken: bool) {
        let in_vain = self.in_vain.load(Relaxed);
        if woken {
            self.in_vain.store(in_vain / 2, Relaxed);
        } else {
            let in_vain = (in_vain * 2 + 1).min(MOST_LEFT_OUT);
            self.in_vain.store(in_vain, Relaxed);
            self.left_out.store(in_vain, Relaxed);
        }
    }

    /// It halted without a poll, and another core woke it.
    pub fn halted(&self) {
        let left_out = self.left_out.load(Relaxed);
        self.left_out.store(left_out.saturating_sub(1), Relaxed);
    }
}

impl Default for HaltPoll {
    fn default() -> HaltPoll {
        HaltPoll::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the core wait `waits` times; `woken`: whether a poll then ends in time. How often it polled.
    fn polls(core: &HaltPoll, waits: usize, woken: bool) -> usize {
        let wait = |_: &usize| {
            let polled = core.is_due();
            if polled {
                core.polled(woken);
            } else {
                core.halted();
            }
            polled
        };
        (0..waits).filter(wait).count()
    }

    #[test]
    fn a_core_that_others_wake_polls_after_some_waits_and_from_then_on() {
        let core = HaltPoll::new();
        assert_eq!(polls(&core, AT_FIRST as usize, true), 0);
        assert_eq!(polls(&core, 1_000, true), 1_000);
    }

    #[test]
    fn polls_in_vain_are_few() {
        let core = HaltPoll::new();
        const DOUBLINGS: usize = MOST_LEFT_OUT.count_ones() as usize;
        const LATER: usize = 10;
        let waits = AT_FIRST as usize + 2 * 256 + LATER * 256;
        let polled = polls(&core, waits, false);
        assert!(
            (LATER..=DOUBLINGS + LATER + 1).contains(&polled),
            "{polled} polls in vain in {waits} waits"
        );
    }

    #[test]
    fn a_core_polls_again_when_a_poll_was_worth_it() {
        let core = HaltPoll::new();
        polls(&core, 2_000, false);
        let until = polls(&core, MOST_LEFT_OUT as usize + 1, true);
        assert!(until > 0, "no trial in as many waits as it leaves out");
        assert_eq!(polls(&core, 100, true), 100);
    }

    /// One poll in vain among many that were worth it leaves out one wait.
    #[test]
    fn what_polls_in_vain_cost_is_forgotten() {
        let core = HaltPoll::new();
        polls(&core, 2_000, false);
        polls(&core, 2_000, true);
        core.polled(false);
        assert_eq!(polls(&core, 10, true), 9);
    }
}
