//! The timer of each core: one-shot, and set only while something is due.

use core::sync::atomic::{AtomicU64, Ordering};

use wire::boot::MAX_CPUS;

/// The TSC value of a timer that is off.
pub const NEVER: u64 = u64::MAX;

/// What the hardware of each core is set to (TSC), or [`NEVER`]; 0 before [`init`], so that they take no room in the kernel's file.
static SET: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// All timers are off.
pub fn init(cpus: usize) {
    // BOUND: the cores.
    for core in &SET[..cpus] {
        core.store(NEVER, Ordering::Relaxed);
    }
}

/// What this core's timer is set to (TSC), or [`NEVER`].
#[inline]
pub fn due() -> u64 {
    SET[hal::cpu::id()].load(Ordering::Relaxed)
}

/// Sets this core's timer to `due`.
pub fn set(due: u64) {
    if SET[hal::cpu::id()].swap(due, Ordering::Relaxed) == due {
        return;
    }
    match due {
        NEVER => hal::apic::timer_off(),
        due => hal::apic::timer_set(due),
    }
}

/// This core's timer has expired: it is off.
pub fn expired() {
    SET[hal::cpu::id()].store(NEVER, Ordering::Relaxed);
}
