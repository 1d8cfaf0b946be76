//! What is held: files and segments.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, Stat};

use super::segment::Segment;

/// A file: device and inode.
pub type File = [u64; 2];

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

/// Which file it is, if it is a regular one.
pub fn regular(stat: &Stat) -> Option<File> {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular.then_some([stat.st_dev, stat.st_ino])
}

/// The path by which the thread that holds a descriptor finds what is behind it.
pub fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}
