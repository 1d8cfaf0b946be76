//! RAM of a node as this host has it: two files, and the list that says what of them is where.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use wire::ram::{Place, Ram};

use crate::shared::Shared;

/// RAM, and the files behind it.
#[derive(Debug)]
pub struct Memory {
    /// What lies where.
    pub ram: Ram,
    /// All but the node pool.
    pub file: OwnedFd,
    /// The node pool. Children of ranks map what they share from it, and it has nothing else that they could reach.
    pub pool: OwnedFd,
}

impl Memory {
    /// The files, in the order in which they are handed over.
    #[must_use]
    pub fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.file.as_fd(), self.pool.as_fd()]
    }

    /// Maps guest-physical memory, none of it the pool's.
    ///
    /// # Errors
    /// It is not such memory in one piece; what mmap says.
    pub fn map(&self, gpa: u64, len_bytes: usize) -> io::Result<Shared> {
        match self.ram.place(gpa, len_bytes as u64) {
            Some(Place::Ram(offset)) => Shared::map(self.file.as_fd(), offset, len_bytes),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
