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

    /// The same files, for a thread of its own.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn try_clone(&self) -> io::Result<Memory> {
        Ok(Memory {
            ram: self.ram.clone(),
            file: self.file.try_clone()?,
            pool: self.pool.try_clone()?,
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use wire::ram::RamRange;

    /// The pool is of what ranks share: nothing that the host keeps lies there, whatever an address says.
    #[test]
    fn nothing_is_mapped_of_the_pool_or_across_a_border() {
        const MIB: u64 = 1 << 20;
        let range = |gpa, place| RamRange {
            gpa,
            len_bytes: MIB,
            place,
        };
        let parts = [
            range(0, Place::Ram(0)),
            range(4 * MIB, Place::Ram(MIB)),
            range(8 * MIB, Place::Pool(0)),
        ];
        let file = |bytes| {
            let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memfd");
            ftruncate(&file, bytes).expect("grows");
            file
        };
        let memory = Memory {
            ram: Ram::new(parts).expect("RAM"),
            file: file(2 * MIB),
            pool: file(MIB),
        };
        for (gpa, len_bytes, mapped) in [
            (0, MIB, true),
            (5 * MIB - 4096, 4096, true),
            (5 * MIB - 4096, 8192, false),
            (2 * MIB, 4096, false),
            (8 * MIB, 4096, false),
        ] {
            let shared = memory.map(gpa, len_bytes as usize);
            assert_eq!(shared.is_ok(), mapped, "{gpa:#x}");
        }
    }
}
