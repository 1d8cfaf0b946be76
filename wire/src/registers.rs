//! The registers of a thread that has halted ([`abi::halt`]).

use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// General registers and segments: struct user_regs_struct (arch/x86/include/asm/user_64.h), the order of core files and of
/// ptrace(2): r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es
/// fs gs.
pub const GENERAL: usize = 27;

/// Room for the FPU state: x87 to PKRU take 2696 bytes (Intel SDM vol. 1 §13.5).
pub const FPU_BYTES: usize = 4096;

/// The registers in shared memory: the writing side publishes them by a request or an answer of the thread's ship slot.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Registers {
    /// See [`GENERAL`].
    pub general: [Word; GENERAL],
    /// State components that the node keeps (XCR0).
    pub states: Word,
    fpu_bytes: Word,
    fpu: [Word; FPU_BYTES / 8],
}

impl Default for Registers {
    fn default() -> Self {
        Registers {
            general: Default::default(),
            states: Word::default(),
            fpu_bytes: Word::default(),
            fpu: core::array::from_fn(|_| Word::default()),
        }
    }
}

impl Registers {
    /// Writes an FPU state as XSAVE lays it out in the standard format, cut to what fits.
    pub fn put_fpu(&self, image: &[u8]) {
        let (words, _) = image.as_chunks();
        let words = words.iter().take(self.fpu.len());
        self.fpu_bytes.put(words.len() as u64 * 8);
        for (to, from) in self.fpu.iter().zip(words) {
            to.put(u64::from_le_bytes(*from));
        }
    }

    /// Copies the FPU state; returns its length in bytes.
    pub fn get_fpu(&self, out: &mut [u8; FPU_BYTES]) -> usize {
        let (words, _) = out.as_chunks_mut();
        for (to, from) in words.iter_mut().zip(&self.fpu) {
            *to = from.peek().to_le_bytes();
        }
        self.fpu_bytes.peek().min(FPU_BYTES as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_fpu_state_is_copied_as_far_as_there_is_room() {
        let registers = Registers::default();
        let mut out = [0; FPU_BYTES];
        assert_eq!(registers.get_fpu(&mut out), 0);
        registers.put_fpu(&[7; 832]);
        assert_eq!(registers.get_fpu(&mut out), 832);
        assert!(out[..832].iter().all(|byte| *byte == 7) && out[832] == 0);
        registers.put_fpu(&[9; FPU_BYTES + 64]);
        assert_eq!(registers.get_fpu(&mut out), FPU_BYTES);
        registers.fpu_bytes.put(u64::MAX);
        assert_eq!(registers.get_fpu(&mut out), FPU_BYTES);
    }
}
