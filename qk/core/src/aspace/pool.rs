//! Frames of page tables: memory set aside for the rank when it is loaded, outside of its partition. No host process maps
//! it, no program's page ever lies in it, and it is never another rank's.
//!
//! The frames are type-stable: one that was a table of some level is only ever a table of that level again while the address
//! space lives. A peer that has a window on this rank may keep a translation of an upper entry for any time. It then walks a
//! table that has another place by now, and reaches memory of this same rank, or nothing. Were the frame a table of another
//! level, the peer would take its entries for what they are not.
//!
//! Free tables are linked through their first entry, which has P clear, so that a walk that still reaches one finds nothing.
//!
//! When none is left, a change fails with ENOMEM, as it does without frames for its pages. What is set aside for each rank
//! (`wire::boot::table_bytes`) is eight times what a partition mapped with 4 KiB pages takes: more is for mappings that lie apart.

use crate::frames::Frames;
use crate::page::PAGE_BYTES;
use crate::paging::entry::{Entry, Level, span};
use crate::paging::{self, Table, Tables};
use abi::addr::{Phys, PhysRange, VaRange};

use super::Machine;

/// Tables of each level that a change may need: a large page is split at either border, a gigabyte in two steps.
const RESERVED: usize = 2;

/// A list of free tables, linked through their first entries.
#[derive(Clone, Copy, Default)]
struct List {
    /// Physical address of the first; 0: none.
    first: Phys,
    last: Phys,
    len: usize,
}

impl List {
    fn push(&mut self, machine: impl Machine, frame: Phys) {
        machine.table(frame).note(0, self.first);
        if self.len == 0 {
            self.last = frame;
        }
        self.first = frame;
        self.len += 1;
    }

    fn pop(&mut self, machine: impl Machine) -> Option<Phys> {
        self.len = self.len.checked_sub(1)?;
        let frame = self.first;
        let table = machine.table(frame);
        self.first = Phys(table.get(0).0);
        table.set(0, Entry::EMPTY);
        Some(frame)
    }

    /// Moves all of `other` in front.
    fn take(&mut self, machine: impl Machine, other: &mut List) {
        if other.len > 0 {
            machine.table(other.last).note(0, self.first);
            if self.len == 0 {
                self.last = other.last;
            }
            self.first = other.first;
            self.len += other.len;
            *other = List::default();
        }
    }
}

/// Free tables of levels 1 and 2. There is one of level 3 and one of level 4, which stay.
pub(super) struct Pool {
    /// Frames that were never a table: the next, and the end.
    unused: [Phys; 2],
    free: [List; 2],
    /// Emptied since the last flush: this rank's cores may still walk them.
    emptied: [List; 2],
}

impl Pool {
    /// All of `memory` is free.
    pub fn new(memory: PhysRange) -> Pool {
        Pool {
            unused: [memory.start, memory.end],
            free: Default::default(),
            emptied: Default::default(),
        }
    }

    /// Bytes of frames that were never a table.
    pub fn unused_bytes(&self) -> u64 {
        self.unused[1] - self.unused[0]
    }

    /// An empty table of `level` in a frame that was none.
    fn fresh(&mut self, machine: impl Machine, level: Level) -> Option<Phys> {
        let frame = self.unused[0];
        if self.unused_bytes() < PAGE_BYTES {
            return None;
        }
        self.unused[0] = frame + PAGE_BYTES;
        machine.new_table(frame, level);
        Some(frame)
    }

    /// Whether there are tables for two new mappings of `len_bytes` each, wherever they lie.
    pub fn has_room_for_two(&self, len_bytes: u64) -> bool {
        let lowest = 2 * (len_bytes / span(2) + 2);
        // Of the level above, two at either end.
        let above = 2 * (len_bytes / span(3) + 2);
        let free = self.free[0].len.saturating_sub(RESERVED) as u64;
        (lowest.saturating_sub(free) + above) * PAGE_BYTES <= self.unused_bytes()
    }

    /// Bytes that one of the tables emptied since the last flush covered: of the largest; of none a page.
    pub fn covered_by_emptied(&self) -> u64 {
        match self.emptied {
            [_, List { len: 1.., .. }] => span(3),
            [List { len: 1.., .. }, _] => span(2),
            _ => PAGE_BYTES,
        }
    }

    /// The cores' translations have been flushed.
    pub fn flushed(&mut self, machine: impl Machine) {
        // BOUND: the levels of tables.
        for (free, emptied) in self.free.iter_mut().zip(&mut self.emptied) {
            free.take(machine, emptied);
        }
    }
}

#[cfg(test)]
impl Pool {
    /// Has `left` frames that were never a table.
    pub fn leave(&mut self, left: u64) {
        self.unused[1] = self.unused[0] + left * PAGE_BYTES;
    }

    /// All free tables.
    pub fn frames(&self, machine: impl Machine) -> std::vec::Vec<Phys> {
        let mut frames = std::vec::Vec::new();
        // BOUND: only in tests.
        for list in self.free.iter().chain(&self.emptied) {
            let mut at = list.first;
            // BOUND: only in tests.
            for _ in 0..list.len {
                frames.push(at);
                at = Phys(machine.table(at).get(0).0);
            }
        }
        frames
    }
}

/// Page tables of an address space.
pub(super) struct PartitionTables<'a, M> {
    pub machine: M,
    /// Where what was mapped goes.
    pub frames: &'a mut Frames,
    /// Where tables come from, and go.
    pub pool: &'a mut Pool,
    pub purpose: Purpose,
}

/// What tables are needed for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// New mappings, which may fail: not those that are set aside.
    Mapping,
    /// Borders in large pages, which must not fail.
    Borders,
}

impl<M: Machine> PartitionTables<'_, M> {
    /// Sets tables aside for borders at start and end of `range`; `false`: there is no memory for them. More than are needed now,
    /// while there is memory: with none left, a program that gives some back must be able to.
    #[must_use]
    pub fn reserve(&mut self, root: Phys, range: VaRange) -> bool {
        // The usual case: enough for any two borders.
        // BOUND: the levels of tables.
        if self.pool.free.iter().all(|list| list.len >= RESERVED) {
            return true;
        }
        let (below, above) = (
            paging::tables_for_border(self, root, range.start),
            paging::tables_for_border(self, root, range.end),
        );
        // BOUND: the levels of tables.
        (0..self.pool.free.len()).all(|i| {
            // BOUND: RESERVED.
            while self.pool.free[i].len < RESERVED {
                let Some(frame) = self.pool.fresh(self.machine, i as Level + 1) else {
                    break;
                };
                self.pool.free[i].push(self.machine, frame);
            }
            self.pool.free[i].len >= below[i] + above[i]
        })
    }

    /// Retires what was unmapped; `clean`: it holds zeros. What is not of the partition is left to its owner.
    pub fn retire(&mut self, pa: Phys, len_bytes: u64, clean: bool) {
        if self.frames.holds(pa, len_bytes) {
            self.frames
                .retire(pa, len_bytes, clean)
                .expect("what was mapped was in use");
        }
    }

    /// The lists of tables of `level`.
    fn index(level: Level) -> Option<usize> {
        match level {
            1 | 2 => Some(level as usize - 1),
            _ => None,
        }
    }
}

impl<M: Machine> Tables for PartitionTables<'_, M> {
    type Table = M::Table;

    #[inline]
    fn table(&self, frame: Phys) -> M::Table {
        self.machine.table(frame)
    }

    #[inline]
    fn below(&self, table: &M::Table, index: usize, entry: Entry) -> M::Table {
        self.machine.below(table, index, entry)
    }

    fn alloc_table(&mut self, level: Level) -> Option<Phys> {
        let kept = match self.purpose {
            Purpose::Borders => 0,
            Purpose::Mapping => RESERVED,
        };
        Self::index(level)
            .filter(|&i| self.pool.free[i].len > kept)
            .and_then(|i| self.pool.free[i].pop(self.machine))
            .or_else(|| self.pool.fresh(self.machine, level))
    }

    fn free_table(&mut self, frame: Phys, level: Level) {
        let i = Self::index(level).expect("the upper tables stay");
        self.pool.emptied[i].push(self.machine, frame);
    }

    #[inline]
    fn point(&self, work: u32) {
        M::point(work);
    }
}
