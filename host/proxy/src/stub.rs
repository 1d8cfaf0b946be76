//! The system call instruction.

use std::arch::asm;

/// Makes a Linux system call.
///
/// # Safety
/// What Linux does with the arguments must be sound: no memory of this process may be written, unmapped or replaced that
/// safe code relies on.
pub unsafe fn syscall(nr: u64, args: &[u64; 6]) -> i64 {
    let ret: i64;
    let [a, b, c, d, e, f] = *args;
    // SAFETY: 1. `syscall` clobbers rcx and r11 besides rax. 2. The effect of the call is the caller's promise; memory is
    // assumed to change (no `nomem`).
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr => ret,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    ret
}
