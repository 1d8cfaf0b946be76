//! What is gathered for a core file, and what became of it.

use std::sync::Mutex;

use crate::sync::lock;

/// What is gathered for a core file, and what became of it.
#[derive(Default, Debug)]
pub struct Dump {
    left_out: Mutex<Vec<(u64, u64)>>,
    report: Mutex<String>,
}

impl Dump {
    /// Leaves this memory out, as the program requested; ranges come in the order of their addresses.
    pub fn leave_out(&self, start: u64, end: u64) {
        lock(&self.left_out).push((start, end));
    }

    /// What is left out.
    pub fn left_out(&self) -> Vec<(u64, u64)> {
        lock(&self.left_out).clone()
    }

    /// Sets the line for the user, without the program's name.
    pub fn report(&self, line: String) {
        *lock(&self.report) = line;
    }

    /// That line; empty: there is nothing to report.
    pub fn line(&self) -> String {
        lock(&self.report).clone()
    }
}
