//! 4-level page tables of one rank's slot 0, walked by code that has never seen hardware.
//!
//! The kernel implements [`Tables`] over physical memory; tests implement it over a hash map. All
//! ranges are page-aligned and lie inside slot 0 (below 512 GiB). Every walk has preemption points. SMARTMAP windows of other ranks
//! point at the very same page-directory-pointer table ([`own_table`]), therefore that table stays
//! where it is as long as the address space lives, while lower tables come and go.
//!
//! Other CPUs walk these tables at any time: this rank's threads, and every peer through its
//! window. The one thing they write is the dirty bit, so entries that may become dirty are replaced
//! by compare-and-exchange only. TLB invalidation is the caller's; nothing here caches anything.
//!
//! Tables are allocated before anything is changed, or the change is unwound: on [`OutOfTables`]
//! every address translates as before (a large page may have been split, which cannot be seen).
//!
//! When would we revisit it? LA57 adds a level above; the walks start at level 3 and do not care.

mod change;
pub mod entry;
mod fault;
mod map;
mod relocate;
mod report;
mod slot;
mod table;
#[cfg(test)]
mod tests;

pub use change::{mark_dirty, protect, reach, replace, visit_dirty};
pub use fault::{WindowFault, allows, is_of_access, window_fault};
pub use map::{MapOptions, destroy, map, own_table, unmap};
pub use relocate::move_range;
pub use report::{Extent, Stretch, Translation, extent_at, extents, stretch, translate};
pub use table::{GROUP, Table};

use abi::addr::{Phys, Va, VaRange};
use entry::{Entry, Level, span};
use slot::Slot;

/// Access to table memory. A table is named by its frame's physical address.
pub trait Tables {
    /// A handle to a table, for as long as its frame is one.
    type Table: Table;

    /// The table in `frame`.
    fn table(&self, frame: Phys) -> Self::Table;

    /// The table that entry `index` of `table` points to; `entry` is what was read there. Where every entry that points to a table is
    /// known to, it need not be looked up.
    #[inline]
    fn below(&self, table: &Self::Table, index: usize, entry: Entry) -> Self::Table {
        let _ = (table, index);
        self.table(entry.address())
    }

    /// A zeroed frame for a new table of `level`.
    fn alloc_table(&mut self, level: Level) -> Option<Phys>;

    /// Takes back an emptied table of `level`. CPUs may still hold it in their page-walk caches: this
    /// rank's until they are flushed, its peers' for ever. So it may only become a table of the same
    /// level again: read as one of another level, its entries would mean something else.
    fn free_table(&mut self, frame: Phys, level: Level);

    /// A preemption point (see [`crate::Point`]).
    fn point(&self, work: u32);
}

/// No frame for a table was to be had; no translation has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTables;

/// Any bit: what a leaf has and an empty entry has not.
const ANY: u64 = u64::MAX;

/// Calls `visit` for each leaf that touches `range` and has any of `bits`, in address order.
fn for_each_leaf<T: Tables>(
    t: &mut T,
    root: Phys,
    range: VaRange,
    bits: u64,
    visit: &mut impl FnMut(&mut T, &Slot<T::Table>, Entry),
) {
    if range.start < range.end
        && let Some(path) = descend(t, root, range)
    {
        walk(t, (&path.table, path.level), range, bits, visit);
    }
}

/// The way down to the lowest existing table that covers all of a range. Small ranges need no recursion from there.
struct Path<T> {
    table: T,
    level: Level,
    /// The tables that lead there: at `i` that of level `i + 2`.
    above: [Option<T>; 2],
}

/// The [`Path`] to `range`; None: nothing has been mapped yet.
#[inline]
fn descend<T: Tables>(t: &T, root: Phys, range: VaRange) -> Option<Path<T::Table>> {
    let mut path = Path::from_top(top(t, root)?);
    // BOUND: the levels.
    while path.level > 1 && (range.start.0 ^ (range.end.0 - 1)) >> entry::shift(path.level) == 0 {
        let slot = Slot::of(&path.table, path.level, range.start);
        let entry = slot.read();
        if !entry.is_table() {
            break;
        }
        path.level -= 1;
        path.table = t.below(&slot.table, slot.index, entry);
        path.above[path.level as usize - 1] = Some(slot.table);
    }
    Some(path)
}

fn walk<T: Tables>(
    t: &mut T,
    (table, level): (&T::Table, Level),
    range: VaRange,
    bits: u64,
    visit: &mut impl FnMut(&mut T, &Slot<T::Table>, Entry),
) {
    let mut turns = Turns::default();
    let VaRange { start: mut va, end } = range;
    while va < end {
        let slot = Slot::of(table, level, va);
        let mut stop = end.min(slot.va + span(level));
        let entry = slot.read();
        if entry.is_table() {
            let below = t.below(&slot.table, slot.index, entry);
            walk(t, (&below, level - 1), va.until(stop), bits, visit);
        } else if entry.0 & bits != 0 {
            visit(t, &slot, entry);
        } else {
            // Above level 1 there may be tables among the others.
            let bits = if level == 1 { bits } else { ANY };
            let others = slot.without(bits, end).max(1);
            stop = end.min(slot.va + others as u64 * span(level));
            t.point(3 * others as u32);
        }
        va = stop;
        turns.next(t);
    }
    turns.end(t);
}

/// The work of a loop over the entries of a table: too little in each turn to be a preemption point by itself.
#[derive(Default)]
struct Turns(u32);

impl Turns {
    /// Instructions of a turn, with what is done to an entry.
    const ENTRY: u32 = 64;
    const LET_PASS: u32 = 16 * Self::ENTRY;

    /// One more turn.
    fn next(&mut self, t: &impl Tables) {
        self.0 += Self::ENTRY;
        if self.0 > Self::LET_PASS {
            t.point(core::mem::take(&mut self.0));
        }
    }

    fn end(self, t: &impl Tables) {
        t.point(self.0);
    }
}

/// The leaf of `va`, be it a PROT_NONE entry.
#[inline]
fn find_leaf<T: Tables>(t: &T, root: Phys, va: Va) -> Option<(Slot<T::Table>, Entry)> {
    let mut table = top(t, root)?;
    let mut level = 3;
    // BOUND: the levels.
    loop {
        let slot = Slot::of(&table, level, va);
        let entry = slot.read();
        if entry.is_empty() {
            return None;
        }
        if !entry.is_table() {
            return Some((slot, entry));
        }
        table = t.below(&slot.table, slot.index, entry);
        level -= 1;
    }
}

/// The table at level 3, once something has been mapped.
#[inline]
fn top<T: Tables>(t: &T, root: Phys) -> Option<T::Table> {
    let root = t.table(root);
    let entry = root.get(0);
    entry.is_present().then(|| t.below(&root, 0, entry))
}

impl<T: Table> Path<T> {
    /// The path that ends at the table at level 3.
    fn from_top(table: T) -> Self {
        Self {
            table,
            level: 3,
            above: [None, None],
        }
    }

    /// The entries that lead to what begins at `start`, the lowest first.
    fn entries(&self, start: Va) -> impl Iterator<Item = Slot<T>> {
        let tables = self.above.iter().zip(2..);
        tables.filter_map(move |(table, level)| Some(Slot::of(table.as_ref()?, level, start)))
    }

    /// Makes start and end of its range borders between leaves: those that extend across are split. With the same
    /// translation and access before and after, a TLB that still holds a large page is right until the caller changes one of
    /// the parts and flushes. The path stays one.
    fn split_borders<U: Tables<Table = T>>(
        &self,
        t: &mut U,
        root: Phys,
        range: VaRange,
    ) -> Result<(), OutOfTables> {
        if self.level > 1 {
            split_at(t, root, range.start)?;
            split_at(t, root, range.end)?;
        }
        Ok(())
    }
}

/// Splits any leaf that extends across `va`.
fn split_at(t: &mut impl Tables, root: Phys, va: Va) -> Result<(), OutOfTables> {
    // BOUND: the levels.
    while let Some((slot, entry)) = find_leaf(t, root, va)
        && slot.va != va
    {
        split(t, slot, entry)?;
    }
    Ok(())
}

/// Tables of level 1 and of level 2 that it takes to make `va` a border between leaves.
pub fn tables_for_border(t: &impl Tables, root: Phys, va: Va) -> [usize; 2] {
    let Some((slot, _)) = find_leaf(t, root, va).filter(|(slot, _)| slot.va != va) else {
        return [0, 0];
    };
    let small = !va.is_aligned(span(2));
    [usize::from(small), usize::from(slot.level == 3)]
}

/// Replaces a large leaf by a table of 512 leaves of the next smaller size.
fn split<T: Tables>(t: &mut T, slot: Slot<T::Table>, leaf: Entry) -> Result<(), OutOfTables> {
    let frame = t.alloc_table(slot.level - 1).ok_or(OutOfTables)?;
    t.point(512 * 5);
    let parts = t.table(frame);
    let mut current = leaf;
    // BOUND: again only when hardware has set D, which it does once.
    loop {
        let first = current.part(slot.level);
        parts.set_leaves(0, 512, first, slot.level - 1);
        match slot
            .table
            .exchange(slot.index, current, Entry::table(frame, 512))
        {
            Ok(()) => return Ok(()),
            Err(now) => current = now,
        }
    }
}
