//! Questions about the tables that change nothing.

use super::entry::{Level, shift, span};
use super::{ANY, Slot, Table, Tables, Turns, descend, find_leaf, top};
use crate::page::PageSize;
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};

/// What an address translates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Of the very byte.
    pub pa: Phys,
    /// What the MMU allows; empty for a PROT_NONE entry.
    pub prot: Prot,
    /// The page's size.
    pub size: PageSize,
    /// It may hold something else than zeros.
    pub dirty: bool,
}

/// A piece of memory that is adjacent both ways and has the same access throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Virtual address.
    pub va: Va,
    /// Physical address.
    pub pa: Phys,
    /// Length in bytes.
    pub len_bytes: u64,
    /// What the MMU allows; empty for PROT_NONE entries.
    pub prot: Prot,
}

/// Translates `va` (below 512 GiB). None: no frame there.
pub fn translate(t: &impl Tables, root: Phys, va: Va) -> Option<Translation> {
    let (slot, leaf) = find_leaf(t, root, va)?;
    Some(Translation {
        pa: leaf.address() + (va - slot.va),
        prot: leaf.prot(),
        size: slot.leaf_size(),
        dirty: leaf.is_dirty(),
    })
}

/// Reports the frames behind `range` in address order, in as few extents as possible.
pub fn extents(t: &impl Tables, root: Phys, range: VaRange, mut visit: impl FnMut(Extent)) {
    let mut open: Option<Extent> = None;
    spans(t, root, range, &mut |va, len_bytes, leaf| {
        let Some((pa, prot)) = leaf else { return };
        match &mut open {
            Some(e) if e.va + e.len_bytes == va && e.pa + e.len_bytes == pa && e.prot == prot => {
                e.len_bytes += len_bytes;
            }
            _ => open
                .replace(Extent {
                    va,
                    pa,
                    len_bytes,
                    prot,
                    // BOUND: one.
                })
                .into_iter()
                .for_each(&mut visit),
        }
    });
    // BOUND: one.
    open.into_iter().for_each(visit);
}

/// The extent that begins at `va`, as [`extents`] would report it first, up to `end` (above `va`, at most 512 GiB); only what
/// belongs to it is looked at. None: no frame there.
pub fn extent_at(t: &impl Tables, root: Phys, va: Va, end: Va) -> Option<Extent> {
    let mut found: Option<Extent> = None;
    let mut at = va;
    while at < end
        && let Some((slot, leaf)) = find_leaf(t, root, at)
    {
        let (pa, prot) = (leaf.address() + (at - slot.va), leaf.prot());
        let extent = found.get_or_insert(Extent {
            va,
            pa,
            len_bytes: 0,
            prot,
        });
        if extent.pa + extent.len_bytes != pa || extent.prot != prot {
            break;
        }
        let run = slot.run(leaf, end);
        t.point(12 * run as u32 + 40);
        at = end.min(slot.va + (run << shift(slot.level)));
        extent.len_bytes = at - va;
    }
    found
}

/// The front of a range, of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its end.
    pub end: Va,
    /// Whether there are frames; else it is vacant.
    pub mapped: bool,
}

/// The stretch that starts at `va`, as far as one table shows, up to `end` (above `va`, at most 512 GiB).
pub fn stretch(t: &impl Tables, root: Phys, va: Va, end: Va) -> Stretch {
    let Some(mut table) = top(t, root) else {
        return Stretch { end, mapped: false };
    };
    let mut level = 3;
    loop {
        let slot = Slot::of(&table, level, va);
        let entry = slot.read();
        if !entry.is_table() {
            let mapped = !entry.is_empty();
            let count = match mapped {
                true => leaves(t, &slot, end),
                false => slot.without(u64::MAX, end) as u64,
            };
            t.point(3 * count as u32 + 100);
            let next = slot.va + (count << shift(level));
            let end = next.min(end);
            return Stretch { end, mapped };
        }
        table = t.below(&slot.table, slot.index, entry);
        level -= 1;
    }
}

/// How many leaves there are from one on, of those that begin below `end`.
fn leaves<T: Tables>(t: &T, first: &Slot<T::Table>, end: Va) -> u64 {
    let most = first.entries_until(end);
    let mut turns = Turns::default();
    let mut count = 1;
    while count < most {
        let entry = first.table.get(first.index + count);
        if entry.is_empty() || entry.is_table() {
            break;
        }
        count += 1;
        turns.next(t);
    }
    turns.end(t);
    count as u64
}

/// Where the part of some adjacent leaves in a range begins, and their access; None for a piece of a hole.
type Leaf = Option<(Phys, Prot)>;

/// Covers `range` with calls `visit(va, len_bytes, leaf)`.
fn spans(t: &impl Tables, root: Phys, range: VaRange, visit: &mut impl FnMut(Va, u64, Leaf)) {
    if range.is_empty() {
        return;
    }
    match descend(t, root, range) {
        Some(path) => spans_below(t, &path.table, path.level, range, visit),
        None => visit(range.start, range.len_bytes(), None),
    }
}

fn spans_below<T: Tables>(
    t: &T,
    table: &T::Table,
    level: Level,
    range: VaRange,
    visit: &mut impl FnMut(Va, u64, Leaf),
) {
    let mut turns = Turns::default();
    let VaRange { start: mut va, end } = range;
    while va < end {
        let slot = Slot::of(table, level, va);
        let mut stop = end.min(slot.va + span(level));
        let entry = slot.read();
        if entry.is_table() {
            let below = t.below(&slot.table, slot.index, entry);
            spans_below(t, &below, level - 1, va.until(stop), visit);
        } else if entry.is_empty() {
            let empty = slot.without(ANY, end);
            t.point(3 * empty as u32);
            stop = end.min(slot.va + ((empty as u64) << shift(level)));
            visit(va, stop - va, None);
        } else {
            let run = slot.run(entry, end);
            t.point(12 * run as u32 + 40);
            stop = end.min(slot.va + (run << shift(level)));
            let leaf = (entry.address() + (va - slot.va), entry.prot());
            visit(va, stop - va, Some(leaf));
        }
        va = stop;
        turns.next(t);
    }
    turns.end(t);
}
