//! The program that the rank runs, and the one that is to replace it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::exec::state::Exec;
use crate::program::Program;
use crate::sync::lock;

/// The program.
#[derive(Debug)]
pub struct Running {
    program: Mutex<Arc<Program>>,
    /// Where its strings are; 0 before it is loaded.
    strings_at: AtomicU64,
    next: Exec,
}

impl Running {
    /// A program that is not loaded yet.
    pub fn new(program: Program) -> Running {
        Running {
            program: Mutex::new(Arc::new(program)),
            strings_at: AtomicU64::new(0),
            next: Exec::default(),
        }
    }

    /// The program.
    pub fn program(&self) -> Arc<Program> {
        lock(&self.program).clone()
    }

    /// Address of its strings; 0 before it is loaded.
    pub fn strings_at(&self) -> u64 {
        self.strings_at.load(Ordering::Relaxed)
    }

    /// Its strings have been written there.
    pub fn set_strings_at(&self, addr: u64) {
        self.strings_at.store(addr, Ordering::Relaxed);
    }

    /// The program that execve has prepared.
    pub fn next(&self) -> &Exec {
        &self.next
    }

    /// Another program is the rank's, and not loaded yet.
    pub fn replace(&self, program: Program) {
        self.set_strings_at(0);
        *lock(&self.program) = Arc::new(program);
    }
}
