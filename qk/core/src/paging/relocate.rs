//! Moving a mapping to other addresses without touching its contents (mremap).

use super::map::{Run, remove};
use super::{ANY, MapOptions, OutOfTables, Tables, descend, for_each_leaf, map, mark_dirty};
use abi::addr::{Phys, Va, VaRange};

/// Work of mapping a page anew, in instructions.
const MOVE_WORK: u32 = 200;

/// Moves what is mapped, PROT_NONE too, in `[from, from + len_bytes)` to `to`, where nothing may be; the
/// two ranges must not overlap. Large pages stay large when both addresses are aligned alike.
///
/// For a moment both ranges show the frames; then the old one goes, and what was written through it
/// until that moment is marked dirty in the new one.
///
/// # Errors
/// [`OutOfTables`], with nothing moved.
pub fn move_range<T: Tables>(
    t: &mut T,
    root: Phys,
    from: Va,
    to: Va,
    len_bytes: u64,
) -> Result<(), OutOfTables> {
    debug_assert!(from + len_bytes <= to || to + len_bytes <= from);
    let old = VaRange::new(from, len_bytes);
    let Some(path) = descend(t, root, old) else {
        return Ok(());
    };
    path.split_borders(t, root, old)?;
    let mut copied = Ok(());
    for_each_leaf(t, root, old, ANY, &mut |t, slot, leaf| {
        t.point(MOVE_WORK);
        if copied.is_ok() {
            let max = slot.leaf_size();
            let options = MapOptions {
                prot: leaf.prot(),
                max,
                dirty: leaf.is_dirty(),
            };
            copied = map(
                t,
                root,
                to + (slot.va - from),
                leaf.address(),
                max.bytes(),
                options,
            );
        }
    });
    if copied.is_err() {
        remove(t, root, VaRange::new(to, len_bytes), &mut |_, _| ());
        return copied;
    }
    remove(t, root, old, &mut |t: &mut T, run: Run| {
        if run.leaf.is_dirty() {
            let va = to + (run.va - from);
            mark_dirty(t, root, VaRange::new(va, run.len_bytes));
        }
    });
    Ok(())
}
