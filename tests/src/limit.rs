//! Time limits that hold on a machine that others use.

use std::fs;
use std::time::{Duration, Instant};

use crate::tree;

/// Something that is waited for hangs when this is over. Time in which any process of this machine waited for a processor does not
/// count, up to [`MOST`] times the limit.
#[derive(Debug)]
pub struct Limit {
    limit: Duration,
    begin: Instant,
    pressure: Duration,
}

/// A hang is found on a machine that is always busy, too.
const MOST: u32 = 5;

impl Limit {
    /// It begins now; on a machine that does not see how slow it is, MARGAY_TEST_SLOWER says how many times as long.
    #[must_use]
    pub fn new(limit: Duration) -> Limit {
        let slower = u32::try_from(tree::slower()).unwrap_or(1);
        Limit {
            limit: limit * slower,
            begin: Instant::now(),
            pressure: pressure(),
        }
    }

    /// What is left of it; none when it is over.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let waited = pressure().saturating_sub(self.pressure);
        self.left_after(self.begin.elapsed(), waited)
    }

    fn left_after(&self, elapsed: Duration, waited: Duration) -> Option<Duration> {
        let limit = self.limit + waited.min(self.limit * (MOST - 1));
        limit.checked_sub(elapsed).filter(|left| !left.is_zero())
    }
}

/// How long somebody has waited for a processor; always the same where Linux does not count it.
fn pressure() -> Duration {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    Duration::from_micros(some_total(&text).unwrap_or(0))
}

/// Microseconds in which some task was stalled (Documentation/accounting/psi.rst).
fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_processor_does_not_count() {
        let seconds = Duration::from_secs;
        let limit = Limit::new(seconds(20));
        for (elapsed, waited, left) in [
            (0, 0, Some(20)),
            (19, 0, Some(1)),
            (20, 0, None),
            (20, 5, Some(5)),
            (99, 99, Some(1)),
            (100, 100, None),
        ] {
            let left_over = limit.left_after(seconds(elapsed), seconds(waited));
            assert_eq!(left_over, left.map(seconds), "{elapsed} s, {waited} s");
        }
    }

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=0.98 avg60=43.13 avg300=50.24 total=34065198102\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_total(text), Some(34_065_198_102));
        assert_eq!(some_total(""), None);
    }
}
