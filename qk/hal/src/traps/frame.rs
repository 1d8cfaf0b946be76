//! The registers of an interrupted program, and by which instruction it goes on.
//!
//! A system call returns by SYSRET, which raises its general protection fault in ring 0 when rip is not canonical (Intel SDM vol. 2,
//! SYSRET), and loads any flags. So a frame says by itself how it is returned to, and its rip and its flags change through
//! [`UserFrame::set_rip`] and [`UserFrame::set_rflags`] only:
//!
//! 1. With `full` clear, rip is what SYSCALL stored or lies below USER_TOP.
//! 2. The flags are some that ring 3 may have.
//!
//! Both hold for every value of the type: there is no other way to make one than to copy one.

use crate::cpu::gdt::{USER_CS, USER_SS};
use abi::map::{DIRECT_MAP, USER_TOP, WINDOW_TOP};
use core::ops::{Deref, DerefMut};

/// Flags a program may have in a frame (AMD APM vol. 2 §3.1.6): CF PF AF ZF SF TF DF OF NT RF AC ID; not IOPL, VM, VIF, VIP.
const USER_RFLAGS: u64 = 0x25_4dd5;
/// Always set: reserved bit 1 and IF.
const FORCED_RFLAGS: u64 = 0x202;

/// The general registers but for rsp, in the order they lie in memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)] // Registers.
pub struct General {
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
}

/// All registers of a program: the kernel's part, then what the CPU pushes, then how to return.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UserFrame {
    general: General,
    /// The system call's number, or the vector of a trap or interrupt.
    pub orig_rax_or_vector: u64,
    /// The exception's error code, else 0.
    pub error: u64,
    rip: u64,
    /// The code selector. Others than a program's make the return a fault of the program.
    pub cs: u64,
    rflags: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The stack selector, as [`UserFrame::cs`].
    pub ss: u64,
    /// Not 0: every register is restored, by IRETQ. The word that the entry of a system call looks at (traps::entry).
    full: u64,
}

/// What an exception or interrupt pushes in ring 0: as a [`UserFrame`], but for the last word.
#[repr(C)]
pub(crate) struct KernelFrame {
    general: General,
    vector: u64,
    pub error: u64,
    pub rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Bytes of a frame without its last word; the assembly relies on it.
pub(crate) const FRAME_BYTES: usize = size_of::<KernelFrame>();
const _: () = assert!(FRAME_BYTES == 176 && FRAME_BYTES.is_multiple_of(16));
const _: () = assert!(core::mem::offset_of!(UserFrame, full) == FRAME_BYTES);

/// Registers for a panic report.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Registers.
pub struct Registers {
    pub general: General,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
}

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

impl Deref for UserFrame {
    type Target = General;

    #[inline]
    fn deref(&self) -> &General {
        &self.general
    }
}

impl DerefMut for UserFrame {
    #[inline]
    fn deref_mut(&mut self) -> &mut General {
        &mut self.general
    }
}

impl UserFrame {
    /// A program about to start: all registers zero but these.
    pub(crate) fn start(entry: u64, stack: u64) -> Self {
        Self {
            general: General::default(),
            orig_rax_or_vector: 0,
            error: 0,
            rip: entry,
            cs: USER_CS.into(),
            rflags: FORCED_RFLAGS,
            rsp: stack,
            ss: USER_SS.into(),
            full: 1,
        }
    }

    /// Where the program goes on.
    #[inline]
    #[must_use]
    pub const fn rip(&self) -> u64 {
        self.rip
    }

    /// Lets the program go on at `rip`, which may be any number: what SYSRET might not take is returned to by IRETQ, and what
    /// that does not take either is a general protection fault of the program.
    #[inline]
    pub const fn set_rip(&mut self, rip: u64) {
        self.rip = rip;
        if rip >= USER_TOP {
            self.full = 1;
        }
    }

    /// The flags.
    #[inline]
    #[must_use]
    pub const fn rflags(&self) -> u64 {
        self.rflags
    }

    /// Sets those flags that a program may have.
    #[inline]
    pub const fn set_rflags(&mut self, rflags: u64) {
        self.rflags = rflags & USER_RFLAGS | FORCED_RFLAGS;
    }

    /// Lets a system call return with every register as it is here. Else those that a call leaves alone keep what they had, and
    /// rcx and r11 get what SYSCALL left there. Returns from traps and interrupts restore everything anyway.
    #[inline]
    pub const fn return_fully(&mut self) {
        self.full = 1;
    }

    /// The frame is one of a trap or interrupt: whatever CPUs store as rip, it is not for SYSRET.
    pub(super) const fn entered_by_trap(&mut self) {
        self.full = 1;
    }

    /// The frame is being returned to: the word is clear for the next entry.
    pub(super) const fn leaves(&mut self) {
        self.full = 0;
    }

    pub(crate) const fn vector(&self) -> u8 {
        self.orig_rax_or_vector as u8
    }

    /// A program's segments: what a signal handler runs with, whatever it interrupted.
    #[inline]
    pub fn set_user_segments(&mut self) {
        self.cs = USER_CS.into();
        self.ss = USER_SS.into();
    }

    /// For a panic report.
    pub(crate) const fn registers(&self) -> Registers {
        Registers {
            general: self.general,
            rip: self.rip,
            rflags: self.rflags,
            rsp: self.rsp,
        }
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

impl KernelFrame {
    pub(crate) const fn vector(&self) -> u8 {
        self.vector as u8
    }

    /// For a panic report.
    pub(crate) const fn registers(&self) -> Registers {
        Registers {
            general: self.general,
            rip: self.rip,
            rflags: self.rflags,
            rsp: self.rsp,
        }
    }
}
