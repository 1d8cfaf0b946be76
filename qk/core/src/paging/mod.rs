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
#[cfg(test)]
mod tests;

pub use change::{mark_dirty, protect, reach, replace, visit_dirty};
pub use fault::{WindowFault, allows, window_fault};
pub use map::{MapOptions, destroy, map, own_table, unmap};
pub use relocate::move_range;
pub use report::{Extent, Stretch, Translation, extent_at, extents, stretch, translate};

use crate::page::PageSize;
use entry::{Entry, Level, index, span};

/// Entries that [`Table::bits_of_group`] looks at together.
pub const GROUP: usize = 16;

/// The 512 entries of a table. Indices are below 512.
pub trait Table: Clone {
    /// An entry.
    fn get(&self, index: usize) -> Entry;

    /// The bits that any of [`GROUP`] entries from `first` on has. To pass over many entries with few instructions.
    fn bits_of_group(&self, first: usize) -> u64 {
        // BOUND: GROUP.
        (first..first + GROUP).fold(0, |bits, index| bits | self.get(index).0)
    }

    /// Sets an entry with a single 8-byte store.
    fn set(&self, index: usize, entry: Entry);

    /// Sets `count` entries from `first` on to `leaf` and those that follow it. As one change, so that a table which checks what is
    /// set has one check to do.
    fn set_leaves(&self, first: usize, count: usize, mut leaf: Entry, level: Level) {
        // BOUND: the entries of a table; the caller counts them.
        for i in first..first + count {
            self.set(i, leaf);
            leaf = leaf.following(level);
        }
    }

    /// Empties [`GROUP`] entries from `first` on.
    fn clear_group(&self, first: usize) {
        // BOUND: GROUP.
        for i in 0..GROUP {
            self.set(first + i, Entry::EMPTY);
        }
    }

    /// Sets how many entries are in use of the table that an entry points to.
    fn set_count(&self, index: usize, entry: Entry, count: u64) {
        self.set(index, entry.with_count(count));
    }

    /// Keeps the address of a frame in an entry of a table that is not in use.
    fn note(&self, index: usize, frame: u64) {
        self.set(index, Entry(frame));
    }

    /// Empties `groups` times [`GROUP`] entries from `first` on as [`Table::exchange`] does, up to the first that is not `leaf` or the
    /// one that follows it. Returns how many. As one change, as [`Table::set_leaves`].
    fn take_groups(&self, first: usize, groups: usize, leaf: Entry, level: Level) -> usize {
        let is_taken = |i: &usize| {
            let next = Entry(leaf.0 + *i as u64 * span(level));
            self.exchange(first + i, next, Entry::EMPTY).is_ok()
        };
        // BOUND: the entries of a table; the caller counts them.
        (0..groups * GROUP).take_while(is_taken).count()
    }

    /// The bits in which [`GROUP`] entries from `first` on differ from `leaf` and those that follow it.
    fn differences_of_group(&self, first: usize, leaf: Entry, step: u64) -> u64 {
        // BOUND: GROUP.
        (0..GROUP).fold(0, |bits, i| {
            bits | self.get(first + i).0 ^ (leaf.0 + i as u64 * step)
        })
    }

    /// Sets an entry to `new` if it is `current`, as one atomic step with respect to every CPU
    /// that walks the table.
    ///
    /// # Errors
    /// What the entry is instead.
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry>;
}

/// Access to table memory. A table is named by its frame's physical address.
pub trait Tables {
    /// A handle to a table, for as long as its frame is one.
    type Table: Table;

    /// The table in `frame`.
    fn table(&self, frame: u64) -> Self::Table;

    /// The table that entry `index` of `table` points to; `entry` is what was read there. Where every entry that points to a table is
    /// known to, it need not be looked up.
    #[inline]
    fn below(&self, table: &Self::Table, index: usize, entry: Entry) -> Self::Table {
        let _ = (table, index);
        self.table(entry.address())
    }

    /// A zeroed frame for a new table of `level`.
    fn alloc_table(&mut self, level: Level) -> Option<u64>;

    /// Takes back an emptied table of `level`. CPUs may still hold it in their page-walk caches: this
    /// rank's until they are flushed, its peers' for ever. So it may only become a table of the same
    /// level again: read as one of another level, its entries would mean something else.
    fn free_table(&mut self, frame: u64, level: Level);

    /// A preemption point (see [`crate::Point`]).
    fn point(&self, work: u32);
}

/// No frame for a table was to be had; no translation has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTables;

/// Where an entry sits.
#[derive(Clone)]
struct Slot<T> {
    table: T,
    index: usize,
    level: Level,
    /// First address the entry translates.
    va: u64,
}

impl<T: Table> Slot<T> {
    /// The slot of `table` that translates `va`.
    fn of(table: &T, level: Level, va: u64) -> Self {
        Self {
            table: table.clone(),
            index: index(va, level),
            level,
            va: va & !(span(level) - 1),
        }
    }

    fn read(&self) -> Entry {
        self.table.get(self.index)
    }

    fn write(&self, entry: Entry) {
        self.table.set(self.index, entry);
    }

    /// Has its entry, which points to a table, say how many of that table's are in use.
    fn write_count(&self, entry: Entry, count: u64) {
        self.table.set_count(self.index, entry, count);
    }

    /// Replaces leaf `old` by what `new` makes of it, without losing a D that hardware sets
    /// meanwhile. Returns the leaf that was replaced.
    fn replace(&self, mut old: Entry, new: impl Fn(Entry) -> Entry) -> Entry {
        if !old.may_become_dirty() {
            self.write(new(old));
            return old;
        }
        // BOUND: until hardware has set D, which it does once.
        while let Err(now) = self.table.exchange(self.index, old, new(old)) {
            old = now;
        }
        old
    }

    /// Takes out its leaf `old` and those behind it, as far as they continue it: adjacent frames, the
    /// same access, equally dirty. Returns the leaf as it was last, and how many went; at most those
    /// that begin below `end`.
    fn take_run(&self, old: Entry, end: u64) -> (Entry, u64) {
        let first = self.replace(old, |_| Entry::EMPTY);
        let racing = first.may_become_dirty();
        let most = self.entries_until(end);
        let mut count = 1;
        if most > GROUP {
            count += self.take_groups(first, racing, most - 1);
        }
        let mut next = Entry(first.0 + (count - 1) as u64 * span(self.level));
        // BOUND: the entries of a table; the caller counts them.
        while count < most {
            next = next.following(self.level);
            let index = self.index + count;
            if racing {
                if self.table.exchange(index, next, Entry::EMPTY).is_err() {
                    break;
                }
            } else if self.table.get(index) == next {
                self.table.set(index, Entry::EMPTY);
            } else {
                break;
            }
            count += 1;
        }
        (first, count as u64)
    }

    /// How many leaves from its `first` on continue it: adjacent frames, the same access. At most
    /// those that begin below `end`.
    fn run(&self, first: Entry, end: u64) -> u64 {
        let most = self.entries_until(end);
        let (mut next, mut count) = (first.clean(), 1);
        if most > GROUP {
            count += self.run_of_groups(next, most - 1);
            next = Entry(next.0 + (count - 1) as u64 * span(self.level));
        }
        // BOUND: the entries of a table; the caller counts them.
        while count < most {
            next = next.following(self.level);
            if self.table.get(self.index + count).clean() != next {
                break;
            }
            count += 1;
        }
        count as u64
    }

    /// How many entries from this one on have none of `bits`, of those that begin below `end`.
    fn without(&self, bits: u64, end: u64) -> usize {
        let most = self.entries_until(end);
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most && self.table.bits_of_group(self.index + count) & bits == 0 {
            count += GROUP;
        }
        // BOUND: the entries of a table; the caller counts them.
        while count < most && self.table.get(self.index + count).0 & bits == 0 {
            count += 1;
        }
        count
    }

    /// Takes out entries behind this one, of `most`, that continue `first`, in groups as far as these are whole; `racing`:
    /// hardware may set D meanwhile. Returns how many.
    #[inline(never)]
    fn take_groups(&self, first: Entry, racing: bool, most: usize) -> usize {
        let step = span(self.level);
        if racing {
            let next = Entry(first.0 + step);
            let groups = most / GROUP;
            return self
                .table
                .take_groups(self.index + 1, groups, next, self.level);
        }
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most {
            let expected = Entry(first.0 + (count as u64 + 1) * step);
            let index = self.index + 1 + count;
            if self.table.differences_of_group(index, expected, step) != 0 {
                break;
            }
            self.table.clear_group(index);
            count += GROUP;
        }
        count
    }

    /// How many entries behind this one, `most` of them, continue `first` in whole groups.
    #[inline(never)]
    fn run_of_groups(&self, first: Entry, most: usize) -> usize {
        let step = span(self.level);
        let mut count = 0;
        // BOUND: the entries of a table; the caller counts them.
        while count + GROUP <= most {
            let expected = Entry(first.0 + (count as u64 + 1) * step);
            let table = &self.table;
            let differences = table.differences_of_group(self.index + 1 + count, expected, step);
            if Entry(differences).clean() != Entry::EMPTY {
                break;
            }
            count += GROUP;
        }
        count
    }

    /// Entries of its table from this one on that translate something below `end`.
    fn entries_until(&self, end: u64) -> usize {
        let entries = (end - self.va).div_ceil(span(self.level)) as usize;
        entries.min(512 - self.index)
    }

    /// The size of the leaf in it.
    fn leaf_size(&self) -> PageSize {
        entry::size_at(self.level)
    }
}

/// Any bit: what a leaf has and an empty entry has not.
const ANY: u64 = u64::MAX;

/// Calls `visit` for each leaf that touches `[start, end)` and has any of `bits`, in address order.
fn for_each_leaf<T: Tables>(
    t: &mut T,
    root: u64,
    [start, end]: [u64; 2],
    bits: u64,
    visit: &mut impl FnMut(&mut T, &Slot<T::Table>, Entry),
) {
    if start < end
        && let Some(path) = descend(t, root, start, end)
    {
        walk(t, (&path.table, path.level), [start, end], bits, visit);
    }
}

/// The way down to the lowest existing table that covers all of a range. Small ranges need no recursion from there.
struct Path<T> {
    table: T,
    level: Level,
    /// The tables that lead there: at `i` that of level `i + 2`.
    above: [Option<T>; 2],
}

/// The [`Path`] to `[start, end)`; None: nothing has been mapped yet.
#[inline]
fn descend<T: Tables>(t: &T, root: u64, start: u64, end: u64) -> Option<Path<T::Table>> {
    let mut path = Path::from_top(top(t, root)?);
    // BOUND: the levels.
    while path.level > 1 && (start ^ (end - 1)) >> entry::shift(path.level) == 0 {
        let slot = Slot::of(&path.table, path.level, start);
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
    [start, end]: [u64; 2],
    bits: u64,
    visit: &mut impl FnMut(&mut T, &Slot<T::Table>, Entry),
) {
    let mut turns = Turns::default();
    let mut va = start;
    while va < end {
        let slot = Slot::of(table, level, va);
        let mut stop = end.min(slot.va + span(level));
        let entry = slot.read();
        if entry.is_table() {
            let below = t.below(&slot.table, slot.index, entry);
            walk(t, (&below, level - 1), [va, stop], bits, visit);
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

/// The leaf that translates (or keeps) `va`.
fn find_leaf<T: Tables>(t: &T, root: u64, va: u64) -> Option<(Slot<T::Table>, Entry)> {
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
fn top<T: Tables>(t: &T, root: u64) -> Option<T::Table> {
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
    fn entries(&self, start: u64) -> impl Iterator<Item = Slot<T>> {
        let tables = self.above.iter().zip(2..);
        tables.filter_map(move |(table, level)| Some(Slot::of(table.as_ref()?, level, start)))
    }

    /// Makes `start` and `end`, of its range, borders between leaves: those that extend across are split. With the same
    /// translation and access before and after, a TLB that still holds a large page is right until the caller changes one of
    /// the parts and flushes. The path stays one.
    fn split_borders<U: Tables<Table = T>>(
        &self,
        t: &mut U,
        root: u64,
        [start, end]: [u64; 2],
    ) -> Result<(), OutOfTables> {
        if self.level > 1 {
            split_at(t, root, start)?;
            split_at(t, root, end)?;
        }
        Ok(())
    }
}

/// Splits any leaf that extends across `va`.
fn split_at(t: &mut impl Tables, root: u64, va: u64) -> Result<(), OutOfTables> {
    // BOUND: the levels.
    while let Some((slot, entry)) = find_leaf(t, root, va)
        && slot.va != va
    {
        split(t, slot, entry)?;
    }
    Ok(())
}

/// Tables of level 1 and of level 2 that it takes to make `va` a border between leaves.
pub fn tables_for_border(t: &impl Tables, root: u64, va: u64) -> [usize; 2] {
    let Some((slot, _)) = find_leaf(t, root, va).filter(|(slot, _)| slot.va != va) else {
        return [0, 0];
    };
    let small = !va.is_multiple_of(span(2));
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
