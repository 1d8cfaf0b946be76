//! What a thread has of its debugger ([`crate::debug`]).

use core::sync::atomic::{AtomicBool, AtomicU8};

/// What a thread has of its debugger.
#[derive(Default)]
pub struct Debugged {
    /// It is to halt after one instruction.
    pub steps: AtomicBool,
    /// The debugger has sent it this signal, which need not be reported to it; 0: none.
    pub passes: AtomicU8,
    /// It begins a program that has replaced another.
    pub begins: AtomicBool,
}
