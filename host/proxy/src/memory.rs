//! The rank's memory in this process.
//!
//! 0..512 GiB belong to the rank: all of it is reserved at start without access, and every change that the QK logs is
//! repeated here with a shared mapping of guest RAM at the same virtual address, or of the file that is laid over it. This program
//! itself lies far above. A mapping is never executable.
//!
//! Linux reads and writes the rank's buffers directly. What the proxy itself reads (paths, nested structures) it first
//! copies, once, through [`RankMemory`]; [`Regions`] says before whether that can fault.
//!
//! # Pointers that are not the rank's
//! Nothing is ever mapped in the first [`GUARD_BYTES`] above the rank's addresses. So a pointer that [`clamp`] has seen
//! needs no length: a range that begins below and reaches beyond ends in the guard, where Linux faults as it would
//! natively, and a pointer from beyond becomes the guard's first byte, [`GUARD_ADDR`]. Which error that is, or whether
//! Linux reads the pointer at all, stays Linux's affair.

mod copy;
mod held;
mod laid;
mod show;
mod vacant;

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::ptr::without_provenance_mut;
use std::sync::Arc;

use abi::Errno;
use abi::map::{PAGE, USER_BASE, USER_TOP, WINDOW_TOP};
use rustix::io;
use rustix::mm::{Advice, MapFlags, madvise};
use wire::mappable::Mappable;
use wire::ram::Place;
use wire::region_log::{Change, prot};

use crate::errno::linux;
use crate::files::Files;
use crate::objects::{Content, Objects};
use crate::ram_files::RamFiles;
use crate::regions::{Region, Regions};
use crate::reservations::{Reservation, Reservations};

pub use copy::{RankMemory, copy_bytes, move_all};
use held::Found;
pub use held::Held;
use vacant::no_access;

/// An address at which nothing is ever mapped.
pub const GUARD_ADDR: u64 = USER_TOP;

/// Bytes from [`GUARD_ADDR`] on at which nothing is ever mapped. No system call touches more behind one pointer: byte counts
/// are 32 bits wide or cut to MAX_RW_COUNT (2 GiB), and counts of elements have lower limits.
const GUARD_BYTES: u64 = 16 << 30;

/// A pointer of the rank that Linux may be given: itself or [`GUARD_ADDR`].
#[inline]
#[must_use]
pub const fn clamp(addr: u64) -> u64 {
    // From 2^47 on no process has memory, and Linux checks that before anything else.
    match addr {
        USER_TOP..WINDOW_TOP => GUARD_ADDR,
        _ => addr,
    }
}

/// A change that cannot be carried out: the node's kernel or this host is at fault, not the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadChange {
    /// It names memory that is not the rank's.
    #[error(
        "the node's kernel maps {len_bytes:#x} bytes at physical {gpa:#x}, which are not this rank's"
    )]
    NotOurs {
        /// First byte.
        gpa: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Linux refuses.
    #[error("cannot map {len_bytes:#x} bytes at {addr:#x}: {errno}")]
    Linux {
        /// Address.
        addr: u64,
        /// Length.
        len_bytes: u64,
        /// Why.
        errno: io::Errno,
    },
}

/// The rank's memory. There is one per process.
#[derive(Debug)]
pub struct Memory {
    ram: Arc<RamFiles>,
    /// Which of it are pages of files.
    objects: Arc<Objects>,
    regions: Regions,
    reservations: Reservations,
    /// What RAM and pool were found to hold.
    found: [RefCell<Found>; 2],
    /// Which files' bytes lie where.
    pub files: Files,
}

impl Memory {
    /// Reserves the rank's addresses and the guard.
    ///
    /// # Errors
    /// ENOMEM when the address space is limited, EEXIST when something of this process lies there.
    pub fn reserve(ram: Arc<RamFiles>, objects: Arc<Objects>) -> io::Result<Memory> {
        let len_bytes = GUARD_ADDR + GUARD_BYTES - USER_BASE;
        no_access(USER_BASE, len_bytes, MapFlags::FIXED_NOREPLACE)?;
        Ok(Memory {
            ram,
            objects,
            regions: Regions::default(),
            reservations: Reservations::default(),
            found: Default::default(),
            files: Files::default(),
        })
    }

    /// Repeats a change of the rank's mappings here.
    ///
    /// # Errors
    /// [`BadChange`]; then nothing was changed.
    pub fn apply(&mut self, change: &Change, allowed: &Mappable) -> Result<(), BadChange> {
        match *change {
            Change::Map {
                addr,
                len_bytes,
                gpa,
                prot,
            } => {
                let [read, write, exec] =
                    [prot::READ, prot::WRITE, prot::EXEC].map(|bit| prot & bit != 0);
                let text = prot & prot::TEXT != 0;
                // Text is never written to.
                if !allowed.allows(gpa, len_bytes, write) || text && write {
                    return Err(BadChange::NotOurs { gpa, len_bytes });
                }
                self.reservations.remove(addr, addr + len_bytes);
                for (frames, place) in self.objects.parts(gpa..gpa + len_bytes) {
                    let start = addr + (frames.start - gpa);
                    let region = Region {
                        start,
                        end: start + (frames.end - frames.start),
                        gpa: frames.start,
                        read,
                        write,
                        exec,
                        shared: allowed.is_shared(gpa) && !text,
                        laid: place.is_some(),
                    };
                    match place {
                        Some(place) => self.show_laid(&region, place),
                        None => self.show(&region),
                    }?;
                    self.regions.map(region);
                }
            }
            Change::Unmap { addr, len_bytes } => {
                self.hide(addr, len_bytes)?;
                self.files.remove(addr, addr + len_bytes);
            }
            Change::Reserve {
                addr,
                len_bytes,
                shared,
            } => {
                self.hide(addr, len_bytes)?;
                self.reservations.add(Reservation {
                    start: addr,
                    end: addr + len_bytes,
                    shared,
                });
            }
            Change::Forget { addr, len_bytes } => self.files.remove(addr, addr + len_bytes),
        }
        Ok(())
    }

    /// The text that is shown.
    pub fn texts(&self) -> HashSet<Content> {
        let laid = self.regions.iter().filter(|region| region.laid);
        let parts = laid.flat_map(|region| {
            self.objects
                .parts(region.gpa..region.gpa + region.len_bytes())
        });
        let shown = parts.filter_map(|(_, place)| place);
        shown.map(|(content, _)| content).collect()
    }

    /// Whether a region shows text that other ranks show, too: frames of the node pool, of a mapping that is not shared.
    pub fn is_text(&self, region: &Region) -> bool {
        let place = self.ram.layout.place(region.gpa, PAGE);
        !region.shared && matches!(place, Some(Place::Pool(_)))
    }

    /// Whether `addr` shows such text.
    pub fn has_text_at(&self, addr: u64) -> bool {
        let region = self.regions.at(addr);
        region.is_some_and(|region| self.is_text(region))
    }

    /// Writes bytes for a debugger, whatever the program may: `addr` is mapped, and all of it is in one region.
    ///
    /// # Errors
    /// EFAULT where nothing is mapped, or text that other ranks show, too; what Linux says.
    pub fn poke(&self, addr: u64, bytes: &[u8]) -> io::Result<Region> {
        let len_bytes = bytes.len() as u64;
        let region = self.regions.at(addr).copied().ok_or(io::Errno::FAULT)?;
        if self.is_text(&region) {
            return Err(io::Errno::FAULT);
        }
        if region.laid {
            let written = laid::write(addr, bytes);
            return written.map(|()| region).map_err(|_| io::Errno::FAULT);
        }
        let gpa = region.gpa + (addr - region.start);
        let place = (len_bytes <= region.end - addr)
            .then(|| self.ram.place(gpa, len_bytes))
            .flatten();
        let (file, offset) = place.ok_or(io::Errno::FAULT)?;
        let written = io::pwrite(file, bytes, offset)?;
        (written == bytes.len())
            .then_some(region)
            .ok_or(io::Errno::IO)
    }

    /// Keeps all of it but pages of files, and the addresses that are free, from a process that is forked now: what Linux does not copy
    /// there need not be unmapped.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn keep_from_children(&self) -> Result<(), Errno> {
        let len_bytes = GUARD_ADDR + GUARD_BYTES - USER_BASE;
        let all = without_provenance_mut(USER_BASE as usize);
        // SAFETY: 1. The range is what `reserve` has mapped, and what was mapped there since. 2. Its contents and access stay.
        unsafe { madvise(all, len_bytes as usize, Advice::LinuxDontFork) }.map_err(linux)?;
        for region in self.regions.iter().filter(|region| region.laid) {
            let at = without_provenance_mut(region.start as usize);
            // SAFETY: 1. As above.
            unsafe { madvise(at, region.len_bytes() as usize, Advice::LinuxDoFork) }
                .map_err(linux)?;
        }
        Ok(())
    }

    /// What is mapped.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// What is mapped without access.
    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// The files behind it.
    pub fn ram(&self) -> &RamFiles {
        &self.ram
    }

    /// What RAM holds of a region: the rest was never touched, and is zero.
    ///
    /// # Errors
    /// What lseek(2) says.
    pub fn held(&self, region: &Region) -> Result<Vec<Held>, Errno> {
        let len_bytes = region.end - region.start;
        let place = self.ram.layout.place(region.gpa, len_bytes);
        let (file, start, known) = match place.ok_or(Errno::EFAULT)? {
            Place::Ram(offset) => (&self.ram.ram, offset, &self.found[0]),
            Place::Pool(offset) => (&self.ram.pool, offset, &self.found[1]),
        };
        let parts = known.borrow_mut().find(file, start..start + len_bytes)?;
        let held = parts.into_iter().map(|part| Held {
            addr: region.start + (part.start - start),
            len_bytes: part.end - part.start,
            offset: part.start,
        });
        Ok(held.collect())
    }

    /// Copies what RAM holds of a region; `into` is as long.
    ///
    /// # Errors
    /// What pread(2) says.
    pub fn copy_held(&self, region: &Region, held: &Held, into: &mut [u8]) -> Result<(), Errno> {
        if region.read || region.write {
            return self.read(held.addr, into);
        }
        // What can only be executed is not mapped here.
        let len_bytes = region.end - region.start;
        let (file, _) = self.ram.place(region.gpa, len_bytes).ok_or(Errno::EFAULT)?;
        let (to, len_bytes) = (into.as_mut_ptr().addr() as u64, into.len() as u64);
        // SAFETY: 1. Linux writes to `into`, which is the caller's alone.
        let read =
            unsafe { move_all(libc::SYS_pread64, file.as_fd(), to, len_bytes, held.offset)? };
        (read as u64 == len_bytes).then_some(()).ok_or(Errno::EIO)
    }
}

impl RankMemory for Memory {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), Errno> {
        if !self.regions.allow(addr, into.len() as u64, false) {
            return Err(Errno::EFAULT);
        }
        if self.regions.are_laid(addr, into.len() as u64) {
            return laid::read(addr, into);
        }
        // SAFETY: 1. `regions` repeats what is mapped here: the source is readable, and stays so as `&self` excludes
        // `apply`; guest RAM's files are never cut. 2. `into` is writable and ours alone; the two do not overlap (see `reserve`).
        unsafe { copy_bytes(into.as_mut_ptr(), rank_address(addr), into.len()) };
        Ok(())
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        if !self.regions.allow(addr, bytes.len() as u64, true) {
            return Err(Errno::EFAULT);
        }
        if self.regions.are_laid(addr, bytes.len() as u64) {
            return laid::write(addr, bytes);
        }
        // SAFETY: 1. As in `read`, the other way round; the rank's memory holds no Rust objects.
        unsafe { copy_bytes(rank_address(addr), bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

fn rank_address(addr: u64) -> *mut u8 {
    without_provenance_mut(addr as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_beyond_the_rank_lead_nowhere() {
        for addr in [0, 8, USER_TOP - 1, WINDOW_TOP, 1 << 63, u64::MAX] {
            assert_eq!(clamp(addr), addr);
        }
        for addr in [USER_TOP, 0x5555_5555_5000, WINDOW_TOP - 1] {
            assert_eq!(clamp(addr), GUARD_ADDR);
        }
    }
}
