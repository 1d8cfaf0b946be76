//! Changes to existing leaves: access and the dirty bit.

use super::entry::{D, Entry, span};
use super::{ANY, OutOfTables, Tables, descend, find_leaf, for_each_leaf, walk};
use crate::page::PAGE_BYTES;
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};

/// Gives what is mapped, PROT_NONE too, in `range` the access `prot`; holes stay holes. Returns
/// whether an entry that the TLB may hold has changed.
///
/// # Errors
/// [`OutOfTables`], with no access changed.
pub fn protect(
    t: &mut impl Tables,
    root: Phys,
    range: VaRange,
    prot: Prot,
) -> Result<bool, OutOfTables> {
    let Some(path) = descend(t, root, range) else {
        return Ok(false);
    };
    path.split_borders(t, root, range)?;
    let mut flush = false;
    let place = (&path.table, path.level);
    walk(t, place, range, ANY, &mut |_, slot, leaf| {
        if leaf.with_prot(prot) != leaf {
            slot.replace(leaf, |old| old.with_prot(prot));
            flush |= leaf.is_present();
        }
    });
    Ok(flush)
}

/// Has what is mapped, PROT_NONE too, in `range`, which cannot be written to, show adjacent frames from `pa` instead, with the same
/// access. A read meanwhile finds either frame.
///
/// # Errors
/// [`OutOfTables`], with nothing changed.
pub fn replace(
    t: &mut impl Tables,
    root: Phys,
    range: VaRange,
    pa: Phys,
) -> Result<(), OutOfTables> {
    let Some(path) = descend(t, root, range) else {
        return Ok(());
    };
    path.split_borders(t, root, range)?;
    let place = (&path.table, path.level);
    walk(t, place, range, ANY, &mut |_, slot, leaf| {
        debug_assert!(!leaf.may_become_dirty(), "replacing what can be written");
        slot.write(leaf.at(pa + (slot.va - range.start)));
    });
    Ok(())
}

/// Shows `visit(va, pa, len_bytes)` the dirty pages of `range`, clipped to it: what
/// madvise(DONTNEED) must zero. They stay dirty: a TLB entry that was filled while a page was dirty
/// lets writes through without setting the bit again, and a page wrongly called clean would later
/// pass for zeros.
pub fn visit_dirty(
    t: &mut impl Tables,
    root: Phys,
    range: VaRange,
    mut visit: impl FnMut(Va, Phys, u64),
) {
    for_each_leaf(t, root, range, D, &mut |_, slot, leaf| {
        let leaf_end = slot.va + span(slot.level);
        let (from, to) = (range.start.max(slot.va), range.end.min(leaf_end));
        visit(from, leaf.address() + (from - slot.va), to - from);
    });
}

/// The page that translates (or keeps) `va` (below 512 GiB): where that byte lies. `written`: it is dirty from now on, as by
/// [`mark_dirty`]. None: no frame there.
pub fn reach(t: &mut impl Tables, root: Phys, va: Va, written: bool) -> Option<Phys> {
    let (slot, leaf) = find_leaf(t, root, va)?;
    if written && !leaf.is_dirty() {
        slot.write(Entry(leaf.0 | D));
    }
    Some(leaf.address() + (va - slot.va))
}

/// Marks the pages that touch `range` dirty, as a write that does not go through
/// these tables (the kernel's direct map, the proxy) makes them.
pub fn mark_dirty(t: &mut impl Tables, root: Phys, range: VaRange) {
    if range.end.0.wrapping_sub(range.start.0) == PAGE_BYTES {
        reach(t, root, range.start, true);
        return;
    }
    for_each_leaf(t, root, range, ANY, &mut |_, slot, leaf| {
        // Hardware could only set the same bit: a plain store loses nothing.
        slot.write(Entry(leaf.0 | D));
    });
}
