//! Which floating-point exception it was.

use core::arch::asm;

/// The vector of an x87 exception (#MF); the other one is SIMD (#XM).
const X87: u8 = 16;

/// si_code of the running program's pending floating-point exception (include/uapi/asm-generic/siginfo.h, FPE_*), for
/// vector 16 (x87) or 19 (SIMD). The unmasked exception that comes first in Linux's order counts (arch/x86/kernel/fpu/core.c,
/// fpu__exception_code); 0 when there is none.
#[must_use]
pub fn fpu_error_code(vector: u8) -> i32 {
    let raised = if vector == X87 {
        x87_exceptions()
    } else {
        simd_exceptions()
    };
    /// Status bits in Linux's order, with FPE_FLTINV, FLTDIV, FLTOVF, FLTUND (underflow or denormal), FLTRES.
    const ORDER: [(u32, i32); 5] = [(0x01, 7), (0x04, 3), (0x08, 4), (0x12, 5), (0x20, 6)];
    // BOUND: five.
    ORDER
        .iter()
        .find(|(bits, _)| raised & bits != 0)
        .map_or(0, |(_, code)| *code)
}

/// Status and control word: exceptions in bits 0..=5, masks at the same bits (Intel SDM vol. 1 §8.1.3, §8.1.5).
fn x87_exceptions() -> u32 {
    let (mut status, mut control) = (0u16, 0u16);
    // SAFETY: 1. Both instructions only store a word, to a local.
    //         2. FNSTSW and FNSTCW do not check for pending exceptions.
    unsafe {
        asm!("fnstsw [{}]", "fnstcw [{}]", in(reg) &mut status, in(reg) &mut control, options(nostack, preserves_flags));
    }
    u32::from(status & !control) & 0x3f
}

/// MXCSR: exceptions in bits 0..=5, masks in bits 7..=12 (Intel SDM vol. 1 §10.2.3).
fn simd_exceptions() -> u32 {
    let mxcsr = mxcsr();
    mxcsr & !(mxcsr >> 7) & 0x3f
}

/// The running program's MXCSR.
#[must_use]
pub fn mxcsr() -> u32 {
    let mut mxcsr = 0u32;
    // SAFETY: 1. Stores a word to a local. 2. SSE is enabled on every x86-64 CPU (CR4.OSFXSR is set at boot).
    unsafe { asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack, preserves_flags)) };
    mxcsr
}
