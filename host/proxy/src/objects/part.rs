//! Bytes of a file in frames of the node pool.

use std::arch::asm;

use super::frames::pointer;
use crate::memory::copy_bytes;

/// Bytes of a file in frames of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Offset in the file.
    pub offset: u64,
    /// Where they are mapped in this process.
    pub(super) address: u64,
    /// How many.
    pub len_bytes: u64,
}

impl Part {
    /// The part of it that begins `skip` bytes in.
    pub fn after(&self, skip: u64) -> Part {
        Part {
            offset: self.offset + skip,
            address: self.address + skip,
            len_bytes: self.len_bytes - skip,
        }
    }

    /// Copies its first bytes.
    pub fn read(&self, into: &mut [u8]) {
        let len = into.len().min(self.len_bytes as usize);
        // SAFETY: 1. The pool is mapped there (`frames`) and never unmapped. 2. `into` is ours alone and lies elsewhere.
        unsafe { copy_bytes(into.as_mut_ptr(), pointer(self.address), len) };
    }

    /// Replaces its first bytes.
    pub fn write(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.len_bytes as usize);
        // SAFETY: 1. As in `read`; no Rust object lies in the pool.
        unsafe { copy_bytes(pointer(self.address), bytes.as_ptr(), len) };
    }

    /// Clears it.
    pub fn clear(&self) {
        // SAFETY: 1. As in `write`. 2. The direction flag is clear by the calling convention.
        unsafe {
            asm!(
                "rep stosb",
                inout("rcx") self.len_bytes => _,
                inout("rdi") self.address => _,
                in("al") 0u8,
                options(nostack, preserves_flags),
            );
        }
    }
}
