//! The clock against hosts whose readings are late, early and interrupted.

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

proptest! {
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
