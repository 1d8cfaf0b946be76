//! Addresses at which nothing is accessible.

use std::ptr::without_provenance_mut;

use rustix::io;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// Maps a range without access; `how` says whether it may replace something.
pub(super) fn no_access(addr: u64, len_bytes: u64, how: MapFlags) -> io::Result<()> {
    // SAFETY: 1. With FIXED_NOREPLACE nothing that exists is replaced. 2. With FIXED the range lies in what was reserved
    // that way (crate wire checks it), and nothing refers to its contents.
    let start = unsafe {
        mmap_anonymous(
            without_provenance_mut(addr as usize),
            len_bytes as usize,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE | how,
        )?
    };
    // Linux before 4.17 takes FIXED_NOREPLACE for a hint.
    if start.addr() as u64 == addr {
        Ok(())
    } else {
        Err(io::Errno::EXIST)
    }
}
