//! Frames of page tables. They are type-stable: a frame that was a table of some level is only ever a table of that level
//! again while the address space lives.
//!
//! A peer that has a window on this rank may keep a translation of an upper entry for any time. It then walks a
//! table that has another place by now, and reaches memory of this same rank, or nothing. Were the frame a page of data,
//! or a table of another level, the peer would take its contents for entries, and reach whatever they say.
//!
//! The other way round a frame that was data becomes a table only after the peers' cores have dropped their translations of
//! it ([`super::stale`]): with one that is left, a peer could write entries of its own.
//!
//! Free tables are linked through their first entry, which has P clear, so that a walk that still reaches one finds nothing.

use crate::frames::Frames;
use crate::page::{PAGE_BYTES, PageSize};
use crate::paging::entry::{Entry, Level, span};
use crate::paging::{self, Table, Tables};

use super::Machine;
use super::stale::Stale;

/// Tables of each level that a change may need: a large page is split at either border, a gigabyte in two steps.
const RESERVED: usize = 2;

/// A list of free tables, linked through their first entries.
#[derive(Clone, Copy, Default)]
struct List {
    /// Physical address of the first; 0: none.
    first: u64,
    last: u64,
    len: usize,
}

impl List {
    fn push(&mut self, machine: impl Machine, frame: u64) {
        machine.table(frame).set(0, Entry(self.first));
        if self.len == 0 {
            self.last = frame;
        }
        self.first = frame;
        self.len += 1;
    }

    fn pop(&mut self, machine: impl Machine) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        let frame = self.first;
        let table = machine.table(frame);
        self.first = table.get(0).0;
        table.set(0, Entry::EMPTY);
        Some(frame)
    }

    /// Moves all of `other` in front.
    fn take(&mut self, machine: impl Machine, other: &mut List) {
        if other.len > 0 {
            machine.table(other.last).set(0, Entry(self.first));
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
    free: [List; 2],
    /// Emptied since the last flush: this rank's cores may still walk them.
    emptied: [List; 2],
}

impl Pool {
    pub fn new() -> Pool {
        Pool {
            free: Default::default(),
            emptied: Default::default(),
        }
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
    /// All free tables.
    pub fn frames(&self, machine: impl Machine) -> std::vec::Vec<u64> {
        let mut frames = std::vec::Vec::new();
        // BOUND: only in tests.
        for list in self.free.iter().chain(&self.emptied) {
            let mut at = list.first;
            // BOUND: only in tests.
            for _ in 0..list.len {
                frames.push(at);
                at = machine.table(at).get(0).0;
            }
        }
        frames
    }
}

/// Page tables in memory of a partition.
pub(super) struct ShareTables<'a, M> {
    pub machine: M,
    /// Where new tables come from.
    pub frames: &'a mut Frames,
    /// Where old ones go.
    pub pool: &'a mut Pool,
    /// What peers may still see as it was.
    pub stale: &'a mut Stale,
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

impl<M: Machine> ShareTables<'_, M> {
    /// Sets tables aside for borders at `start` and `end`; `false`: there is no memory for them. More than are needed now,
    /// while there is memory: with none left, a program that gives some back must be able to.
    #[must_use]
    pub fn reserve(&mut self, root: u64, start: u64, end: u64) -> bool {
        // The usual case: enough for any two borders.
        // BOUND: the levels of tables.
        if self.pool.free.iter().all(|list| list.len >= RESERVED) {
            return true;
        }
        let (below, above) = (
            paging::tables_for_border(self, root, start),
            paging::tables_for_border(self, root, end),
        );
        // BOUND: the levels of tables.
        (0..self.pool.free.len()).all(|i| {
            // BOUND: RESERVED.
            while self.pool.free[i].len < RESERVED {
                let Some(frame) = self.fresh_table() else {
                    break;
                };
                self.pool.free[i].push(self.machine, frame);
            }
            self.pool.free[i].len >= below[i] + above[i]
        })
    }

    /// Retires what was unmapped; `clean`: it holds zeros. What is not of the partition is left to its owner.
    pub fn retire(&mut self, pa: u64, len_bytes: u64, clean: bool) {
        if self.frames.holds(pa, len_bytes) {
            self.frames
                .retire(pa, len_bytes, clean)
                .expect("what was mapped was in use");
        }
    }

    fn fresh_table(&mut self) -> Option<u64> {
        let frame = self.frames.alloc(PageSize::Size4K)?;
        if !self.stale.is_empty() {
            // Among what peers may still see it may have been data.
            self.machine.flush_windows();
            self.stale.clear();
        }
        if !frame.zero {
            self.machine.zero(frame.addr, PageSize::Size4K.bytes());
        }
        Some(frame.addr)
    }

    /// The lists of tables of `level`.
    fn index(level: Level) -> Option<usize> {
        match level {
            1 | 2 => Some(level as usize - 1),
            _ => None,
        }
    }
}

impl<M: Machine> Tables for ShareTables<'_, M> {
    type Table = M::Table;

    #[inline]
    fn table(&self, frame: u64) -> M::Table {
        self.machine.table(frame)
    }

    fn alloc_table(&mut self, level: Level) -> Option<u64> {
        let kept = match self.purpose {
            Purpose::Borders => 0,
            Purpose::Mapping => RESERVED,
        };
        Self::index(level)
            .filter(|&i| self.pool.free[i].len > kept)
            .and_then(|i| self.pool.free[i].pop(self.machine))
            .or_else(|| self.fresh_table())
    }

    fn free_table(&mut self, frame: u64, level: Level) {
        let i = Self::index(level).expect("the upper tables stay");
        self.pool.emptied[i].push(self.machine, frame);
    }

    #[inline]
    fn point(&self, work: u32) {
        M::point(work);
    }
}
