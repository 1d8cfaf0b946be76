//! Memory that this process and a child see both, until the child has unmapped it or become another program.

use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::AtomicU32;

use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A piece of it, which ends here when it is dropped. What it holds is zero at first.
#[derive(Debug)]
pub struct Shared {
    start: *mut u8,
    len_bytes: usize,
}

// SAFETY: 1. The mapping belongs to no thread; its bytes are read and written by `&self` as atomics, or copied while the
// child, the only other writer, is not there.
unsafe impl Send for Shared {}
// SAFETY: 1. As above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `len_bytes`, a multiple of the page size.
    ///
    /// # Errors
    /// What mmap says.
    pub fn new(len_bytes: usize) -> io::Result<Shared> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: 1. No address is requested, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), len_bytes, prot, MapFlags::SHARED)? };
        Ok(Shared {
            start: start.cast(),
            len_bytes,
        })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes as u64
    }

    /// Its first word.
    pub fn word(&self) -> &AtomicU32 {
        // SAFETY: 1. The mapping is page-aligned and as long as a page at least. 2. It lives as long as `self`.
        unsafe { &*self.start.cast::<AtomicU32>() }
    }

    /// Fills it before there is a child, or after it is gone: no other process has it then.
    pub fn fill(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(self.len_bytes);
        // SAFETY: 1. The mapping is so long, and `&mut self` says that no other code of this process uses it.
        unsafe { slice::from_raw_parts_mut(self.start, len) }.copy_from_slice(&bytes[..len]);
    }

    /// A copy of what it holds; bytes that a child is still writing may be old or new.
    pub fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len_bytes];
        // SAFETY: 1. The mapping is so long. 2. The copy is volatile word by word at most; no reference to it is made.
        unsafe {
            self.start
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), self.len_bytes);
        }
        bytes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: 1. Mapped by `new`; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.len_bytes) };
    }
}
