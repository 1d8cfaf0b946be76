//! How fast a CPU runs: what Linux leaves it with is the slowest, for a CPU that it has taken offline (drivers/cpufreq/intel_pstate.c,
//! `intel_pstate_hwp_offline`).
//!
//! Hardware-controlled performance states (Intel SDM vol. 3 §15.4), where they are in use already: switching them on cannot be undone.

use super::{features::cpuid, local};
use core::sync::atomic::Ordering;
use x86_64::registers::model_specific::Msr;

const PM_ENABLE: u32 = 0x770;
const HWP_CAPABILITIES: u32 = 0x771;
const HWP_REQUEST: u32 = 0x774;
/// IA32_SPEC_CTRL: Linux may have left it so that less is speculated. What a program could learn by that is of its own node: no other memory
/// is mapped.
const SPEC_CTRL: u32 = 0x48;

/// IA32_HWP_REQUEST for always the fastest, of what IA32_HWP_CAPABILITIES says: minimum and maximum (bits 7..0, 15..8) are the
/// highest performance (bits 7..0); no other wish, all for performance.
const fn fastest(capabilities: u64) -> u64 {
    let highest = capabilities & 0xff;
    highest | highest << 8
}

const _: () = assert!(fastest(0x0108_1a2f) == 0x2f2f);

/// What a CPU's speed was set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    /// The least performance that was asked for, of 255; 0: performance states are not hardware's.
    pub performance: u64,
    /// IA32_SPEC_CTRL as it was; it is 0 now.
    pub lifted: u64,
}

/// Of this CPU.
pub fn speed() -> Speed {
    let [performance, lifted] = &local::local().speed;
    Speed {
        performance: performance.load(Ordering::Relaxed),
        lifted: lifted.load(Ordering::Relaxed),
    }
}

/// Has this CPU run as fast as it can.
pub(super) fn set() {
    let id = cpuid();
    let has_hwp = id
        .get_thermal_power_info()
        .is_some_and(|info| info.has_hwp());
    let has_spec_ctrl = core::arch::x86_64::__cpuid(0).eax >= 7
        && core::arch::x86_64::__cpuid_count(7, 0).edx >> 26 & 1 != 0;
    let [performance, lifted] = &local::local().speed;
    // SAFETY: 1. CPUID has the registers. 2. They say how fast this CPU runs, and nothing of what it does.
    unsafe {
        if has_hwp && Msr::new(PM_ENABLE).read() & 1 != 0 {
            let request = fastest(Msr::new(HWP_CAPABILITIES).read());
            Msr::new(HWP_REQUEST).write(request);
            performance.store(request & 0xff, Ordering::Relaxed);
        }
        if has_spec_ctrl {
            lifted.store(Msr::new(SPEC_CTRL).read(), Ordering::Relaxed);
            Msr::new(SPEC_CTRL).write(0);
        }
    }
}
