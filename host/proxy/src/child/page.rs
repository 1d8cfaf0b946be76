//! A child's last page of ours: the instructions that take everything else of this process away and enter the program, and
//! the signal frame that says where.
//!
//! ```text
//!    0   zeros: a clock page that was never written (the vDSO makes system calls instead)
//!   64   code: munmap (its registers are set), prctl(PR_SET_DUMPABLE), rt_sigreturn
//!  128   struct rt_sigframe (arch/x86/include/asm/sigframe.h)
//!  576   FPU state
//! ```

use std::arch::x86_64::__cpuid_count;

use abi::map::PAGE;
use wire::child::Child;

/// Bytes of the page.
pub const BYTES: usize = PAGE as usize;
/// Where the code is.
pub const CODE: u64 = 64;
/// Where the stack pointer has to be for rt_sigreturn: behind the first word of the frame, which a handler's `ret` takes.
pub const STACK: u64 = FRAME as u64 + 8;

const FRAME: usize = 128;
const FPU: usize = 576;

// Words of the frame: pretcode, uc_flags, uc_link, uc_stack (3), sigcontext (32), uc_sigmask, siginfo (16).
const UC_FLAGS: usize = 1;
const UC_STACK: usize = 3;
const CONTEXT: usize = 6;
const SELECTORS: usize = 24;
const FPU_POINTER: usize = 29;
const MASK: usize = 38;
const WORDS: usize = 39 + 16;
const _: () = assert!(FRAME + WORDS * 8 <= FPU && FPU.is_multiple_of(64));

/// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS (arch/x86/include/uapi/asm/ucontext.h).
const ALL_UC_FLAGS: u64 = 7;
/// __USER_CS in the lowest 16 bits, __USER_DS as ss in the highest (arch/x86/include/asm/segment.h).
const USER_SELECTORS: u64 = 0x33 | 0x2b << 48;

/// struct _fpx_sw_bytes in the legacy region, and its magic numbers (arch/x86/include/uapi/asm/sigcontext.h).
const SW_BYTES: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Words of the header: which states are there, and in which format (Intel SDM vol. 1 §13.4.2).
const XSTATE_BV: usize = 64;
const XCOMP_BV: usize = 65;
const HEADER_END: usize = 72;

/// States that lie alike on all CPUs, with the bytes of an image that ends with them: x87 and SSE, AVX.
const STATES: [(u64, usize); 2] = [(0x3, 576), (0x7, 832)];
const _: () = assert!(FPU + STATES[1].1 + 4 <= BYTES && STATES[1].1 <= wire::child::FPU_WORDS * 8);

/// The page for a child that is to be dumpable or not, at address `at`.
pub fn make(at: u64, child: &Child, dumpable: bool) -> Box<[u8; BYTES]> {
    let mut page = Box::new([0; BYTES]);
    #[rustfmt::skip]
    let code = [
        0x0f, 0x05,                           // syscall
        0xb8, libc::SYS_prctl as u8, 0, 0, 0, // mov eax, SYS_prctl
        0xbf, libc::PR_SET_DUMPABLE as u8, 0, 0, 0, // mov edi, PR_SET_DUMPABLE
        0xbe, u8::from(dumpable), 0, 0, 0,    // mov esi, dumpable
        0x31, 0xd2,                           // xor edx, edx
        0x45, 0x31, 0xd2,                     // xor r10d, r10d
        0x45, 0x31, 0xc0,                     // xor r8d, r8d
        0x0f, 0x05,                           // syscall
        0xb8, libc::SYS_rt_sigreturn as u8, 0, 0, 0, // mov eax, SYS_rt_sigreturn
        0x0f, 0x05,                           // syscall
        0x0f, 0x0b,                           // ud2
    ];
    page[CODE as usize..][..code.len()].copy_from_slice(&code);
    put_words(&mut page[FRAME..], &frame(at, child));
    put_fpu(&mut page[FPU..], child);
    page
}

fn put_words(to: &mut [u8], words: &[u64]) {
    for (to, word) in to.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
}

fn frame(at: u64, child: &Child) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[UC_FLAGS] = ALL_UC_FLAGS;
    for (to, from) in words[UC_STACK..].iter_mut().zip(&child.altstack) {
        *to = from.peek();
    }
    for (to, from) in words[CONTEXT..].iter_mut().zip(&child.registers) {
        *to = from.peek();
    }
    words[SELECTORS] = USER_SELECTORS;
    words[FPU_POINTER] = at + FPU as u64;
    words[MASK] = child.mask.peek();
    words
}

/// The states that both CPUs have.
fn put_fpu(to: &mut [u8], child: &Child) {
    // CPUID leaf 0xd, EBX: bytes of an image of what this CPU's XCR0 enables. A CPU without the leaf has no more than SSE.
    let here = __cpuid_count(0xd, 0).ebx as usize;
    let there = (child.fpu_words.peek() as usize).min(child.fpu.len()) * 8;
    let fits = |(_, bytes): &&(u64, usize)| *bytes <= here.min(there);
    let (states, bytes) = STATES.iter().rev().find(fits).copied().unwrap_or(STATES[0]);
    let mut words: Vec<u64> = child.fpu[..bytes / 8]
        .iter()
        .map(|word| word.peek())
        .collect();
    words[XSTATE_BV] &= states;
    words[XCOMP_BV..HEADER_END].fill(0);
    put_words(to, &words);
    let stamp = [MAGIC1, bytes as u32 + 4, states as u32, 0, bytes as u32, 0];
    let stamp = stamp.map(u32::to_ne_bytes);
    to[SW_BYTES..][..24].copy_from_slice(stamp.as_flattened());
    to[bytes..][..4].copy_from_slice(&MAGIC2.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies in the page does not overlap, and all of it is as Linux reads it.
    #[test]
    fn a_page_has_a_clock_that_was_never_written_and_a_whole_frame() {
        let child = Child::default();
        child.registers[16].put(0x1234); // rip
        child.mask.put(0x77);
        child.fpu_words.put(wire::child::FPU_WORDS as u64);
        let page = make(0x10_0000, &child, true);
        assert!(page[..64].iter().all(|byte| *byte == 0));
        let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap());
        assert_eq!(word(FRAME + 8 * (CONTEXT + 16)), 0x1234);
        assert_eq!(word(FRAME + 8 * MASK), 0x77);
        assert_eq!(word(FRAME + 8 * FPU_POINTER), 0x10_0000 + FPU as u64);
        assert_eq!(word(FPU + SW_BYTES) as u32, MAGIC1);
        let bytes = word(FPU + SW_BYTES + 16) as u32 as usize;
        assert!(STATES.iter().any(|(_, known)| *known == bytes));
        assert_eq!(word(FPU + bytes) as u32, MAGIC2);
    }
}
