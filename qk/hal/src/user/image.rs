//! The FPU's image in a signal frame, in the program's memory.

use super::{Fault, check};
use crate::addr::User;
use core::arch::asm;

/// What lies in a signal frame besides the states of an XSAVE image (arch/x86/include/uapi/asm/sigcontext.h): the first three words
/// of `struct _fpx_sw_bytes`.
pub(crate) type FrameStamp = [u64; 3];

/// Their offset, in bytes that the hardware ignores; behind those follows the header (Intel SDM vol. 1 §13.4.2).
const STAMP: usize = 464;

const HEADER: usize = 512;

/// MXCSR's offset in the legacy region (§10.5.1).
pub(crate) const MXCSR: usize = 24;

const HEADER_BYTES: usize = 64;

/// XSAVE (Intel SDM vol. 1 §13.7) of `states` to a multiple of 64, into a header that was cleared, and marks `present` as present.
/// Then the stamp, which ends with the image's size in bytes, and `end` behind the image.
///
/// # Errors
/// [`Fault`] when it is not writable.
pub(crate) fn xsave(
    to: User,
    states: u64,
    present: u32,
    stamp: FrameStamp,
    end: u32,
) -> Result<(), Fault> {
    /// The words of the stamp that stay zero, and the header.
    const CLEARED: usize = STAMP + size_of::<FrameStamp>();
    const CLEARED_WORDS: usize = (HEADER + HEADER_BYTES - CLEARED) / 8;
    let mut failed = 1u64;
    // SAFETY: 1. The address is a `User`'s, so no instruction can reach the kernel half (module docs).
    //         2. A fault continues at 4 with `failed` still 1 (rule 4). 3. DF is clear in the kernel.
    unsafe {
        asm!(
            open!(),
            "2: rep stosq",
            "mov eax, {states:e}",
            "3: xsave64 [{to}]",
            "5: or qword ptr [{to} + {header}], {present}",
            "6: mov [{to} + {stamp}], {first}",
            "7: mov [{to} + {stamp} + 8], {second}",
            "8: mov [{to} + {stamp} + 16], {size}",
            "9: mov [{to} + {size}], {end:e}",
            "xor {failed:e}, {failed:e}",
            "4:",
            close!(),
            fixup!("2", "4"),
            fixup!("3", "4"),
            fixup!("5", "4"),
            fixup!("6", "4"),
            fixup!("7", "4"),
            fixup!("8", "4"),
            fixup!("9", "4"),
            to = in(reg) to.addr(),
            states = in(reg) states as u32,
            present = in(reg) u64::from(present),
            first = in(reg) stamp[0],
            second = in(reg) stamp[1],
            size = in(reg) stamp[2],
            end = in(reg) end,
            header = const HEADER,
            stamp = const STAMP,
            failed = inout(reg) failed,
            inout("rcx") CLEARED_WORDS => _,
            inout("rdi") to.at(CLEARED as u64).addr() => _,
            inout("rax") 0u64 => _,
            in("edx") (states >> 32) as u32,
            options(nostack),
        );
    }
    check(failed)
}

/// The stamp and the MXCSR of an image in a signal frame, whatever they are.
///
/// # Errors
/// [`Fault`] when they are not readable.
pub(crate) fn read_stamp(from: User) -> Result<(FrameStamp, u32), Fault> {
    let mut failed = 1u64;
    let (mxcsr, first, second, third): (u32, u64, u64, u64);
    // SAFETY: 1. The address is a `User`'s, so no instruction can reach the kernel half (module docs).
    //         2. A fault continues at 4 with `failed` still 1: then what the other registers hold is not used.
    unsafe {
        asm!(
            open!(),
            "2: mov {mxcsr:e}, [{from} + {mxcsr_at}]",
            "3: mov {first}, [{from} + {stamp}]",
            "5: mov {second}, [{from} + {stamp} + 8]",
            "6: mov {third}, [{from} + {stamp} + 16]",
            "xor {failed:e}, {failed:e}",
            "4:",
            close!(),
            fixup!("2", "4"),
            fixup!("3", "4"),
            fixup!("5", "4"),
            fixup!("6", "4"),
            from = in(reg) from.addr(),
            mxcsr_at = const MXCSR,
            stamp = const STAMP,
            mxcsr = out(reg) mxcsr,
            first = out(reg) first,
            second = out(reg) second,
            third = out(reg) third,
            failed = inout(reg) failed,
            options(nostack),
        );
    }
    check(failed).map(|()| ([first, second, third], mxcsr))
}

/// XRSTOR (§13.8) of `states`.
///
/// # Errors
/// [`Fault`] when the image is not readable, not aligned, or not valid; some registers may have been loaded by then.
pub(crate) fn xrstor(from: User, states: u64) -> Result<(), Fault> {
    check(guarded!(
        "xrstor64 [{from}]",
        from = in(reg) from.addr(),
        in("eax") states as u32,
        in("edx") (states >> 32) as u32,
    ))
}

/// FXRSTOR (§10.5.2).
///
/// # Errors
/// As [`xrstor`].
pub(crate) fn fxrstor(from: User) -> Result<(), Fault> {
    check(guarded!("fxrstor64 [{from}]", from = in(reg) from.addr(),))
}
