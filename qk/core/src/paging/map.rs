//! Mapping and unmapping.

use super::entry::{Entry, Level, index, level_of, shift, span};
use super::{ANY, OutOfTables, Path, Slot, Table, Tables, Turns, descend};
use crate::page::PageSize;
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};

/// How to map.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Access; empty keeps the frames without any access.
    pub prot: Prot,
    /// The largest page to use (stacks: 4 KiB; 1 GiB only where CPUID has it).
    pub max: PageSize,
    /// The frames hold something else than zeros.
    pub dirty: bool,
}

/// The page-directory-pointer table of slot 0, once something has been mapped.
pub fn own_table(t: &impl Tables, root: Phys) -> Option<Phys> {
    let entry = t.table(root).get(0);
    entry.is_present().then(|| entry.address())
}

/// Maps `[va, va + len_bytes)`, where no entry may be in use, to adjacent frames from `pa`,
/// with the largest pages that both alignments and `options.max` allow.
///
/// # Errors
/// [`OutOfTables`], with nothing changed.
pub fn map(
    t: &mut impl Tables,
    root: Phys,
    va: Va,
    pa: Phys,
    len_bytes: u64,
    options: MapOptions,
) -> Result<(), OutOfTables> {
    debug_assert!((va.0 | pa.0 | len_bytes) & (PageSize::Size4K.bytes() - 1) == 0);
    debug_assert!((va + len_bytes).0 <= span(4) && len_bytes > 0);
    let range = VaRange::new(va, len_bytes);
    let mapping = Mapping {
        offset: pa.0.wrapping_sub(va.0),
        max_level: level_of(options.max),
        options,
    };
    let path = match descend(t, root, range) {
        Some(path) => path,
        None => {
            let table = t.alloc_table(3).ok_or(OutOfTables)?;
            t.table(root).set(0, Entry::table(table, 0));
            Path::from_top(t.table(table))
        }
    };
    let (added, reached) = mapping.fill(t, &path.table, path.level, range);
    if let Some(above) = path.entries(va).next() {
        let entry = above.read();
        above.write_count(entry, entry.count() + added);
    }
    if reached == range.end {
        return Ok(());
    }
    if reached > va {
        remove(t, root, va.until(reached), &mut |_, _| ());
    }
    Err(OutOfTables)
}

/// What stays the same throughout one [`map`].
struct Mapping {
    /// Physical minus virtual address.
    offset: u64,
    max_level: Level,
    options: MapOptions,
}

impl Mapping {
    /// Maps `range` below `table`. Returns how many entries of `table` came into use, and
    /// where it had to stop for want of a table (its end when all went well).
    fn fill<T: Tables>(
        &self,
        t: &mut T,
        table: &T::Table,
        level: Level,
        range: VaRange,
    ) -> (u64, Va) {
        let mut added = 0;
        let VaRange { start: mut va, end } = range;
        while va < end {
            let leaves = self.leaves_at(level, va, end);
            if leaves > 0 {
                self.write_leaves(table, level, va, leaves);
                t.point(6 * leaves as u32);
                added += leaves;
                va += leaves << shift(level);
                continue;
            }
            let slot = index(va.0, level);
            let old = table.get(slot);
            let (child, child_table) = if old.is_empty() {
                match t.alloc_table(level - 1) {
                    Some(frame) => (Entry::table(frame, 0), t.table(frame)),
                    None => return (added, va),
                }
            } else {
                (old, t.below(table, slot, old))
            };
            let stop = end.min(va.align_down(span(level)) + span(level));
            let (below, reached) = self.fill(t, &child_table, level - 1, va.until(stop));
            let count = child.count() + below;
            if count == 0 {
                t.free_table(child.address(), level - 1);
            } else if old.is_empty() {
                table.set(slot, child.with_count(count));
                added += 1;
            } else {
                table.set_count(slot, child, count);
            }
            va = reached;
            if reached < stop {
                break;
            }
        }
        (added, va)
    }

    /// How many adjacent leaves of `level` fit at `va` without leaving the table.
    fn leaves_at(&self, level: Level, va: Va, end: Va) -> u64 {
        let misaligned = (va.0 | va.0.wrapping_add(self.offset)) & (span(level) - 1) != 0;
        if level > self.max_level || misaligned {
            return 0;
        }
        ((end - va) >> shift(level)).min(512 - index(va.0, level) as u64)
    }

    fn write_leaves(&self, table: &impl Table, level: Level, va: Va, leaves: u64) {
        let first = index(va.0, level);
        let pa = Phys(va.0.wrapping_add(self.offset));
        let leaf = Entry::leaf(pa, level, self.options.prot, self.options.dirty);
        debug_assert!(
            // BOUND: the entries of a table; the caller counts them.
            (first..first + leaves as usize).all(|i| table.get(i).is_empty()),
            "mapping over something"
        );
        table.set_leaves(first, leaves as usize, leaf, level);
    }
}

/// Unmaps `range`, holes allowed, splitting large pages at the borders and freeing tables
/// that become empty. `visit(tables, pa, len_bytes, dirty)` gets what went, PROT_NONE entries too, in as few pieces
/// as one table shows; `dirty` means that a piece may hold something else than zeros.
///
/// # Errors
/// [`OutOfTables`], with nothing unmapped.
pub fn unmap<T: Tables>(
    t: &mut T,
    root: Phys,
    range: VaRange,
    mut visit: impl FnMut(&mut T, Phys, u64, bool),
) -> Result<(), OutOfTables> {
    let Some(path) = descend(t, root, range) else {
        return Ok(());
    };
    path.split_borders(t, root, range)?;
    remove_from(t, path, range, &mut |t: &mut T, run: Run| {
        visit(t, run.leaf.address(), run.len_bytes, run.leaf.is_dirty());
    });
    Ok(())
}

/// Empties slot 0 and frees its tables, the topmost too: no window may show it any more.
pub fn destroy<T: Tables>(t: &mut T, root: Phys, mut visit: impl FnMut(Phys, u64, bool)) {
    if let Some(table) = own_table(t, root) {
        let all = VaRange::new(Va(0), span(4));
        remove(t, root, all, &mut |_, run: Run| {
            visit(run.leaf.address(), run.len_bytes, run.leaf.is_dirty());
        });
        t.table(root).set(0, Entry::EMPTY);
        t.free_table(table, 3);
    }
}

/// Leaves that went: adjacent both ways, alike.
pub(super) struct Run {
    /// Virtual address.
    pub va: Va,
    /// Length in bytes.
    pub len_bytes: u64,
    /// The first leaf as it was last.
    pub leaf: Entry,
}

/// Takes out the leaves of `range`, which begins and ends between leaves, shows them to `visit`, and frees tables that
/// become empty.
pub(super) fn remove<T: Tables>(
    t: &mut T,
    root: Phys,
    range: VaRange,
    visit: &mut impl FnMut(&mut T, Run),
) {
    if let Some(path) = descend(t, root, range) {
        remove_from(t, path, range, visit);
    }
}

/// As [`remove`], of the range that `path` leads to.
fn remove_from<T: Tables>(
    t: &mut T,
    path: Path<T::Table>,
    range: VaRange,
    visit: &mut impl FnMut(&mut T, Run),
) {
    let mut gone = remove_below(t, &path.table, path.level, range, visit);
    // BOUND: the levels.
    for slot in path.entries(range.start) {
        if gone == 0 {
            break;
        }
        gone = u64::from(drop_count(t, &slot, slot.read(), gone));
    }
}

/// As [`remove`], of what `table` leads to. Returns how many of its entries became empty.
fn remove_below<T: Tables>(
    t: &mut T,
    table: &T::Table,
    level: Level,
    range: VaRange,
    visit: &mut impl FnMut(&mut T, Run),
) -> u64 {
    let mut turns = Turns::default();
    let mut emptied = 0;
    let VaRange { start: mut va, end } = range;
    while va < end {
        let slot = Slot::of(table, level, va);
        let mut stop = end.min(slot.va + span(level));
        let entry = slot.read();
        if entry.is_table() {
            let below = t.below(&slot.table, slot.index, entry);
            let gone = remove_below(t, &below, level - 1, va.until(stop), visit);
            emptied += u64::from(drop_count(t, &slot, entry, gone));
        } else if !entry.is_empty() {
            let (leaf, count) = slot.take_run(entry, end);
            let len_bytes = count << shift(level);
            t.point(14 * count as u32 + 100);
            visit(
                t,
                Run {
                    va,
                    len_bytes,
                    leaf,
                },
            );
            emptied += count;
            stop = va + len_bytes;
        } else {
            let empty = slot.without(ANY, end);
            t.point(3 * empty as u32);
            stop = end.min(slot.va + ((empty as u64) << shift(level)));
        }
        va = stop;
        turns.next(t);
    }
    turns.end(t);
    emptied
}

/// Notes that `gone` entries of the table `entry` in `slot` became empty; frees it when none are
/// left. Returns whether it did.
fn drop_count<T: Tables>(t: &mut T, slot: &Slot<T::Table>, entry: Entry, gone: u64) -> bool {
    let left = entry.count() - gone;
    if left > 0 {
        slot.write_count(entry, left);
        return false;
    }
    slot.write(Entry::EMPTY);
    t.free_table(entry.address(), slot.level - 1);
    true
}
