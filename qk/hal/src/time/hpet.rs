//! The high precision event timer, for machines whose ACPI has no timer (IA-PC HPET specification 1.0a §2.3): its counter only.

use super::wait_counter;
use crate::addr::{Phys, PhysRange};
use crate::boot::paging;
use crate::firmware::acpi::HPET_BYTES;

/// The lower or upper halves of registers, for some HPETs take no other accesses: period in femtoseconds, configuration, counter.
const PERIOD: u64 = 4;
const CONFIGURATION: u64 = 0x10;
const COUNTER: u64 = 0xf0;
/// The counter runs.
const ENABLE: u32 = 1;
/// The longest period there may be.
const MAX_PERIOD_FS: u64 = 100_000_000;
const FS_PER_S: u64 = 1_000_000_000_000_000;

/// TSC ticks per second, measured by the HPET at `base`. `None`: it has no sensible period, or stands.
pub(super) fn wait(base: Phys) -> Option<u64> {
    if !paging::map_device(PhysRange::new(base, HPET_BYTES)) {
        return None;
    }
    let register = |offset: u64| (base.direct() + offset) as *mut u32;
    // SAFETY: 1. The firmware names these registers, outside of RAM; `map_device` shows them.
    //         2. Reading has no side effects; a running counter interrupts no CPU, since no timer of the HPET is set.
    let (read, enable) = (
        |offset| unsafe { register(offset).read_volatile() },
        |value| unsafe { register(CONFIGURATION).write_volatile(value) },
    );
    let period_fs = u64::from(read(PERIOD));
    if period_fs == 0 || period_fs > MAX_PERIOD_FS {
        return None;
    }
    let before = read(CONFIGURATION);
    enable(before | ENABLE);
    let counter = || read(COUNTER).into();
    let hz = wait_counter(counter, u32::MAX.into(), FS_PER_S / period_fs);
    enable(before);
    hz
}
