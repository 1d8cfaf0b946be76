//! The node pool, as it is mapped in this process.

use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::OnceLock;

use abi::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use wire::objects::Directory;

use crate::memory::{RamFiles, move_all};

/// Where the pool is mapped in this process.
#[derive(Clone, Copy, Debug)]
struct Pool {
    address: u64,
    gpa: u64,
    len_bytes: u64,
}

/// The pool, which is mapped when it is first needed.
#[derive(Debug, Default)]
pub struct Frames(OnceLock<Option<Pool>>);

impl Frames {
    /// The address at which `len_bytes` of guest-physical memory are mapped here; `None` unless they are the pool's.
    pub fn address(
        &self,
        ram: &RamFiles,
        directory: &Directory,
        gpa: u64,
        len_bytes: u64,
    ) -> Option<u64> {
        let pool = (*self.0.get_or_init(|| map(ram, directory.pool())))?;
        let offset = gpa.checked_sub(pool.gpa)?;
        let inside = offset.checked_add(len_bytes)? <= pool.len_bytes;
        inside.then(|| pool.address + offset)
    }
}

fn map(ram: &RamFiles, (gpa, len_bytes): (u64, u64)) -> Option<Pool> {
    let (file, offset) = ram.place(gpa, len_bytes)?;
    let (prot, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: 1. Linux chooses addresses that are free, so nothing that exists is replaced.
    let address = unsafe { mmap(null_mut(), len_bytes as usize, prot, shared, file, offset) };
    Some(Pool {
        address: address.ok()?.addr() as u64,
        gpa,
        len_bytes,
    })
}

/// An address of frames, or of an attached segment, as a pointer.
pub fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// Moves bytes between a file and frames that are mapped at `address`, which have been checked.
pub fn move_frames(
    nr: i64,
    file: BorrowedFd<'_>,
    address: u64,
    len_bytes: u64,
    offset: u64,
) -> Result<i64, Errno> {
    // SAFETY: 1. All of the range is the pool's (the callers have checked by `frames`), where no Rust object lies.
    unsafe { move_all(nr, file, address, len_bytes, offset) }
}
