//! What a child has of the process that it is forked from.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::{Program, Room};

/// What a child has of the process that it is forked from.
#[derive(Debug)]
pub struct Parent<'a> {
    /// Its process id.
    pub pid: u32,
    /// Landlock's rules for the child.
    pub rules: Option<&'a OwnedFd>,
    /// The process's own descriptors, which the child closes.
    pub own_fds: Range<u64>,
    /// Two of them that the child has no use for.
    pub spare_fds: [&'a OwnedFd; 2],
    /// The program, where its strings are, and its auxiliary vector.
    pub program: Arc<Program>,
    /// Address of the strings.
    pub strings_at: u64,
    /// The auxiliary vector.
    pub auxv: Vec<u8>,
    /// Where the heap begins.
    pub heap_start: u64,
    /// personality(2).
    pub personality: u64,
    /// Limits that the process does not have itself: RLIMIT_*, soft and hard.
    pub limits: Vec<(usize, [u64; 2])>,
    /// What the host has left.
    pub room: Room,
}
