//! Time: the clock page that the host keeps, and deadlines in TSC ticks made from it.

use hal::sync::Once;
use wire::boot::{PING_ROUNDS, flag};
use wire::clock::ClockParams;

use crate::comm;

/// The TSC's frequency in Hz.
static TSC_HZ: Once<u64> = Once::new();

/// Stores the frequency; writes the clock page when the node's clock is its own.
pub fn init(tsc_hz: u64) {
    TSC_HZ.set(tsc_hz).expect("clock set twice");
    let comm = comm::get();
    if comm.config.has(flag::OWN_CLOCK) {
        // ns = ticks * (10^9 / hz), with 32 fractional bits.
        let mult = (1_000_000_000u128 << 32) / u128::from(tsc_hz);
        let params = ClockParams {
            tsc_base: 0,
            mono_ns: 0,
            real_ns: OWN_EPOCH_NS,
            mult: mult as u64,
            shift: 32,
        };
        comm.clock().write(&params);
    }
}

/// What a node with its own clock takes for the time of boot: 2026-01-01 00:00 UTC. It has no other source, and runs are repeatable.
const OWN_EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Most time that the host gets to measure this node's TSC. A busy one may take long to run the keeper, without which no rank
/// could be started anyway.
const PING_NS: u64 = 10_000_000_000;

/// Shows the host this node's TSC, in a few quick rounds (see [`wire::boot::Header::ping`]); it then writes the clock page.
///
/// A host that has not answered by then takes the time at which it notices that the node is up.
pub fn show() {
    let comm = comm::get();
    if comm.config.has(flag::OWN_CLOCK) {
        return;
    }
    let header = comm.header();
    let limit = hal::time::tsc() + ticks(PING_NS);
    let mut seen_tsc = 0;
    // BOUND: before the first program.
    for round in 1..=PING_ROUNDS {
        header.pong_tsc.put(seen_tsc);
        header.ping_tsc.put(hal::time::tsc());
        header.ping.store(round);
        if round == 1 {
            hal::doorbell::ring(comm.config.ranks as u16); // From then on it watches.
        }
        // BOUND: PING_NS, before the first program.
        while header.pong.load() != round {
            if hal::time::tsc() > limit {
                return;
            }
            hal::cpu::pause();
        }
        seen_tsc = hal::time::tsc();
    }
    header.pong_tsc.put(seen_tsc);
    header.ping.store(PING_ROUNDS + 1);
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

/// The clock as it is now.
fn params() -> ClockParams {
    // BOUND: as long as the host writes some words.
    loop {
        if let Some(params) = comm::get().clock().read() {
            return params;
        }
        hal::cpu::pause();
    }
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME now, in ns.
pub fn now_ns() -> (u64, u64) {
    let p = params();
    let since = p.since_base_ns(hal::time::tsc());
    (p.mono_ns.wrapping_add(since), p.real_ns.wrapping_add(since))
}

/// CLOCK_MONOTONIC now, in ns.
pub fn monotonic_ns() -> u64 {
    now_ns().0
}
