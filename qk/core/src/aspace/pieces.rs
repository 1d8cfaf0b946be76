//! Physically contiguous pieces: the proxy maps each by itself, and Linux allows a process so many mappings
//! (vm.max_map_count). So a mapping goes on in frames adjacent to its neighbour's where it can, and what would need too many
//! pieces fails with ENOMEM, as it does on Linux, instead of in the proxy.

use super::{Aspace, Machine, OutOfMemory};
use crate::frames::Place;
use crate::page::PAGE_BYTES;
use crate::paging;
use abi::addr::{Phys, Va, VaRange};
use abi::map::{USER_BASE, USER_TOP};

/// How many pieces the proxy has to map.
pub(super) struct Pieces {
    /// At most so many there are: pieces, and holes between them.
    bound: usize,
    most: usize,
}

impl Pieces {
    /// None as yet; `most` are allowed.
    pub fn new(most: usize) -> Pieces {
        Pieces { bound: 0, most }
    }
}

/// A new mapping, with those that continued it.
#[derive(Clone, Copy)]
struct Recent {
    range: VaRange,
    /// Of its first byte, and behind its last.
    pa: [Phys; 2],
}

/// The two that grew last: a program's heap grows upwards, and its mappings follow each other downwards, in turns.
pub(super) struct Newest {
    two: [Recent; 2],
    /// The older one.
    older: usize,
}

impl Newest {
    /// None as yet.
    pub const NONE: Newest = Newest {
        two: [Recent {
            range: Va(0).until(Va(0)),
            pa: [Phys(0); 2],
        }; 2],
        older: 0,
    };

    /// Where frames for `range` are adjacent to those of the mapping beside it.
    #[inline]
    pub fn place(&self, range: VaRange) -> Place {
        // BOUND: two.
        for recent in &self.two {
            if recent.range.start == range.end {
                return Place::Below(recent.pa[0]);
            }
            if recent.range.end == range.start {
                return Place::Behind(recent.pa[1]);
            }
        }
        Place::Any
    }

    /// Notes a new mapping; `pa`: of its first byte, and behind its last.
    #[inline]
    pub fn note(&mut self, range: VaRange, pa: [Phys; 2]) {
        // BOUND: two.
        for (i, recent) in self.two.iter_mut().enumerate() {
            if recent.range.start == range.end {
                (recent.range.start, recent.pa[0], self.older) = (range.start, pa[0], 1 - i);
                return;
            }
            if recent.range.end == range.start {
                (recent.range.end, recent.pa[1], self.older) = (range.end, pa[1], 1 - i);
                return;
            }
        }
        self.two[self.older] = Recent { range, pa };
        self.older = 1 - self.older;
    }
}

impl<M: Machine> Aspace<M> {
    /// Where frames for `at` are adjacent to those of the page before it.
    pub(super) fn behind(&mut self, at: Va) -> Place {
        let (tables, root) = self.tables();
        match paging::translate(&tables, root, at.before(PAGE_BYTES)) {
            Some(page) if self.frames.holds(page.pa, PAGE_BYTES) => {
                Place::Behind(page.pa + PAGE_BYTES)
            }
            _ => Place::Any,
        }
    }

    /// Before the proxy gets up to `more` pieces more.
    ///
    /// # Errors
    /// [`OutOfMemory`]: they could be too many.
    #[inline]
    pub(super) fn add_pieces(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.pieces.bound += more;
        match self.pieces.bound <= self.pieces.most {
            true => Ok(()),
            false => self.recount(more),
        }
    }

    /// A change that cuts a piece in two, or leaves a hole. There are not more of them than twice the regions.
    #[inline]
    pub(super) fn note_cut(&mut self) {
        self.pieces.bound += 2;
    }

    #[cold]
    #[inline(never)]
    fn recount(&mut self, more: usize) -> Result<(), OutOfMemory> {
        self.pieces.bound = self.count_pieces() + more;
        if self.pieces.bound <= self.pieces.most {
            return Ok(());
        }
        self.pieces.bound -= more;
        self.shortages += 1;
        Err(OutOfMemory)
    }

    /// How many pieces there are, and holes between them.
    pub(super) fn count_pieces(&mut self) -> usize {
        let (tables, root) = self.tables();
        let (mut count, mut end) = (0, Va(0));
        paging::extents(&tables, root, Va(USER_BASE).until(Va(USER_TOP)), |extent| {
            count += 1 + usize::from(extent.va != end);
            end = extent.va + extent.len_bytes;
        });
        count
    }

    /// The bound holds.
    #[cfg(test)]
    pub(super) fn check_pieces(&mut self) {
        let count = self.count_pieces();
        let bound = self.pieces.bound;
        assert!(count <= bound, "{count} pieces, at most {bound} are known");
    }
}
