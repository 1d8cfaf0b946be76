//! Which 2 MiB chunks, and which gigabytes, are wholly free.

use crate::bits::{BitTree, zeroed};
use alloc::boxed::Box;

/// Chunks in a gigabyte.
pub const CHUNKS_PER_GIB: usize = 512;

/// A set of chunk numbers, and the gigabytes it holds every chunk of.
pub struct Whole {
    chunks: BitTree,
    gibs: BitTree,
    /// Members in each gigabyte.
    members: Box<[u16]>,
}

impl Whole {
    /// An empty set able to hold the chunks 0..`chunks`; `None` without memory for it.
    pub fn new(chunks: usize) -> Option<Self> {
        let gibs = chunks.div_ceil(CHUNKS_PER_GIB).max(1);
        Some(Self {
            chunks: BitTree::new(chunks)?,
            gibs: BitTree::new(gibs)?,
            members: zeroed(gibs)?,
        })
    }

    /// Whether chunk `c` is a member.
    pub fn contains(&self, c: usize) -> bool {
        self.chunks.contains(c)
    }

    /// Whether all chunks of gigabyte `gib` are.
    pub fn contains_gib(&self, gib: usize) -> bool {
        self.gibs.contains(gib)
    }

    /// The lowest member.
    pub fn first(&self) -> Option<usize> {
        self.chunks.first()
    }

    /// The highest member.
    pub fn last(&self) -> Option<usize> {
        self.chunks.last()
    }

    /// The lowest gigabyte with all its chunks.
    pub fn first_gib(&self) -> Option<usize> {
        self.gibs.first()
    }

    /// Adds `c`, which is no member.
    pub fn insert(&mut self, c: usize) {
        self.chunks.insert(c);
        let gib = c / CHUNKS_PER_GIB;
        self.members[gib] += 1;
        if usize::from(self.members[gib]) == CHUNKS_PER_GIB {
            self.gibs.insert(gib);
        }
    }

    /// Takes out `c`, a member.
    pub fn remove(&mut self, c: usize) {
        self.chunks.remove(c);
        self.count_off(c);
    }

    /// Takes out the lowest member.
    pub fn pop_first(&mut self) -> Option<usize> {
        let c = self.chunks.pop_first()?;
        self.count_off(c);
        Some(c)
    }

    fn count_off(&mut self, c: usize) {
        let gib = c / CHUNKS_PER_GIB;
        if usize::from(self.members[gib]) == CHUNKS_PER_GIB {
            self.gibs.remove(gib);
        }
        self.members[gib] -= 1;
    }
}
