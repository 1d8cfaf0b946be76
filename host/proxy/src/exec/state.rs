//! What is to replace the rank's program.

use std::sync::Mutex;

use crate::program::Program;
use crate::sync::lock;

/// The program that was prepared, if one was.
#[derive(Debug, Default)]
pub struct Exec {
    prepared: Mutex<Option<Program>>,
}

impl Exec {
    /// No program is prepared, or another.
    pub fn prepare(&self, program: Option<Program>) {
        *lock(&self.prepared) = program;
    }

    /// The program, which is now the rank's.
    pub fn take(&self) -> Option<Program> {
        lock(&self.prepared).take()
    }
}
