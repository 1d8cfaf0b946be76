//! The clock page, which the host keeps: how it learns this node's TSC, and what it says of the time.

use hal::sync::Once;
use wire::boot::{PING_ROUNDS, flag};
use wire::clock::{ClockPage, ClockParams};

use super::area::{config, get};
use super::bell;

/// What a node with its own clock takes for the time of boot: 2026-01-01 00:00 UTC. It has no other source, and runs are repeatable.
const OWN_EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Most time that the host gets to measure this node's TSC, in seconds. A busy one may take long to run the keeper, without which no
/// rank could be started anyway.
const PING_S: u64 = 10;

/// A host that takes longer than such a part of a second to write the clock page does not do it as it should.
const WRITES_PER_S: u64 = 100;

/// The clock page, found once: the time is read often.
static PAGE: Once<&'static ClockPage> = Once::new();

/// Finds the clock page, and writes it when the node's clock is its own.
pub fn start(tsc_hz: u64) {
    let page = get().clock();
    assert!(PAGE.set(page).is_ok(), "the clock starts once");
    if !config().has(flag::OWN_CLOCK) {
        return;
    }
    // ns = ticks * (10^9 / hz), with 32 fractional bits.
    let mult = (1_000_000_000u128 << 32) / u128::from(tsc_hz);
    page.write(&ClockParams {
        tsc_base: 0,
        mono_ns: 0,
        real_ns: OWN_EPOCH_NS,
        mult: mult as u64,
        shift: 32,
    });
}

/// Shows the host this node's TSC, in a few quick rounds (see [`wire::boot::Header::ping`]); it then writes the clock page.
///
/// A host that has not answered by then takes the time at which it notices that the node is up.
pub fn show() {
    if config().has(flag::OWN_CLOCK) {
        return;
    }
    let header = get().header();
    let limit = hal::time::tsc() + PING_S * hal::time::tsc_hz();
    let mut seen_tsc = 0;
    // BOUND: before the first program.
    for round in 1..=PING_ROUNDS {
        header.pong_tsc.put(seen_tsc);
        header.ping_tsc.put(hal::time::tsc());
        header.ping.store(round);
        if round == 1 {
            bell::node(); // From then on it watches.
        }
        // BOUND: PING_S, before the first program.
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

/// The clock as it is now.
#[inline]
pub fn read() -> ClockParams {
    let page = PAGE.get().expect("started at boot");
    page.read().unwrap_or_else(|| read_again(page))
}

/// The host is writing the page, which takes it as long as it takes to write some words. One that never ends is not waited for:
/// its clock says what it likes.
#[cold]
#[inline(never)]
fn read_again(page: &ClockPage) -> ClockParams {
    let limit = hal::time::tsc() + hal::time::tsc_hz() / WRITES_PER_S;
    page.read_until(|| {
        hal::cpu::pause();
        hal::time::tsc() > limit
    })
}
