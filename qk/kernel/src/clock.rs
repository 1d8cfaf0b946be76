//! Time: deadlines in TSC ticks, made from the clock that the host keeps.

use hal::sync::Once;

use crate::host;

/// The TSC's frequency in Hz.
static TSC_HZ: Once<u64> = Once::new();

/// Stores the frequency.
pub fn init(tsc_hz: u64) {
    TSC_HZ.set(tsc_hz).expect("clock set twice");
    host::start_clock(tsc_hz);
}

/// A hundred years: the ticks of more might not fit a counter.
pub const FAR_NS: u64 = 3_155_760_000_000_000_000;

/// TSC ticks in `ns` nanoseconds, which are at most [`FAR_NS`].
pub fn ticks(ns: u64) -> u64 {
    let hz = TSC_HZ.get().copied().unwrap_or(1_000_000_000);
    (u128::from(ns) * u128::from(hz) / 1_000_000_000) as u64
}

/// Nanoseconds in so many TSC ticks.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    let hz = TSC_HZ.get().copied().unwrap_or(1_000_000_000);
    (u128::from(ticks) * 1_000_000_000 / u128::from(hz)) as u64
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME now, in ns.
pub fn now_ns() -> (u64, u64) {
    let p = host::clock_params();
    let since = p.since_base_ns(hal::time::tsc());
    (p.mono_ns.wrapping_add(since), p.real_ns.wrapping_add(since))
}

/// CLOCK_MONOTONIC now, in ns.
pub fn monotonic_ns() -> u64 {
    now_ns().0
}

/// The TSC value `ns` from now, or just after it; of what is very far, one that is never reached.
pub fn deadline_after(ns: u64) -> u64 {
    hal::time::tsc()
        .saturating_add(ticks(ns.min(FAR_NS)))
        .saturating_add(1)
}
