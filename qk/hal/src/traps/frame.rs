//! The registers of an interrupted program.

use crate::cpu::{USER_CS, USER_SS};
use abi::map::{DIRECT_MAP, WINDOW_TOP};

/// Flags a program may have in a frame (AMD APM vol. 2 §3.1.6): CF PF AF ZF SF TF DF OF NT RF AC ID; not IOPL, VM, VIF, VIP.
const USER_RFLAGS: u64 = 0x25_4dd5;
/// Always set: reserved bit 1 and IF.
const FORCED_RFLAGS: u64 = 0x202;

/// All general registers, in the order they lie in memory: the kernel's part, then what the CPU pushes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)] // Registers.
pub struct UserFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The system call's number, or the vector of a trap or interrupt.
    pub orig_rax_or_vector: u64,
    /// The exception's error code, else 0.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Bytes of a frame; the assembly relies on it.
pub(crate) const FRAME_BYTES: usize = size_of::<UserFrame>();
const _: () = assert!(FRAME_BYTES == 176 && FRAME_BYTES.is_multiple_of(16));

/// An exception in ring 3.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// 0..=31.
    pub vector: u8,
    /// The CPU's error code, else 0.
    pub error: u64,
    /// The address of a page fault, else 0.
    pub cr2: u64,
}

impl UserFrame {
    /// A program about to start: all registers zero but these.
    pub(crate) fn start(entry: u64, stack: u64) -> Self {
        let mut frame = Self {
            rip: entry,
            rsp: stack,
            ..Self::default()
        };
        frame.force_user_mode();
        frame
    }

    pub(crate) fn vector(&self) -> u8 {
        self.orig_rax_or_vector as u8
    }

    /// A program's segments: what a signal handler runs with, whatever it interrupted.
    pub fn set_user_segments(&mut self) {
        self.cs = USER_CS.into();
        self.ss = USER_SS.into();
    }

    /// Selectors and flags as ring 3 must have them.
    fn force_user_mode(&mut self) {
        self.set_user_segments();
        self.force_user_flags();
    }

    /// Flags as ring 3 must have them.
    pub(crate) fn force_user_flags(&mut self) {
        self.rflags = self.rflags & USER_RFLAGS | FORCED_RFLAGS;
    }

    /// The error code of the general protection fault that IRETQ to this frame would raise, or make the kernel's own: for
    /// selectors other than a program's, or an address that is not canonical (Intel SDM vol. 2, IRET). `None`: it returns.
    ///
    /// A canonical address in the upper half is fine: fetching from there is a page fault, in ring 3.
    pub(crate) fn return_fault(&self) -> Option<u64> {
        /// The selector without its privilege level.
        const SELECTOR: u64 = 0xfffc;
        if self.cs != u64::from(USER_CS) {
            Some(self.cs & SELECTOR)
        } else if self.ss != u64::from(USER_SS) {
            Some(self.ss & SELECTOR)
        } else {
            (WINDOW_TOP..DIRECT_MAP).contains(&self.rip).then_some(0)
        }
    }
}
