//! The time stamp counter and how fast it runs.

mod hpet;

use crate::boot::kept;
use crate::{apic, cokernel};
use core::sync::atomic::{AtomicU64, Ordering};
use raw_cpuid::CpuId;
use x86_64::instructions::port::Port;

/// The ACPI timer's frequency (ACPI 6.4 §4.8.2.1) and the width all have.
const PM_TIMER_HZ: u64 = 3_579_545;
const PM_TIMER_MASK: u64 = 0xff_ffff;
/// The PIT's input clock.
const PIT_HZ: u64 = 1_193_182;
const PIT_MASK: u64 = 0xffff;
/// Measuring time: 5 ms are 17,900 ticks of the ACPI timer, 60 ppm.
const MEASURE_HZ: u64 = 200;
/// Readings of a clock against the TSC, of which the quickest counts.
const LOOKS: usize = 8;
/// Before the frequency is known, delays assume a fast TSC and so err on the long side.
const FASTEST_TSC_HZ: u64 = 5_000_000_000;
/// Slower than any TSC: what seems to run so was measured by something that is no clock.
const SLOWEST_TSC_HZ: u64 = 100_000_000;
/// TSC ticks after which a clock that has not moved far stands: ten times 1 / [`MEASURE_HZ`] of the fastest.
const GIVE_UP_TICKS: u64 = 10 * FASTEST_TSC_HZ / MEASURE_HZ;

static TSC_HZ: AtomicU64 = AtomicU64::new(0);

/// The time stamp counter.
#[inline]
#[must_use]
pub fn tsc() -> u64 {
    // SAFETY: 1. RDTSC only reads.
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

/// Determines the TSC's frequency, what Linux has beside a co-kernel, `known_tsc_hz`, or from CPUID or by measuring (5 ms), and the APIC timer's (100 µs). Once, on
/// the boot CPU, before the timer is used. A machine without any clock to measure by goes on with a guess, and the log says so.
pub fn init(known_tsc_hz: Option<u64>) {
    let hz = cokernel::tsc_hz()
        .or(known_tsc_hz)
        .or_else(from_cpuid)
        .or_else(measure)
        .unwrap_or_else(guess);
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

/// The base frequency of the processor, at which the TSC runs but for some ten ppm (CPUID 0x16), else the fastest that there are: then
/// times are too short and waits too long.
fn guess() -> u64 {
    let base_mhz = CpuId::new()
        .get_processor_frequency_info()
        .map_or(0, |info| info.processor_base_frequency());
    let hz = match base_mhz {
        0 => FASTEST_TSC_HZ,
        mhz => u64::from(mhz) * 1_000_000,
    };
    log::warn!(
        "no clock to measure the TSC by (no CPUID leaf, ACPI timer, HPET or PIT that runs): taken to have {hz} Hz"
    );
    hz
}

/// Measures against the ACPI timer, else the HPET, else the PIT, whichever there is and runs.
fn measure() -> Option<u64> {
    let facts = kept::acpi();
    let by_pm_timer = || wait_pm_timer(facts.pm_timer_port?);
    let by_hpet = || hpet::wait(facts.hpet?);
    let by_pit = || facts.legacy.pc.then(wait_pit).flatten();
    by_pm_timer().or_else(by_hpet).or_else(by_pit)
}

/// TSC ticks per second, when it has made `tsc_ticks` while a clock of `clock_hz` has made `clock_ticks`. `None`: no TSC runs so, so
/// that it is no clock.
fn rate(tsc_ticks: u64, clock_ticks: u64, clock_hz: u64) -> Option<u64> {
    let hz = u128::from(tsc_ticks) * u128::from(clock_hz) / u128::from(clock_ticks.max(1));
    let hz = u64::try_from(hz).ok()?;
    (SLOWEST_TSC_HZ..=2 * FASTEST_TSC_HZ)
        .contains(&hz)
        .then_some(hz)
}

/// Waits for about 1 / [`MEASURE_HZ`] by a clock of `clock_hz` that `read` shows the bits `mask` of. `None`: it stands.
fn wait_counter(mut read: impl FnMut() -> u64, mask: u64, clock_hz: u64) -> Option<u64> {
    let mut now = || with_tsc(&mut read);
    let (first, start) = now();
    // BOUND: at boot, for as long as it measures.
    loop {
        let (last, end) = now();
        let passed = last.wrapping_sub(first) & mask;
        if passed >= clock_hz / MEASURE_HZ {
            return rate(end - start, passed, clock_hz);
        }
        if end - start > GIVE_UP_TICKS {
            return None;
        }
        core::hint::spin_loop();
    }
}

fn wait_pm_timer(port: u16) -> Option<u64> {
    let mut timer = Port::<u32>::new(port);
    // SAFETY: 1. The firmware names this port as the timer. 2. Reading it has no side effect.
    let read = || unsafe { timer.read() }.into();
    wait_counter(read, PM_TIMER_MASK, PM_TIMER_HZ)
}

/// The same with PIT channel 2, whose gate is at port 0x61: it counts down, over and over.
fn wait_pit() -> Option<u64> {
    let (mut gate, mut command, mut data) = (
        Port::<u8>::new(0x61),
        Port::<u8>::new(0x43),
        Port::<u8>::new(0x42),
    );
    // SAFETY: 1. The machine is a PC. PIT channel 2 drives the PC speaker, which is kept off; nothing else uses these ports.
    unsafe {
        let old = gate.read();
        gate.write(old & !2 | 1);
        // Channel 2, both bytes, mode 0, from the largest count.
        command.write(0xb0);
        data.write(0xff);
        data.write(0xff);
        let counter = || {
            // Latch channel 2.
            command.write(0x80);
            u64::from(!u16::from_le_bytes([data.read(), data.read()]))
        };
        let hz = wait_counter(counter, PIT_MASK, PIT_HZ);
        gate.write(old);
        hz
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
