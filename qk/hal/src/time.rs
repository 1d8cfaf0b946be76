//! The time stamp counter and how fast it runs.

use crate::{apic, boot};
use core::sync::atomic::{AtomicU64, Ordering};
use raw_cpuid::CpuId;
use x86_64::instructions::port::Port;

/// The ACPI timer's frequency (ACPI 6.4 §4.8.2.1) and the width all have.
const PM_TIMER_HZ: u64 = 3_579_545;
const PM_TIMER_MASK: u32 = 0xff_ffff;
/// The PIT's input clock.
const PIT_HZ: u64 = 1_193_182;
/// Measuring time: 5 ms are 17,900 ticks of the ACPI timer, 60 ppm.
const MEASURE_HZ: u64 = 200;
/// Readings of a clock against the TSC, of which the quickest counts.
const LOOKS: usize = 8;
/// Before the frequency is known, delays assume a fast TSC and so err on the long side.
const FASTEST_TSC_HZ: u64 = 5_000_000_000;

static TSC_HZ: AtomicU64 = AtomicU64::new(0);

/// The time stamp counter.
#[inline]
#[must_use]
pub fn tsc() -> u64 {
    // SAFETY: RDTSC only reads.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// TSC ticks per second; 0 before [`init`].
#[must_use]
pub fn tsc_hz() -> u64 {
    TSC_HZ.load(Ordering::Relaxed)
}

/// What `clock` reads, and the TSC just after that: of several readings the quickest. A host that stops this CPU between the two
/// would else be taken for a difference of the clocks, by which all later deadlines were too late; what the quickest takes cancels.
pub(crate) fn with_tsc<T>(mut clock: impl FnMut() -> T) -> (T, u64) {
    let mut look = || {
        let before = tsc();
        let (read, after) = (clock(), tsc());
        (after - before, read, after)
    };
    let mut best = look();
    // BOUND: LOOKS.
    for _ in 1..LOOKS {
        let other = look();
        if other.0 < best.0 {
            best = other;
        }
    }
    (best.1, best.2)
}

/// Determines the TSC's frequency, `known_tsc_hz` or from CPUID or by measuring (5 ms), and the APIC timer's (100 µs). Once, on
/// the boot CPU, before the timer is used.
pub fn init(known_tsc_hz: Option<u64>) {
    let hz = known_tsc_hz.or_else(from_cpuid).unwrap_or_else(measure);
    TSC_HZ.store(hz, Ordering::Relaxed);
    apic::calibrate_timer(hz);
}

/// CPUID 0x15 (crystal and ratio) or the hypervisors' leaf 0x40000010 (kHz).
fn from_cpuid() -> Option<u64> {
    let id = CpuId::new();
    let leaf15 = id.get_tsc_info().and_then(|tsc| tsc.tsc_frequency());
    let hypervisor = || {
        id.get_hypervisor_info()
            .and_then(|h| h.tsc_frequency())
            .map(|khz| u64::from(khz) * 1000)
    };
    leaf15.or_else(hypervisor).filter(|&hz| hz != 0)
}

/// Measures against the ACPI timer, or the PIT where there is none.
fn measure() -> u64 {
    let (ticks, clock_hz) = match boot::acpi().pm_timer_port {
        Some(port) => (wait_pm_timer(port), PM_TIMER_HZ),
        None => (wait_pit(), PIT_HZ),
    };
    let (tsc_ticks, clock_ticks) = ticks;
    tsc_ticks * clock_hz / clock_ticks.max(1)
}

/// Waits for about 1 / [`MEASURE_HZ`]; returns TSC ticks and ACPI timer ticks.
fn wait_pm_timer(port: u16) -> (u64, u64) {
    let mut timer = Port::<u32>::new(port);
    // SAFETY: The firmware names this port as the timer; reading it has no side effect.
    let mut now = || with_tsc(|| unsafe { timer.read() });
    let (first, start) = now();
    // BOUND: at boot, for as long as it measures.
    loop {
        let (last, end) = now();
        let passed = u64::from(last.wrapping_sub(first) & PM_TIMER_MASK);
        if passed >= PM_TIMER_HZ / MEASURE_HZ {
            return (end - start, passed);
        }
        core::hint::spin_loop();
    }
}

/// The same with PIT channel 2, whose gate and output are at port 0x61.
fn wait_pit() -> (u64, u64) {
    const TICKS: u64 = PIT_HZ / MEASURE_HZ;
    let (mut gate, mut command, mut data) = (
        Port::<u8>::new(0x61),
        Port::<u8>::new(0x43),
        Port::<u8>::new(0x42),
    );
    // SAFETY: PIT channel 2 drives the PC speaker, which is kept off; nothing else uses these ports.
    unsafe {
        let old = gate.read();
        gate.write(old & !2 | 1);
        // Channel 2, both bytes, mode 0: the output goes high when the count ends.
        command.write(0xb0);
        data.write(TICKS as u8);
        data.write((TICKS >> 8) as u8);
        let start = tsc();
        // BOUND: at boot, for as long as it measures.
        while gate.read() & 0x20 == 0 {
            core::hint::spin_loop();
        }
        let end = tsc();
        gate.write(old);
        (end - start, TICKS)
    }
}

/// Waits at least `us` microseconds, until `done` says so.
pub(crate) fn spin_until(us: u64, mut done: impl FnMut() -> bool) -> bool {
    let hz = match tsc_hz() {
        0 => FASTEST_TSC_HZ,
        hz => hz,
    };
    let end = tsc() + hz / 1_000_000 * us;
    // BOUND: at boot, for as long as callers say.
    while !done() {
        if tsc() >= end {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}
