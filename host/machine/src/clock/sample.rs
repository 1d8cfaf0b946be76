//! One moment on all clocks of the host, read so that an interruption between the readings does not count.

use crate::sys;

/// A sample that took longer than this was disturbed, in TSC ticks.
const CLOSE_TICKS: u64 = 20_000;
/// Most rounds of readings for a sample.
const ROUNDS: usize = 8;

/// One moment on all clocks of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The host's TSC.
    pub tsc: u64,
    /// CLOCK_MONOTONIC in ns.
    pub mono_ns: u64,
    /// CLOCK_REALTIME in ns since the epoch.
    pub real_ns: u64,
    /// Most ns that CLOCK_MONOTONIC was before or after `mono_ns` when CLOCK_REALTIME was read.
    pub error_ns: u64,
}

/// What a sample is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Tsc,
    Monotonic,
    Realtime,
}

fn read(source: Source) -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    let ns = |id| {
        let time = clock_gettime(id);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    match source {
        Source::Tsc => sys::tsc(),
        Source::Monotonic => ns(ClockId::Monotonic),
        Source::Realtime => ns(ClockId::Realtime),
    }
}

impl Sample {
    /// Looks at the clocks, again if something came between.
    #[must_use]
    pub fn now() -> Sample {
        Sample::by(read)
    }

    /// The quickest of several looks: whatever comes between two readings makes it longer, and is not taken for a difference
    /// of the clocks.
    fn by(mut read: impl FnMut(Source) -> u64) -> Sample {
        let mut round = || {
            let before = read(Source::Tsc);
            let first_ns = read(Source::Monotonic);
            let real_ns = read(Source::Realtime);
            let last_ns = read(Source::Monotonic);
            let took = read(Source::Tsc).saturating_sub(before);
            let between_ns = last_ns.saturating_sub(first_ns);
            let sample = Sample {
                tsc: before + took / 2,
                mono_ns: first_ns + between_ns / 2,
                real_ns,
                error_ns: between_ns.div_ceil(2),
            };
            (took, sample)
        };
        let mut best = round();
        for _ in 1..ROUNDS {
            if best.0 < CLOSE_TICKS / 10 {
                break;
            }
            let other = round();
            if other.0 < best.0 {
                best = other;
            }
        }
        best.1
    }
}

/// Frequency of the TSC in Hz between two samples; 0 when they are too close.
#[must_use]
pub fn tsc_hz(first: &Sample, second: &Sample) -> u64 {
    let ns = second.mono_ns.saturating_sub(first.mono_ns);
    if ns < 100_000 {
        return 0;
    }
    let ticks = second.tsc.saturating_sub(first.tsc);
    (u128::from(ticks) * 1_000_000_000 / u128::from(ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn real_samples_agree_with_the_clocks() {
        let (a, b) = (Sample::now(), Sample::now());
        assert!(a.tsc < b.tsc && a.mono_ns <= b.mono_ns && a.real_ns > SECOND);
    }

    proptest! {
        /// REALTIME stepped back when the keeper had been interrupted after it had read it.
        #[test]
        fn a_sample_is_as_good_as_its_quickest_round(
            pauses in prop::collection::vec(prop_oneof![5u64..20, 1000..SECOND], ROUNDS * 5),
        ) {
            const AHEAD: u64 = 1 << 60;
            let (mut now_ns, mut reads) = (SECOND, 0);
            let sample = Sample::by(|source| {
                now_ns += pauses[reads];
                reads += 1;
                match source {
                    Source::Tsc => 2 * now_ns,
                    Source::Monotonic => now_ns,
                    Source::Realtime => now_ns + AHEAD,
                }
            });
            let rounds = pauses[..reads].chunks(5).map(|pauses| pauses[1..].iter().sum::<u64>());
            let quickest = rounds.min().expect("rounds");
            for ns in [sample.tsc / 2, sample.real_ns - AHEAD] {
                prop_assert!(ns.abs_diff(sample.mono_ns) <= quickest, "{sample:?}");
            }
            let real_ns = sample.real_ns - AHEAD;
            prop_assert!(real_ns.abs_diff(sample.mono_ns) <= sample.error_ns, "{sample:?}");
            prop_assert!(sample.error_ns <= quickest, "{sample:?}");
        }
    }
}
