//! The files of guest RAM, as yod hands them over.

use std::os::fd::OwnedFd;

use wire::ram::{Place, Ram};

/// The files of guest RAM.
#[derive(Debug)]
pub struct RamFiles {
    /// All but the end.
    pub ram: OwnedFd,
    /// The end, with the node pool.
    pub pool: OwnedFd,
    /// What lies where in them.
    pub layout: Ram,
}

impl RamFiles {
    /// The file that has all of `gpa .. gpa + len_bytes`, and where in it.
    pub fn place(&self, gpa: u64, len_bytes: u64) -> Option<(&OwnedFd, u64)> {
        match self.layout.place(gpa, len_bytes)? {
            Place::Ram(offset) => Some((&self.ram, offset)),
            Place::Pool(offset) => Some((&self.pool, offset)),
        }
    }
}
