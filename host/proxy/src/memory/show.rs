//! What the log says, done here: guest RAM, pages of files, or nothing.

use std::os::fd::OwnedFd;
use std::ptr::without_provenance_mut;

use rustix::io;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};

use super::vacant::no_access;
use super::{BadChange, Memory};
use crate::objects::FilePlace;
use crate::regions::Region;

impl Memory {
    /// Shows guest RAM.
    pub(super) fn show(&self, region: &Region) -> Result<(), BadChange> {
        let len_bytes = region.len_bytes();
        let place = self.ram.place(region.gpa, len_bytes);
        let place = place.ok_or(BadChange::NotOurs {
            gpa: region.gpa,
            len_bytes,
        })?;
        show(region, place).map_err(|errno| refused(region, errno))
    }

    /// Shows pages of a file.
    pub(super) fn show_laid(&self, region: &Region, place: FilePlace) -> Result<(), BadChange> {
        let (addr, len_bytes) = (region.start, region.len_bytes());
        // Only the access changes: a descriptor might not be enough any more for what the mapping has (memfd_create(2), seals).
        if self.regions.show_laid(region) {
            let at = without_provenance_mut(addr as usize);
            let mut access = MprotectFlags::empty();
            access.set(MprotectFlags::READ, region.read || region.write);
            access.set(MprotectFlags::WRITE, region.write);
            // SAFETY: 1. The range is the rank's (checked by crate wire); no Rust object lies there.
            let changed = unsafe { mprotect(at, len_bytes as usize, access) };
            return changed.map_err(|errno| refused(region, errno));
        }
        // SAFETY: 1. As in `show`.
        let mapped = unsafe { self.objects.map((addr, len_bytes), place, access(region)) };
        mapped.map_err(|errno| refused(region, io::Errno::from_raw_os_error(errno.0.into())))
    }

    /// Shows nothing there any more.
    pub(super) fn hide(&mut self, addr: u64, len_bytes: u64) -> Result<(), BadChange> {
        no_access(addr, len_bytes, MapFlags::FIXED).map_err(|errno| BadChange::Linux {
            addr,
            len_bytes,
            errno,
        })?;
        self.regions.unmap(addr, addr + len_bytes);
        self.reservations.remove(addr, addr + len_bytes);
        Ok(())
    }
}

/// What Linux says of a change.
fn refused(region: &Region, errno: io::Errno) -> BadChange {
    BadChange::Linux {
        addr: region.start,
        len_bytes: region.len_bytes(),
        errno,
    }
}

/// How Linux may use a region.
fn access(region: &Region) -> ProtFlags {
    let mut access = ProtFlags::empty();
    access.set(ProtFlags::READ, region.read || region.write); // x86 cannot write what it cannot read
    access.set(ProtFlags::WRITE, region.write);
    access
}

/// Maps a range of a file of guest RAM.
fn show(region: &Region, (file, offset): (&OwnedFd, u64)) -> io::Result<()> {
    let (addr, len_bytes) = (region.start, region.len_bytes());
    let access = access(region);
    if access.is_empty() {
        return no_access(addr, len_bytes, MapFlags::FIXED);
    }
    // SAFETY: 1. `Change` holds only addresses in USER_BASE..USER_TOP (checked by crate wire), all of which were
    // reserved for this by `reserve`: no Rust object lies there. 2. Nothing refers to what is replaced: the
    // rank's memory is only touched by `copy_bytes`, under the lock that guards `Memory`, and by Linux.
    unsafe {
        mmap(
            without_provenance_mut(addr as usize),
            len_bytes as usize,
            access,
            MapFlags::SHARED | MapFlags::FIXED,
            file,
            offset,
        )?;
    }
    Ok(())
}
