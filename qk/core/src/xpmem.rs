//! XPMEM: which rank may attach which memory of which other. The interface, its ids and its errors are the Linux module's
//! (github.com/hpc/xpmem, include/xpmem.h); where the memory is seen follows from the windows (docs/adr/0027).
//!
//! A process offers a range of its addresses as a segment; another gets a permit for it, and attaches parts by the permit. Ids
//! are never used twice, so one that is stale names nothing.

#[cfg(test)]
mod tests;

use abi::Errno;
use abi::addr::{Va, VaRange};
use abi::map::{PAGE, USER_TOP};
use alloc::vec::Vec;

/// Segments, and permits, that a rank may have at once: one per peer, for each of a few libraries.
pub const MOST: usize = 1024;
/// Ids that a process makes before they are used up (XPMEM_MAX_UNIQ_ID: INT_MAX >> 1).
const LAST: u32 = i32::MAX as u32 >> 1;
/// XPMEM_PERMIT_MODE: the only kind of permission there is.
const BY_MODE: u32 = 1;
/// XPMEM_RDONLY and XPMEM_RDWR.
const READ_ONLY: u32 = 1;
const READ_WRITE: u32 = 2;

/// What a program calls a segment (xpmem_segid_t) or a permit (xpmem_apid_t): the process whose it is in the lower half, its
/// number there in the upper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id {
    /// The process.
    pub pid: u32,
    /// The number, from 1.
    pub number: u32,
}

impl Id {
    /// The id in a program's word.
    ///
    /// # Errors
    /// EINVAL for what is no id of anything: 0, or negative.
    pub const fn decode(word: u64) -> Result<Id, Errno> {
        if word as i64 <= 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Id {
            pid: word as u32,
            number: (word >> 32) as u32,
        })
    }

    /// The program's word.
    #[must_use]
    pub const fn encode(self) -> u64 {
        (self.number as u64) << 32 | self.pid as u64
    }
}

/// Things with numbers that are never used again.
#[derive(Debug)]
pub struct Numbered<T> {
    last: u32,
    /// By number.
    entries: Vec<(u32, T)>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered {
            last: 0,
            entries: Vec::new(),
        }
    }
}

impl<T> Numbered<T> {
    /// Adds one; returns its number.
    ///
    /// # Errors
    /// EBUSY when all numbers have been used; ENOMEM when there are [`MOST`], or there is no memory.
    pub fn add(&mut self, entry: T) -> Result<u32, Errno> {
        if self.last >= LAST {
            return Err(Errno::EBUSY);
        }
        if self.entries.len() >= MOST || self.entries.try_reserve(1).is_err() {
            return Err(Errno::ENOMEM);
        }
        self.last += 1;
        self.entries.push((self.last, entry));
        Ok(self.last)
    }

    /// The one with this number.
    ///
    /// # Errors
    /// ENOENT.
    pub fn get(&self, number: u32) -> Result<&T, Errno> {
        self.position(number).map(|at| &self.entries[at].1)
    }

    /// Takes it out.
    ///
    /// # Errors
    /// ENOENT.
    pub fn remove(&mut self, number: u32) -> Result<T, Errno> {
        self.position(number).map(|at| self.entries.remove(at).1)
    }

    /// Takes out all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    fn position(&self, number: u32) -> Result<usize, Errno> {
        let found = self.entries.binary_search_by_key(&number, |entry| entry.0);
        found.map_err(|_| Errno::ENOENT)
    }
}

/// A range of a process's addresses that others may get permits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    range: VaRange,
    /// Permission bits as a file's: which users may read and write.
    mode: u32,
}

/// The process that requests a permit, relative to the segment's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// Root.
    Root,
    /// The same user.
    User,
    /// The same group.
    Group,
    /// Any other.
    Other,
}

impl Segment {
    /// The segment that a program offers; a length of -1 stands for all that follows.
    ///
    /// # Errors
    /// EINVAL: no whole pages, beyond the program's memory, or another kind of permission.
    pub fn new(start: Va, len_bytes: u64, kind: u32, mode: u64) -> Result<Segment, Errno> {
        let room = USER_TOP.checked_sub(start.0).ok_or(Errno::EINVAL)?;
        let len_bytes = if len_bytes == u64::MAX {
            room
        } else {
            len_bytes
        };
        let in_place = len_bytes != 0 && len_bytes <= room;
        let aligned = start.is_aligned(PAGE) && len_bytes.is_multiple_of(PAGE);
        if kind != BY_MODE || mode & !0o777 != 0 || !in_place || !aligned {
            return Err(Errno::EINVAL);
        }
        Ok(Segment {
            range: VaRange::new(start, len_bytes),
            mode: mode as u32,
        })
    }

    /// What an attachment of a part shows first: the owner's address of it.
    ///
    /// # Errors
    /// EINVAL: not at a page's beginning, nothing, or beyond the end.
    pub fn part(&self, offset: u64, len_bytes: u64) -> Result<Va, Errno> {
        let pages = len_bytes.checked_next_multiple_of(PAGE);
        let end = pages.and_then(|len_bytes| offset.checked_add(len_bytes));
        let fits = end.is_some_and(|end| end <= self.range.len_bytes());
        if !offset.is_multiple_of(PAGE) || len_bytes == 0 || !fits {
            return Err(Errno::EINVAL);
        }
        Ok(self.range.start + offset)
    }

    /// Whether `who` gets a permit to access it so (ipcperms, ipc/util.c).
    ///
    /// # Errors
    /// EACCES.
    pub fn admit(&self, who: Who, access: Access) -> Result<(), Errno> {
        let granted = match who {
            Who::Root => return Ok(()),
            Who::User => self.mode >> 6,
            Who::Group => self.mode >> 3,
            Who::Other => self.mode,
        };
        let needed = if access.writes { 0o6 } else { 0o4 };
        if granted & needed == needed {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }
}

/// How a permit lets memory be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Written, too.
    pub writes: bool,
}

impl Access {
    /// What a program requests.
    ///
    /// # Errors
    /// EINVAL.
    pub const fn new(flags: u32, kind: u32, value: u64) -> Result<Access, Errno> {
        if kind != BY_MODE || value != 0 {
            return Err(Errno::EINVAL);
        }
        match flags {
            0 | READ_ONLY => Ok(Access { writes: false }),
            READ_WRITE => Ok(Access { writes: true }),
            _ => Err(Errno::EINVAL),
        }
    }
}
