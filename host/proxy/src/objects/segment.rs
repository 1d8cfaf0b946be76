//! Segments of System V shared memory: Linux has them, with their keys, owners and limits; the node has copies of those that ranks
//! attach, as it has of files.

use std::ptr::null;

use abi::Errno;

use super::frames::pointer;
use crate::errno::linux;
use crate::memory::copy_bytes;

/// Where a segment is attached in this process; detached when it is dropped.
#[derive(Debug)]
pub struct Segment {
    address: u64,
    len_bytes: u64,
}

impl Segment {
    /// Attaches a segment.
    ///
    /// # Errors
    /// As shmat(2).
    pub fn attach(id: i32, read_only: bool) -> Result<Segment, Errno> {
        let flags = if read_only { libc::SHM_RDONLY } else { 0 };
        // SAFETY: 1. Linux chooses addresses that are free, so nothing that exists is replaced.
        let address = unsafe { libc::shmat(id, null(), flags) };
        if address.addr() == usize::MAX {
            return Err(last_error());
        }
        let mut segment = Segment {
            address: address.expose_provenance() as u64,
            len_bytes: 0,
        };
        // SAFETY: 1. All zeros is a valid structure of numbers. 2. Linux writes no more than it.
        let queried = unsafe {
            let mut status: libc::shmid_ds = std::mem::zeroed();
            let queried = libc::shmctl(id, libc::IPC_STAT, &raw mut status);
            segment.len_bytes = status.shm_segsz as u64;
            queried
        };
        match queried {
            0 => Ok(segment),
            _ => Err(last_error()),
        }
    }

    /// Length in whole pages.
    pub fn pages_bytes(&self) -> u64 {
        self.len_bytes.next_multiple_of(abi::map::PAGE)
    }

    /// Copies between it, from `offset` on, and frames at `address`, which have been checked; returns the bytes it has of them.
    pub fn copy(&self, address: u64, len_bytes: u64, offset: u64, to_frames: bool) -> i64 {
        let len_bytes = len_bytes.min(self.pages_bytes().saturating_sub(offset));
        if len_bytes == 0 {
            return 0;
        }
        let (own, frames) = (pointer(self.address + offset), pointer(address));
        let (to, from) = if to_frames {
            (frames, own)
        } else {
            (own, frames)
        };
        // SAFETY: 1. It is attached there, as long as its pages are, and was attached for writing if it is written to
        // (`write_back` checks). 2. The frames are mapped (`frames`). 3. No Rust object lies in either.
        unsafe { copy_bytes(to, from, len_bytes as usize) };
        len_bytes as i64
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: 1. It was attached there, and nothing refers to it any more.
        unsafe { libc::shmdt(pointer(self.address).cast_const().cast()) };
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).map_or(Errno::EIO, linux)
}
