//! The debug registers (Intel SDM vol. 3 §17.2).

use super::local::local;
use abi::map::USER_TOP;
use core::sync::atomic::Ordering;
use x86_64::registers::debug::{DebugAddressRegister, Dr0, Dr1, Dr2, Dr3, Dr6, Dr7, Dr7Value};

/// Of DR7: the four registers enabled for one task, and what each waits for.
const TAKEN_OF_DR7: u64 = 0xffff_0055;
/// RFLAGS.TF.
pub const TRAP_FLAG: u64 = 1 << 8;

/// Sets what this CPU watches: DR0 to DR3 and DR7. Addresses that are no program's are not watched.
pub fn set_watches(registers: [u64; 5]) {
    let [mut addresses @ .., control] = registers;
    let mut control = control & TAKEN_OF_DR7;
    // BOUND: four registers.
    for (i, addr) in addresses.iter_mut().enumerate() {
        if *addr >= USER_TOP {
            *addr = 0;
            control &= !(1 << (2 * i));
        }
    }
    Dr7::write(Dr7Value::from_bits_truncate(0));
    Dr0::write(addresses[0]);
    Dr1::write(addresses[1]);
    Dr2::write(addresses[2]);
    Dr3::write(addresses[3]);
    Dr7::write(Dr7Value::from_bits_truncate(control));
}

/// DR6 of the debug exception that is being handled, which is clear for the next one then.
pub fn take_status() -> u64 {
    let status = Dr6::read().bits();
    clear_status();
    status
}

/// What debug exceptions in ring 0, of a kernel that used a program's memory, have said in DR6 since the last call.
pub fn take_hits() -> u64 {
    local().debug_hits.swap(0, Ordering::Relaxed)
}

/// A debug exception in ring 0.
pub(crate) fn note_hit() {
    local()
        .debug_hits
        .fetch_or(take_status(), Ordering::Relaxed);
}

fn clear_status() {
    // SAFETY: 1. Writing DR6 changes only what the next debug exception says.
    unsafe {
        core::arch::asm!("mov dr6, {}", in(reg) 0u64, options(nomem, nostack, preserves_flags))
    };
}
