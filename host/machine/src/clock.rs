//! The node's clock: parameters that turn the guest's TSC into the host's CLOCK_MONOTONIC and CLOCK_REALTIME. Pure.
//!
//! The guest's TSC runs at the rate of the host's but from another origin, that of the machine's start. How far apart they
//! are is found while the kernel boots: it notes its TSC before and after a look of the keeper's at the host's, a few times
//! (`wire::boot::Header::ping`), and [`Offset`] takes what agrees with all of them. That is exact to about a microsecond.
//! When the keeper does not get to run in time, all that is known is that the node came up before it noticed: then guest clocks
//! are ahead of the host's by that much at most.
//!
//! From then on the clock is continuous: a refresh begins where the old parameters stand and sets the rate so that host
//! and node agree again at the next refresh. Only a lag that cannot be caught up with (the host slept) is jumped over,
//! forwards.
//!
//! How far CLOCK_REALTIME is from CLOCK_MONOTONIC changes only when the host's time is set, but two readings after one
//! another tell it no better than the time between them ([`Ahead`]).

use wire::clock::ClockParams;

use crate::sys;

/// Binary digits of the rate behind the point.
const SHIFT: u32 = 40;
/// A clock that lags by more jumps forwards.
const JUMP_NS: u64 = 20_000_000;
/// Most that a refresh changes the rate by, as a fraction: 1 / 2000, as adjtime(3) slews.
const SLEW_FRACTION: u64 = 2000;
/// A sample that took longer than this was disturbed, in TSC ticks.
const CLOSE_TICKS: u64 = 20_000;
/// Most looks for a sample.
const LOOKS: usize = 8;

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
        let mut look = || {
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
        let mut best = look();
        for _ in 1..LOOKS {
            if best.0 < CLOSE_TICKS / 10 {
                break;
            }
            let other = look();
            if other.0 < best.0 {
                best = other;
            }
        }
        best.1
    }
}

/// Frequency of the TSC in Hz between two samples; 0 when they are too close to tell.
#[must_use]
pub fn tsc_hz(first: &Sample, second: &Sample) -> u64 {
    let ns = second.mono_ns.saturating_sub(first.mono_ns);
    if ns < 100_000 {
        return 0;
    }
    let ticks = second.tsc.saturating_sub(first.tsc);
    (u128::from(ticks) * 1_000_000_000 / u128::from(ns)) as u64
}

/// Guest TSC minus host TSC, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset {
    least: Option<i64>,
    most: Option<i64>,
}

impl Offset {
    /// The guest's TSC was `guest_tsc` before the host's was `host_tsc`.
    pub fn guest_first(&mut self, guest_tsc: u64, host_tsc: u64) {
        let least = guest_tsc.wrapping_sub(host_tsc) as i64;
        self.least = Some(self.least.map_or(least, |known| known.max(least)));
    }

    /// The host's TSC was `host_tsc` before the guest's was `guest_tsc`.
    pub fn host_first(&mut self, host_tsc: u64, guest_tsc: u64) {
        let most = guest_tsc.wrapping_sub(host_tsc) as i64;
        self.most = Some(self.most.map_or(most, |known| known.min(most)));
    }

    /// The best guess, if there was any look at both; as a wrapping difference.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        let ticks = match (self.least, self.most) {
            (Some(least), Some(most)) => least.midpoint(most),
            (one, other) => one.or(other)?,
        };
        Some(ticks as u64)
    }
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC in ns: what all samples allow. The node shows the least, which only grows until the host's
/// time is set, so that its CLOCK_REALTIME does not step back.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    least: i64,
    most: i64,
}

impl Ahead {
    fn of(sample: &Sample) -> Ahead {
        /// Linux rounds both readings.
        const ROUNDED_NS: i64 = 1;
        let ahead = sample.real_ns.wrapping_sub(sample.mono_ns) as i64;
        let error = i64::try_from(sample.error_ns)
            .unwrap_or(i64::MAX)
            .saturating_add(ROUNDED_NS);
        Ahead {
            least: ahead.saturating_sub(error),
            most: ahead.saturating_add(error),
        }
    }

    /// What is known with one more sample; from that alone if it contradicts.
    fn with(self, sample: &Sample) -> Ahead {
        let new = Ahead::of(sample);
        let (least, most) = (self.least.max(new.least), self.most.min(new.most));
        if least <= most {
            Ahead { least, most }
        } else {
            new
        }
    }

    const fn real_ns(self, mono_ns: u64) -> u64 {
        mono_ns.wrapping_add(self.least as u64)
    }
}

/// Keeps the parameters.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Guest TSC minus host TSC, wrapping.
    offset: u64,
    last: Sample,
    ahead: Ahead,
    params: ClockParams,
}

impl Clock {
    /// Starts the clock of a guest whose TSC is the host's plus `offset` (wrapping). `first` and `now` give the rate;
    /// `None` when they are too close.
    #[must_use]
    pub fn start(offset: u64, first: &Sample, now: &Sample) -> Option<Clock> {
        let mult = rate(
            now.mono_ns.checked_sub(first.mono_ns)?,
            now.tsc.checked_sub(first.tsc)?,
        )?;
        let ahead = Ahead::of(first).with(now);
        let params = ClockParams {
            tsc_base: now.tsc.wrapping_add(offset),
            mono_ns: now.mono_ns,
            real_ns: ahead.real_ns(now.mono_ns),
            mult,
            shift: SHIFT,
        };
        Some(Clock {
            offset,
            last: *now,
            ahead,
            params,
        })
    }

    /// What to publish.
    #[must_use]
    pub const fn params(&self) -> &ClockParams {
        &self.params
    }

    /// Goes on from `now`; the next refresh is due in `interval_ns`.
    pub fn refresh(&mut self, now: &Sample, interval_ns: u64) {
        let (Some(host_ns), Some(ticks)) = (
            now.mono_ns.checked_sub(self.last.mono_ns),
            now.tsc.checked_sub(self.last.tsc),
        ) else {
            return; // Clocks of the host went backwards: better keep going as we do.
        };
        let Some(true_rate) = rate(host_ns, ticks) else {
            return;
        };
        let tsc = now.tsc.wrapping_add(self.offset);
        let shown_ns = self.params.mono_ns + self.params.since_base_ns(tsc);
        let lag_ns = now.mono_ns.saturating_sub(shown_ns);
        let lead_ns = shown_ns.saturating_sub(now.mono_ns);
        let mono_ns = if lag_ns > JUMP_NS {
            now.mono_ns
        } else {
            shown_ns
        };
        let limit = true_rate / SLEW_FRACTION;
        let slew = |ns: u64| {
            let change = u128::from(true_rate) * u128::from(ns) / u128::from(interval_ns.max(1));
            change.min(u128::from(limit)) as u64
        };
        let mult = match (lag_ns, lead_ns) {
            (lag, _) if lag > JUMP_NS => true_rate,
            (lag, 0) => true_rate + slew(lag),
            (_, lead) => true_rate - slew(lead),
        };
        // The difference of the two clocks is the host's, so that setting the host's time sets the node's.
        self.ahead = self.ahead.with(now);
        self.params = ClockParams {
            tsc_base: tsc,
            mono_ns,
            real_ns: self.ahead.real_ns(mono_ns),
            mult,
            shift: SHIFT,
        };
        self.last = *now;
    }
}

/// ns per tick, times 2^SHIFT.
fn rate(ns: u64, ticks: u64) -> Option<u64> {
    let rate = (u128::from(ns) << SHIFT).checked_div(u128::from(ticks))?;
    u64::try_from(rate).ok().filter(|&rate| rate > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// A host with a TSC of 2 GHz.
    fn at(mono_ns: u64) -> Sample {
        Sample {
            tsc: 77 + 2 * mono_ns,
            mono_ns,
            real_ns: 1_000 * SECOND + mono_ns,
            error_ns: 0,
        }
    }

    fn shown(clock: &Clock, host_tsc: u64) -> u64 {
        let p = clock.params();
        p.mono_ns + p.since_base_ns(host_tsc.wrapping_add(clock.offset))
    }

    fn shown_real(clock: &Clock, host_tsc: u64) -> u64 {
        let p = clock.params();
        p.real_ns + p.since_base_ns(host_tsc.wrapping_add(clock.offset))
    }

    #[test]
    fn the_frequency_is_found() {
        assert_eq!(tsc_hz(&at(5), &at(1_000_005)), 2_000_000_000);
        assert_eq!(tsc_hz(&at(5), &at(5)), 0);
    }

    #[test]
    fn the_origin_of_the_guest_does_not_matter() {
        let offset = 10u64.wrapping_sub(at(2000).tsc);
        let clock = Clock::start(offset, &at(1000), &at(3000)).expect("a rate");
        assert_eq!(clock.params().tsc_base, 10 + 2 * 1000);
        assert_eq!(shown(&clock, at(SECOND).tsc), SECOND);
        assert!(Clock::start(10, &at(1000), &at(1000)).is_none());
    }

    #[test]
    fn an_offset_is_what_all_looks_allow() {
        let mut offset = Offset::default();
        assert_eq!(offset.get(), None);
        offset.guest_first(100, 1000);
        assert_eq!(offset.get(), Some(900u64.wrapping_neg()));
        offset.host_first(1000, 140);
        assert_eq!(offset.get(), Some(880u64.wrapping_neg()));
        offset.guest_first(90, 1000); // Adds nothing.
        offset.host_first(2000, 1104);
        assert_eq!(offset.get(), Some(898u64.wrapping_neg()));
    }

    #[test]
    fn a_wrong_rate_is_made_good() {
        // The first samples make the TSC 10 ppm slower than it is.
        let now = Sample {
            mono_ns: 1_000_010 + 100,
            ..at(1_000_100)
        };
        let mut clock = Clock::start(0, &at(100), &now).expect("a rate");
        for i in 1..5 {
            clock.refresh(&at(i * SECOND), SECOND);
        }
        let (shown, host) = (shown(&clock, at(5 * SECOND).tsc), 5 * SECOND);
        assert!(shown.abs_diff(host) < 100, "{shown}");
    }

    #[test]
    fn a_long_lag_is_jumped_over_and_the_wall_clock_follows_the_host() {
        let mut clock = Clock::start(0, &at(0), &at(SECOND)).expect("a rate");
        let slept = Sample {
            tsc: at(2 * SECOND).tsc,
            mono_ns: 100 * SECOND,
            real_ns: 5 * SECOND,
            error_ns: 0,
        };
        clock.refresh(&slept, SECOND);
        assert_eq!(
            (clock.params().mono_ns, clock.params().real_ns),
            (100 * SECOND, 5 * SECOND - 1)
        );
    }

    #[test]
    fn real_samples_agree_with_the_clocks() {
        let (a, b) = (Sample::now(), Sample::now());
        assert!(a.tsc < b.tsc && a.mono_ns <= b.mono_ns && a.real_ns > SECOND);
    }

    proptest! {
        /// REALTIME stepped back when the keeper had been interrupted after it had read it.
        #[test]
        fn a_sample_is_as_good_as_its_quickest_look(
            pauses in prop::collection::vec(prop_oneof![5u64..20, 1000..SECOND], LOOKS * 5),
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
            let looks = pauses[..reads].chunks(5).map(|pauses| pauses[1..].iter().sum::<u64>());
            let quickest = looks.min().expect("looks");
            for ns in [sample.tsc / 2, sample.real_ns - AHEAD] {
                prop_assert!(ns.abs_diff(sample.mono_ns) <= quickest, "{sample:?}");
            }
            let real_ns = sample.real_ns - AHEAD;
            prop_assert!(real_ns.abs_diff(sample.mono_ns) <= sample.error_ns, "{sample:?}");
            prop_assert!(sample.error_ns <= quickest, "{sample:?}");
        }

        #[test]
        fn an_offset_is_as_good_as_the_quickest_round(
            offset: u64,
            start in 0..SECOND,
            rounds in prop::collection::vec((0..SECOND, 0..SECOND, 0..SECOND), 1..9),
        ) {
            let (mut found, mut host_tsc, mut quickest) = (Offset::default(), start, u64::MAX);
            for (sent, seen, pause) in rounds {
                let sent_tsc = host_tsc.wrapping_add(offset);
                host_tsc += sent;
                found.guest_first(sent_tsc, host_tsc);
                found.host_first(host_tsc, (host_tsc + seen).wrapping_add(offset));
                host_tsc += seen + pause;
                quickest = quickest.min(sent + seen);
            }
            let error = found.get().expect("looks").wrapping_sub(offset) as i64;
            prop_assert!(error.unsigned_abs() <= quickest / 2 + 1);
        }

        #[test]
        fn it_never_goes_backwards_and_stays_near(
            steps in prop::collection::vec((1u64..2 * SECOND, -200i64..200, 0u64..1_000_000, -1i64..=1), 1..40),
            offset: u64,
        ) {
            let mut now = at(SECOND);
            let mut clock = Clock::start(offset, &at(0), &now).expect("a rate");
            for (ns, ppm, error_ns, side) in steps {
                let ticks = 2 * (ns as i64 + ns as i64 / 1_000_000 * ppm) as u64;
                let (tsc, mono_ns) = (now.tsc + ticks, now.mono_ns + ns);
                // CLOCK_REALTIME was read that much too early or late.
                let real_ns = at(mono_ns).real_ns.wrapping_add_signed(side * error_ns as i64);
                now = Sample { tsc, mono_ns, real_ns, error_ns };
                let (before, before_real) = (shown(&clock, now.tsc), shown_real(&clock, now.tsc));
                clock.refresh(&now, SECOND);
                let (after, after_real) = (shown(&clock, now.tsc), shown_real(&clock, now.tsc));
                prop_assert!(after >= before);
                prop_assert!(after.abs_diff(now.mono_ns) < 5_000_000, "{} {}", after, now.mono_ns);
                prop_assert!(after_real >= before_real, "{before_real} {after_real}");
                prop_assert!((after_real - after).abs_diff(1_000 * SECOND) <= 1);
            }
        }

        /// The first samples may be bad ones: the wall clock is behind, comes near, and never steps back.
        #[test]
        fn the_wall_clock_comes_near_from_behind(
            samples in prop::collection::vec((0u64..1_000_000, -100i64..=100), 2..40),
        ) {
            const AHEAD: u64 = 1_000 * SECOND;
            let mut times = samples.iter().zip(1..).map(|(&(error_ns, percent), second)| {
                let sample = at(second * SECOND);
                let early = error_ns as i64 * percent / 100;
                Sample { real_ns: sample.real_ns.wrapping_add_signed(early), error_ns, ..sample }
            });
            let (first, second) = (times.next().expect("one"), times.next().expect("two"));
            let mut clock = Clock::start(0, &first, &second).expect("a rate");
            let mut best = first.error_ns.min(second.error_ns);
            for now in times {
                let before = shown_real(&clock, now.tsc);
                clock.refresh(&now, SECOND);
                let after = shown_real(&clock, now.tsc);
                best = best.min(now.error_ns);
                prop_assert!(after >= before, "{before} {after}");
                let behind = shown(&clock, now.tsc) + AHEAD - after;
                prop_assert!(behind <= 2 * best + 1, "{behind} of {best}");
            }
        }

        /// Setting the host's time sets the node's, also back.
        #[test]
        fn the_wall_clock_is_set_with_the_hosts(error_ns in 0..SECOND, set in -999i64..999) {
            let mut clock = Clock::start(0, &at(0), &at(SECOND)).expect("a rate");
            let now = at(2 * SECOND);
            let real_ns = now.real_ns.wrapping_add_signed(set * SECOND as i64);
            let now = Sample { real_ns, error_ns, ..now };
            clock.refresh(&now, SECOND);
            let shown = shown_real(&clock, now.tsc);
            prop_assert!(shown.abs_diff(real_ns) <= error_ns + 1, "{shown}");
        }
    }
}
