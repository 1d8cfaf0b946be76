//! What a thread has of its debugger ([`crate::debug`]).

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What a thread has of its debugger.
#[derive(Default)]
pub struct Debugged {
    /// It is to halt after one instruction.
    steps: AtomicBool,
    /// The debugger has sent it this signal, which need not be reported to it; 0: none.
    passes: AtomicU8,
    /// It begins a program that has replaced another.
    begins: AtomicBool,
}

impl Debugged {
    /// Whether it is to halt after one instruction.
    pub fn steps(&self) -> bool {
        self.steps.load(Ordering::Relaxed)
    }

    /// Has it halt after one instruction, or not. Returns what it was before.
    pub fn set_steps(&self, steps: bool) -> bool {
        self.steps.swap(steps, Ordering::Relaxed)
    }

    /// It begins a program that has replaced another: no step of the old one is due any more.
    pub fn begin_program(&self) {
        self.steps.store(false, Ordering::Relaxed);
        self.begins.store(true, Ordering::Relaxed);
    }

    /// Whether it has begun one since the last time.
    pub fn take_begins(&self) -> bool {
        self.begins.swap(false, Ordering::Relaxed)
    }

    /// The next signal of this number is the debugger's own: it is not reported to it.
    pub fn pass(&self, signo: u8) {
        self.passes.store(signo, Ordering::Relaxed);
    }

    /// Whether the signal that it takes is the debugger's own; the next of this number is not.
    pub fn take_passed(&self, signo: u8) -> bool {
        let passed = self.passes.load(Ordering::Relaxed) == signo;
        if passed {
            self.passes.store(0, Ordering::Relaxed);
        }
        passed
    }
}
