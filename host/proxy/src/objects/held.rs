//! What is held: files and segments.

use std::os::fd::OwnedFd;
use std::ptr::without_provenance_mut;

use abi::Errno;
use rustix::fs::{FileType, Stat};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use super::segment::Segment;
use crate::errno::linux;

/// A file: device and inode.
pub type File = [u64; 2];

/// What frames show: pages of a file, by the way the rank maps them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Content {
    /// Mapped and shared.
    Shared(File),
    /// Mapped privately, and not written to.
    Text(File),
}

impl Content {
    /// Whether it is text.
    pub fn is_text(&self) -> bool {
        matches!(self, Content::Text(_))
    }
}

/// A file that is held.
#[derive(Debug)]
pub struct Held {
    /// What is behind it.
    pub source: Source,
    /// It can be written to.
    pub writable: bool,
}

/// What is behind it.
#[derive(Debug)]
pub enum Source {
    /// A regular file.
    File(OwnedFd),
    /// System V shared memory.
    Segment(Segment),
}

impl Held {
    /// Maps its pages from `offset` on at an address of the rank: as text, they become the process's own where it writes to them, as a
    /// child of the rank may.
    ///
    /// # Errors
    /// What mmap(2) says.
    ///
    /// # Safety
    /// No Rust object lies in the range, and what is mapped there is only used as the rank's memory.
    pub unsafe fn map(
        &self,
        (addr, len_bytes): (u64, u64),
        offset: u64,
        (access, is_text): (ProtFlags, bool),
    ) -> Result<(), Errno> {
        match &self.source {
            Source::File(fd) => {
                let (at, len) = (without_provenance_mut(addr as usize), len_bytes as usize);
                let sharing = match is_text {
                    true => MapFlags::PRIVATE,
                    false => MapFlags::SHARED,
                };
                let how = sharing | MapFlags::FIXED;
                // SAFETY: 1. What is replaced is the rank's memory, as the caller promises.
                let mapped = unsafe { mmap(at, len, access, how, fd, offset) };
                mapped.map(drop).map_err(linux)
            }
            // SAFETY: 1. As the caller promises.
            Source::Segment(segment) => unsafe { segment.map((addr, len_bytes), offset, access) },
        }
    }
}

/// Which file it is, if it is a regular one.
pub fn regular(stat: &Stat) -> Option<File> {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular.then_some([stat.st_dev, stat.st_ino])
}
