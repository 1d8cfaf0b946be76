//! A rank's deadlines: a sleeping thread and the ITIMER_REAL clock. One-shot: the timer is armed only while there is one.

use qk_core::signals::{SigInfo, Signal, code};

use crate::rank::Rank;
use crate::{clock, sched, signal};

/// Deadlines in TSC ticks.
#[derive(Default)]
pub struct Timers {
    /// When a sleep ends.
    sleep: Option<u64>,
    /// When ITIMER_REAL expires next, and its interval in ns (0: once).
    real: Option<(u64, u64)>,
}

impl Timers {
    fn next(&self) -> Option<u64> {
        [self.sleep, self.real.map(|(at, _)| at)]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Arms or disarms this core's timer for the rank that runs here.
fn arm(timers: &Timers) {
    match timers.next() {
        Some(deadline) => hal::apic::timer_set(deadline),
        None => hal::apic::timer_off(),
    }
}

/// Sets or clears the end of a sleep.
pub fn set_sleep(rank: &Rank, deadline_tsc: Option<u64>) {
    let mut timers = rank.timers.lock();
    timers.sleep = deadline_tsc;
    arm(&timers);
}

/// Sets ITIMER_REAL to expire `after_ns` from now (0: never) and then every `interval_ns` (0: not again).
/// Returns what was left of the old one, and its interval, in ns.
pub fn set_real(rank: &Rank, after_ns: u64, interval_ns: u64) -> (u64, u64) {
    let mut timers = rank.timers.lock();
    let old = remaining(&timers);
    timers.real = (after_ns != 0).then(|| (deadline_after(after_ns), interval_ns));
    arm(&timers);
    old
}

/// What is left of ITIMER_REAL, and its interval, in ns; zero when it is off.
pub fn real(rank: &Rank) -> (u64, u64) {
    remaining(&rank.timers.lock())
}

fn remaining(timers: &Timers) -> (u64, u64) {
    match timers.real {
        // A running timer has at least a microsecond left, as Linux has it (kernel/time/itimer.c).
        Some((at, interval_ns)) => (
            clock::ticks_to_ns(at.saturating_sub(hal::time::tsc())).max(1000),
            interval_ns,
        ),
        None => (0, 0),
    }
}

/// The TSC value `ns` from now.
pub fn deadline_after(ns: u64) -> u64 {
    hal::time::tsc().saturating_add(clock::ticks(ns))
}

/// The timer interrupt on the core of `rank`.
pub fn expired(rank: &'static Rank) {
    let mut timers = rank.timers.lock();
    let now = hal::time::tsc();
    let due = |at: &u64| *at <= now;
    if timers.sleep.filter(due).is_some() {
        timers.sleep = None;
        sched::unpark(rank.id);
    }
    let alarm = timers.real.filter(|(at, _)| due(at));
    if let Some((at, interval_ns)) = alarm {
        // The next multiple of the interval: expirations that nobody could take are not made up for.
        let period = clock::ticks(interval_ns);
        timers.real = (period > 0).then(|| (at + ((now - at) / period + 1) * period, interval_ns));
    }
    arm(&timers);
    drop(timers);
    if alarm.is_some() {
        signal::send_process(rank, SigInfo::new(Signal::ALRM, code::KERNEL));
    }
}
