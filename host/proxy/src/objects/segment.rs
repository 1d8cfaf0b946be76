//! Segments of System V shared memory: Linux has them, with their keys, owners and limits.

use std::ptr::{null, with_exposed_provenance_mut, without_provenance_mut};

use abi::Errno;
use rustix::mm::{Advice, MprotectFlags, MremapFlags, ProtFlags, madvise, mprotect, mremap_fixed};

use crate::errno::linux;

/// Where a segment is attached in this process; detached when it is dropped.
#[derive(Debug)]
pub struct Segment {
    id: i32,
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
            id,
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
        if queried != 0 {
            return Err(last_error());
        }
        let at = with_exposed_provenance_mut(segment.address as usize);
        let len = segment.pages_bytes() as usize;
        // SAFETY: 1. It is attached there; its contents and access stay. Children have what the rank has of it, and not this.
        unsafe { madvise(at, len, Advice::LinuxDontFork) }.map_err(linux)?;
        Ok(segment)
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Length in whole pages.
    pub fn pages_bytes(&self) -> u64 {
        self.len_bytes.next_multiple_of(abi::map::PAGE)
    }

    /// Maps its pages from `offset` on at an address of the rank, too: a mapping that is shared is repeated by moving none of it
    /// (mremap(2), an old size of 0).
    ///
    /// # Errors
    /// EINVAL: there are not so many; what mremap(2) says.
    ///
    /// # Safety
    /// No Rust object lies in the range, and what is mapped there is only used as the rank's memory.
    pub unsafe fn map(
        &self,
        (addr, len_bytes): (u64, u64),
        offset: u64,
        access: ProtFlags,
    ) -> Result<(), Errno> {
        let inside = offset.checked_add(len_bytes);
        if inside.is_none_or(|end| end > self.pages_bytes()) {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (
            with_exposed_provenance_mut((self.address + offset) as usize),
            without_provenance_mut(addr as usize),
        );
        let mut flags = MprotectFlags::empty();
        flags.set(MprotectFlags::READ, access.contains(ProtFlags::READ));
        flags.set(MprotectFlags::WRITE, access.contains(ProtFlags::WRITE));
        let (len, how) = (len_bytes as usize, MremapFlags::MAYMOVE);
        // SAFETY: 1. It is attached there, and stays. 2. What is replaced is the rank's memory, as the caller promises.
        let mapped =
            unsafe { mremap_fixed(from, 0, len, how, to).and_then(|at| mprotect(at, len, flags)) };
        mapped.map_err(linux)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: 1. It was attached there, and nothing refers to it any more.
        unsafe {
            libc::shmdt(with_exposed_provenance_mut::<libc::c_void>(
                self.address as usize,
            ))
        };
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).map_or(Errno::EIO, linux)
}
