//! The frame that a signal handler finds on its stack, and the return from it.
//!
//! Layout: struct rt_sigframe of arch/x86/include/asm/sigframe.h; its parts are in arch/x86/include/uapi/asm/sigcontext.h and
//! include/uapi/asm-generic/ucontext.h. All offsets below are in 64-bit words from the frame's start.

use core::mem::MaybeUninit;

use abi::Errno;
use hal::addr::Va;
use hal::traps::UserFrame;
use qk_core::signals::{Action, AltStack, MINSIGSTKSZ, SigInfo, SigSet, Signal, code, sa};

use crate::signal;
use crate::thread::{Own, Thread};
use crate::user::user;

/// pretcode, uc_flags, uc_link, uc_stack (3), sigcontext (32), uc_sigmask.
const HEAD_WORDS: usize = 39;
/// siginfo_t follows, of 128 bytes.
const FRAME_WORDS: usize = HEAD_WORDS + 16;
const FRAME_BYTES: u64 = FRAME_WORDS as u64 * 8;
/// Where uc_flags is: what the handler's third argument points to.
const UCONTEXT: u64 = 8;
/// UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS.
const UC_FLAGS: u64 = 7;
/// RFLAGS: TF, DF, RF are clear in a handler (System V ABI §3.2.1; Linux: handle_signal).
const HANDLER_CLEARS: u64 = 1 << 8 | 1 << 10 | 1 << 16;
/// RFLAGS that a return takes from the frame: CF PF AF ZF SF TF DF OF RF AC (Linux: FIX_EFLAGS).
const RETURNED_FLAGS: u64 = 0x5_0dd5;
/// UC_STRICT_RESTORE_SS: the selector of SS counts, even a wrong one.
const STRICT_RESTORE_SS: u64 = 4;
/// First words of sigcontext and uc_sigmask; the word in sigcontext that points to the FPU image.
const CONTEXT: usize = 6;
const MASK: usize = 38;
const FPU: usize = 23;
/// Alignment of the XSAVE image (Intel SDM vol. 1 §13.4).
const FPU_ALIGN: u64 = 64;

/// Bytes of stack that a frame takes at most: AT_MINSIGSTKSZ.
pub fn min_stack_bytes() -> u64 {
    hal::task::fpu_state_size() as u64 + FRAME_BYTES + FPU_ALIGN + 16 + 8
}

/// Makes `frame` enter the handler of `action`, with everything it interrupted saved on the stack.
///
/// # Errors
/// EFAULT when the stack has no room; `frame` is as it was.
#[inline(always)] // Of every delivery, in one place of each of its two forms.
pub fn push(
    this: &Thread,
    frame: &mut UserFrame,
    info: &SigInfo,
    action: &Action,
    restore: SigSet,
) -> Result<(), Errno> {
    let mut guard = this.signals();
    let Own { thread, trap } = &mut *guard;
    let onstack = action.flags & sa::ONSTACK != 0;
    let sp = Va(frame.rsp);
    let top = thread.altstack.frame_top(sp, onstack).0;
    let fpu_bytes = hal::task::fpu_state_size() as u64;
    let fpu = top.wrapping_sub(fpu_bytes) & !(FPU_ALIGN - 1);
    // The handler is entered as if called: its return address at a multiple of 16 less 8.
    let at = (fpu.wrapping_sub(FRAME_BYTES) & !15).wrapping_sub(8);
    if thread.altstack.overflows(sp, Va(at), onstack) || action.flags & sa::RESTORER == 0 {
        return Err(Errno::EFAULT);
    }
    let stack = thread.altstack.report(sp);
    let stack = [stack.base.0, u64::from(stack.flags), stack.size_bytes];
    let trap = [trap.error, u64::from(trap.vector), restore.0, trap.cr2];
    // By itself, and no second time: the thread's signals are locked.
    let words = words(frame, info, action.restorer, stack, trap, fpu);
    hal::user::copy_out_words(user(at, FRAME_BYTES)?, &words).map_err(|_| Errno::EFAULT)?;
    hal::task::save_fpu_to_user(user(fpu, fpu_bytes)?).map_err(|_| Errno::EFAULT)?;
    // A handler starts with the FPU of a fresh program (Linux: fpu__clear_user_states).
    hal::task::reset_fpu();
    thread.altstack.enter_handler();
    frame.set_rip(action.handler);
    frame.rsp = at;
    frame.rdi = u64::from(info.signal.number());
    frame.rsi = at + HEAD_WORDS as u64 * 8;
    frame.rdx = at + UCONTEXT;
    frame.rax = 0;
    frame.set_rflags(frame.rflags() & !HANDLER_CLEARS);
    frame.set_user_segments();
    Ok(())
}

/// struct rt_sigframe, written out: an array that is filled piece by piece is stored twice, and this is most of a delivery.
fn words(
    f: &UserFrame,
    info: &SigInfo,
    restorer: u64,
    [stack_base, stack_flags, stack_bytes]: [u64; 3],
    [error, vector, old_mask, cr2]: [u64; 4],
    fpu: u64,
) -> [u64; FRAME_WORDS] {
    let selectors = f.cs & 0xffff | (f.ss & 0xffff) << 48;
    let [signo, code, a, b, c, d] = info.to_words();
    #[rustfmt::skip] // By structures: head, sigcontext, its reserved words, uc_sigmask, siginfo.
    let words = [
        restorer, UC_FLAGS, 0, stack_base, stack_flags, stack_bytes,
        f.r8, f.r9, f.r10, f.r11, f.r12, f.r13, f.r14, f.r15, f.rdi, f.rsi, f.rbp, f.rbx, f.rdx,
        f.rax, f.rcx, f.rsp, f.rip(), f.rflags(), selectors, error, vector, old_mask, cr2, fpu,
        0, 0, 0, 0, 0, 0, 0, 0,
        old_mask,
        signo, code, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    words
}

/// Registers from a struct sigcontext_64, with the flags and selectors that it may set.
fn load(f: &mut UserFrame, words: &[u64; MASK - CONTEXT], uc_flags: u64) {
    let [
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rdi,
        rsi,
        rbp,
        rbx,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        rflags,
        selectors,
        ..,
    ] = words;
    (f.r8, f.r9, f.r10, f.r11) = (*r8, *r9, *r10, *r11);
    (f.r12, f.r13, f.r14, f.r15) = (*r12, *r13, *r14, *r15);
    (f.rdi, f.rsi, f.rbp, f.rbx) = (*rdi, *rsi, *rbp, *rbx);
    (f.rdx, f.rax, f.rcx) = (*rdx, *rax, *rcx);
    f.rsp = *rsp;
    f.set_rip(*rip);
    f.set_rflags(f.rflags() & !RETURNED_FLAGS | rflags & RETURNED_FLAGS);
    let (cs, ss) = (selectors & 0xffff | 3, selectors >> 48 | 3);
    f.set_user_segments();
    f.cs = cs;
    if uc_flags & STRICT_RESTORE_SS != 0 {
        f.ss = ss;
    }
}

/// rt_sigreturn: restores what [`push`] saved, or what the handler made of it, the mask, registers, FPU state, alternate stack. A frame that ring 3 cannot have faults when it is returned to, as on Linux.
///
/// # Errors
/// EFAULT when the frame or its FPU state cannot be taken: the caller forces SIGSEGV.
pub fn pop(this: &'static Thread, frame: &mut UserFrame) -> Result<(), Errno> {
    // The handler's `ret` took the first word.
    let at = frame.rsp.wrapping_sub(8);
    let mut head = MaybeUninit::<[u64; HEAD_WORDS]>::uninit();
    let from = user(at, HEAD_WORDS as u64 * 8)?;
    let head = hal::user::read_words_to(&mut head, from).map_err(|_| Errno::EFAULT)?;
    let [_, uc_flags, _, base, flags, size_bytes, context @ .., mask] = head;
    let sp = Va(frame.rsp);
    load(frame, context, *uc_flags);
    let mask = SigSet(*mask);
    load_fpu(context[FPU]).inspect_err(|_| {
        signal::change_mask(this, |own| own.set_blocked(mask));
    })?;
    let stack = AltStack {
        base: Va(*base),
        flags: *flags as u32,
        size_bytes: *size_bytes,
    };
    signal::change_mask(this, |own| {
        own.set_blocked(mask);
        // Linux ignores a stack that cannot be restored (restore_altstack): one that is too small, and any while the handler is on one. Since
        // 6.12 it looks where the handler is before it looks at the context.
        let _ = own.altstack.set(stack, sp, MINSIGSTKSZ);
    });
    Ok(())
}

/// The FPU state at `at`, or that of a fresh program when there is none or a bad one.
fn load_fpu(at: u64) -> Result<(), Errno> {
    match user(at, hal::task::fpu_state_size() as u64) {
        Ok(image) if at != 0 => hal::task::load_fpu_from_user(image).map_err(|_| Errno::EFAULT),
        image => {
            hal::task::reset_fpu();
            image.map(|_| ())
        }
    }
}

/// The signal for a bad frame.
pub fn bad_frame() -> SigInfo {
    SigInfo::new(Signal::SEGV, code::KERNEL)
}
