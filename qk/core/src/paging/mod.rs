//! 4-level page tables of one rank's slot 0, walked by code that has never seen hardware.
//!
//! The kernel implements [`Tables`] over physical memory; tests implement it over a hash map. All
//! ranges are page-aligned and lie inside slot 0 (below 512 GiB). SMARTMAP windows of other ranks
//! point at the very same page-directory-pointer table ([`set_window`]), therefore that table stays
//! where it is as long as the address space lives, while lower tables come and go.
//!
//! Other CPUs walk these tables at any time: this rank's threads, and every peer through its
//! window. The one thing they write is the dirty bit, so entries that may become dirty are replaced
//! by compare-and-exchange only. TLB invalidation is the caller's; nothing here caches anything.
//!
//! Tables are allocated before anything is changed, or the change is unwound: on [`OutOfTables`]
//! every address translates as before (a large page may have been split, which nobody can see).
//!
//! When would we revisit it? LA57 adds a level above; the walks start at level 3 and do not care.

mod change;
pub mod entry;
mod map;
mod relocate;
mod report;
#[cfg(test)]
mod tests;

pub use change::{mark_dirty, protect, visit_dirty};
pub use map::{MapOptions, destroy, map, own_table, set_window, unmap};
pub use relocate::move_range;
pub use report::{Extent, Translation, extents, translate, vacant, vacant_until};

use crate::page::PageSize;
use entry::{Entry, Level, index, span};

/// Access to table memory. A table is named by its frame's physical address.
pub trait Tables {
    /// Entry `index` (0..512) of `table`.
    fn read(&self, table: u64, index: usize) -> u64;

    /// Sets entry `index` of `table` with a single 8-byte store.
    fn write(&mut self, table: u64, index: usize, entry: u64);

    /// Sets the entry to `new` if it is `current`, as one atomic step with respect to every CPU
    /// that walks the table.
    ///
    /// # Errors
    /// What the entry is instead.
    fn exchange(&mut self, table: u64, index: usize, current: u64, new: u64) -> Result<(), u64>;

    /// A zeroed frame for a new table.
    fn alloc_table(&mut self) -> Option<u64>;

    /// Takes back an emptied table. CPUs may still hold it in their page-walk caches, so it must
    /// not be reused before they have been flushed.
    fn free_table(&mut self, frame: u64);
}

/// No frame for a table was to be had; no translation has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTables;

/// Where an entry sits.
#[derive(Clone, Copy)]
struct Slot {
    table: u64,
    index: usize,
    level: Level,
    /// First address the entry translates.
    va: u64,
}

impl Slot {
    fn read(self, t: &impl Tables) -> Entry {
        Entry(t.read(self.table, self.index))
    }

    fn write(self, t: &mut impl Tables, entry: Entry) {
        t.write(self.table, self.index, entry.0);
    }

    /// Replaces leaf `old` by what `new` makes of it, without losing a D that hardware sets
    /// meanwhile. Returns the leaf that was replaced.
    fn replace(self, t: &mut impl Tables, mut old: Entry, new: impl Fn(Entry) -> Entry) -> Entry {
        if !old.may_become_dirty() {
            self.write(t, new(old));
            return old;
        }
        while let Err(now) = t.exchange(self.table, self.index, old.0, new(old).0) {
            old = Entry(now);
        }
        old
    }
}

/// The slots of `table` that `[start, end)` touches; the range must lie inside what it covers.
fn slots(table: u64, level: Level, start: u64, end: u64) -> impl Iterator<Item = Slot> {
    let first = start & !(span(level) - 1);
    let count = (end - first).div_ceil(span(level));
    (0..count).map(move |i| {
        let va = first + i * span(level);
        Slot {
            table,
            index: index(va, level),
            level,
            va,
        }
    })
}

/// Calls `visit` for each leaf that touches `[start, end)`, in address order.
fn for_each_leaf<T: Tables>(
    t: &mut T,
    root: u64,
    start: u64,
    end: u64,
    visit: &mut impl FnMut(&mut T, Slot, Entry),
) {
    if start < end
        && let Some(table) = own_table(t, root)
    {
        let (lowest, level, _) = descend(t, table, start, end);
        walk(t, lowest, level, start, end, visit);
    }
}

/// The lowest existing table that covers all of `[start, end)`, its level, and the entry that
/// points to it (None for `top`, the table at level 3). Small ranges need no recursion from there.
fn descend(t: &impl Tables, top: u64, start: u64, end: u64) -> (u64, Level, Option<(Slot, Entry)>) {
    let (mut table, mut level, mut parent) = (top, 3, None);
    while level > 1 && (start ^ (end - 1)) >> entry::shift(level) == 0 {
        let slot = Slot {
            table,
            index: index(start, level),
            level,
            va: start & !(span(level) - 1),
        };
        let entry = slot.read(t);
        if !entry.is_table(level) {
            break;
        }
        (table, level, parent) = (entry.address(), level - 1, Some((slot, entry)));
    }
    (table, level, parent)
}

fn walk<T: Tables>(
    t: &mut T,
    table: u64,
    level: Level,
    start: u64,
    end: u64,
    visit: &mut impl FnMut(&mut T, Slot, Entry),
) {
    for slot in slots(table, level, start, end) {
        let entry = slot.read(t);
        if entry.is_empty() {
            continue;
        }
        if entry.is_table(level) {
            let (from, to) = (start.max(slot.va), end.min(slot.va + span(level)));
            walk(t, entry.address(), level - 1, from, to, visit);
        } else {
            visit(t, slot, entry);
        }
    }
}

/// The leaf that translates (or keeps) `va`.
fn find_leaf(t: &impl Tables, root: u64, va: u64) -> Option<(Slot, Entry)> {
    let mut table = own_table(t, root)?;
    let mut level = 3;
    loop {
        let slot = Slot {
            table,
            index: index(va, level),
            level,
            va: va & !(span(level) - 1),
        };
        let entry = slot.read(t);
        if entry.is_empty() {
            return None;
        }
        if !entry.is_table(level) {
            return Some((slot, entry));
        }
        table = entry.address();
        level -= 1;
    }
}

/// Makes `va` a border between leaves of at most `max` around it: any leaf that extends across
/// `va` is split. With the same translation and access before and after, a TLB that still holds the
/// large page is right until the caller changes one of the parts and flushes.
fn split_at(t: &mut impl Tables, root: u64, va: u64) -> Result<(), OutOfTables> {
    while let Some((slot, entry)) = find_leaf(t, root, va)
        && slot.va != va
    {
        split(t, slot, entry)?;
    }
    Ok(())
}

/// Replaces a large leaf by a table of 512 leaves of the next smaller size.
fn split(t: &mut impl Tables, slot: Slot, leaf: Entry) -> Result<(), OutOfTables> {
    let table = t.alloc_table().ok_or(OutOfTables)?;
    let mut current = leaf;
    loop {
        for i in 0..512 {
            t.write(table, i, current.part(slot.level, i as u64).0);
        }
        let new = Entry::table(table, 512);
        match t.exchange(slot.table, slot.index, current.0, new.0) {
            Ok(()) => return Ok(()),
            Err(now) => current = Entry(now),
        }
    }
}

/// The size of the leaf in `slot`.
fn leaf_size(slot: Slot) -> PageSize {
    entry::size_at(slot.level)
}
