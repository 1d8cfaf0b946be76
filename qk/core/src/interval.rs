//! An interval timer, of setitimer(2) or timer_settime(2): when it expires next, on whatever clock it runs, and how often
//! after that.

/// One timer; all times in ns of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// When it expires next; `None`: it is off.
    due_ns: Option<u64>,
    /// From expiration to expiration; 0: it expires once.
    period_ns: u64,
}

impl Interval {
    /// What a timer that has not yet expired has left at least: a microsecond, for zero says that it is off
    /// (Linux: kernel/time/itimer.c, itimer_get_remtime).
    const LEAST_NS: u64 = 1000;

    /// A timer that expires `after_ns` from `now_ns` (0: never), and then every `period_ns` (0: not again).
    #[must_use]
    pub const fn new(now_ns: u64, after_ns: u64, period_ns: u64) -> Self {
        let due_ns = match after_ns {
            0 => None,
            after_ns => Some(now_ns.saturating_add(after_ns)),
        };
        Self { due_ns, period_ns }
    }

    /// A timer that expires at `due_ns`, and then every `period_ns` (0: not again).
    #[must_use]
    pub const fn at(due_ns: u64, period_ns: u64) -> Self {
        Self {
            due_ns: Some(due_ns),
            period_ns,
        }
    }

    /// From expiration to expiration, in ns; 0: it expires once.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// When it expires next.
    #[must_use]
    pub const fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// What is left until it expires, and its period; zeros when it is off.
    #[must_use]
    pub fn left(&self, now_ns: u64) -> (u64, u64) {
        self.due_ns.map_or((0, 0), |due_ns| {
            (
                due_ns.saturating_sub(now_ns).max(Self::LEAST_NS),
                self.period_ns,
            )
        })
    }

    /// Whether it has expired. It then expires next at the first multiple of its period that is still to come: expirations
    /// that came while no one could take them are not made up for.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        self.expirations(now_ns) > 0
    }

    /// As [`Self::expire`], with how often it has expired.
    pub fn expirations(&mut self, now_ns: u64) -> u64 {
        let Some(due_ns) = self.due_ns.filter(|due_ns| *due_ns <= now_ns) else {
            return 0;
        };
        let count = match self.period_ns {
            0 => 1,
            period_ns => ((now_ns - due_ns) / period_ns).saturating_add(1),
        };
        self.due_ns = match self.period_ns {
            0 => None,
            period_ns => Some(due_ns.saturating_add(count.saturating_mul(period_ns))),
        };
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_expires_once_or_at_multiples_of_its_period() {
        let mut once = Interval::new(100, 50, 0);
        assert_eq!(once.left(100), (1000, 0), "never less than a microsecond");
        assert!(!once.expire(149) && once.expire(150));
        assert_eq!((once, once.left(200)), (Interval::default(), (0, 0)));

        let mut often = Interval::new(0, 5_000, 2_000);
        assert_eq!(often.left(0), (5_000, 2_000));
        assert!(often.expire(5_000));
        assert_eq!(often.due_ns(), Some(7_000));
        assert_eq!(
            often.expirations(12_999),
            3,
            "late: 7,000, 9,000 and 11,000"
        );
        assert_eq!(
            often.left(13_000),
            (1000, 2_000),
            "at 13,000, not at 14,999"
        );
        assert!(often.expire(13_000));
        assert_eq!(often.due_ns(), Some(15_000));
    }

    #[test]
    fn zero_turns_it_off_and_the_far_future_is_never() {
        assert!(!Interval::new(7, 0, 5).expire(u64::MAX - 1));
        assert_eq!(Interval::new(7, 0, 5).left(7), (0, 0));
        assert_eq!(Interval::new(7, u64::MAX, 5).due_ns(), Some(u64::MAX));
    }
}
