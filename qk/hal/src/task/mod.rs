//! Tasks as the CPU sees them: a kernel stack, the FPU state, the segment bases and an address space.
//!
//! A [`Context`] is running on at most one CPU; its `running` flag is the lock on everything in it. [`switch`] takes the flag of the context it
//! enters and drops the flag of the one it leaves only after it is off that stack, so another CPU that is faster than
//! the switch waits for those few instructions and cannot run on a stack in use.

mod context;
mod fpu;
mod fpu_error;
pub(crate) mod kstack;

pub use context::{Arrived, Context, adopt, switch};
pub use fpu::{fpu_state_size, load_fpu_from_user, reset_fpu, save_fpu_to_user, with_fpu_image};
pub use fpu_error::{fpu_error_code, mxcsr};
pub use kstack::KSTACK_BYTES;
pub(crate) use kstack::StackTop;

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
    // SAFETY: CR4.FSGSBASE is set (checked at boot); the kernel does not use FS.
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
    // SAFETY: 1. Between the two swaps nothing uses GS: interrupts are off, and the NMI entry restores what it finds.
    //         2. Two swaps leave the kernel's GS in place.
    unsafe {
        asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) base, options(nomem, nostack, preserves_flags))
    };
    base
}

/// `base` must be canonical.
fn write_fs_base(base: u64) {
    // SAFETY: As in `fs_base`; the value is canonical: checked, or read from the register before.
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nomem, nostack, preserves_flags)) };
}

/// `base` must be canonical.
fn write_user_gs_base(base: u64) {
    // SAFETY: As in `gs_base`; the value is canonical: checked, or read from the register before.
    unsafe {
        asm!("swapgs", "wrgsbase {}", "swapgs", in(reg) base, options(nomem, nostack, preserves_flags))
    };
}
