//! The segment bases of a program.

use abi::map::WINDOW_TOP;
use core::arch::asm;

/// A base that WRFSBASE takes: canonical, and here also in the lower half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCanonical;

/// Sets the running program's FS base.
///
/// # Errors
/// [`NotCanonical`] when `base` is not below 2^47.
pub fn set_fs_base(base: u64) -> Result<(), NotCanonical> {
    if base >= WINDOW_TOP {
        return Err(NotCanonical);
    }
    write_fs_base(base);
    Ok(())
}

/// The running program's FS base.
#[must_use]
pub fn fs_base() -> u64 {
    let base;
    // SAFETY: 1. CR4.FSGSBASE is set (checked at boot). 2. The kernel does not use FS.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Sets the running program's GS base.
///
/// # Errors
/// [`NotCanonical`] when `base` is not below 2^47.
pub fn set_gs_base(base: u64) -> Result<(), NotCanonical> {
    if base >= WINDOW_TOP {
        return Err(NotCanonical);
    }
    write_user_gs_base(base);
    Ok(())
}

/// The running program's GS base.
#[must_use]
pub fn gs_base() -> u64 {
    let base;
    // SAFETY: 1. Between the two swaps nothing uses GS: interrupts are off (rule 1), and the NMI entry restores what it finds.
    //         2. Two swaps leave the kernel's GS in place.
    unsafe {
        asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) base, options(nomem, nostack, preserves_flags))
    };
    base
}

/// `base` must be canonical.
pub(super) fn write_fs_base(base: u64) {
    // SAFETY: 1. CR4.FSGSBASE is set (checked at boot). 2. The value is canonical: checked, or read from the register before.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nomem, nostack, preserves_flags)) };
}

/// `base` must be canonical.
pub(super) fn write_user_gs_base(base: u64) {
    // SAFETY: 1. Between the two swaps nothing uses GS (rule 1; the NMI entry restores what it finds).
    //         2. The value is canonical: checked, or read from the register before.
    unsafe {
        asm!("swapgs", "wrgsbase {}", "swapgs", in(reg) base, options(nomem, nostack, preserves_flags))
    };
}
