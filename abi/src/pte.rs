//! Page tables of x86-64 with four levels (AMD APM vol. 2 §5.3 and §5.4, "Page-Translation-Table Entry Fields"): which bits an
//! entry has, and which entry translates an address.
//!
//! ```text
//!  63  62      52 51                                   12 11  9 8 7  6 5 4   3   2  1  0
//! ┌──┬───────────┬─────────────────────────────────────┬─────┬─┬──┬─┬─┬───┬───┬───┬──┬─┐
//! │NX│ available │ physical address                    │avail│G│PS│D│A│PCD│PWT│U/S│RW│P│
//! └──┴───────────┴─────────────────────────────────────┴─────┴─┴──┴─┴─┴───┴───┴───┴──┴─┘
//! ```

/// Present.
pub const P: u64 = 1 << 0;
/// Writable.
pub const W: u64 = 1 << 1;
/// Accessible from ring 3.
pub const U: u64 = 1 << 2;
/// Write-through; with [`PCD`] strong uncacheable (PAT entry 3 at reset).
pub const PWT: u64 = 1 << 3;
/// Cache disable.
pub const PCD: u64 = 1 << 4;
/// Accessed.
pub const A: u64 = 1 << 5;
/// Dirty: set by hardware on the first write through a leaf.
pub const D: u64 = 1 << 6;
/// In a directory entry: a leaf (2 MiB or 1 GiB) rather than a table.
pub const PS: u64 = 1 << 7;
/// Not executable.
pub const NX: u64 = 1 << 63;
/// The address of the frame or of the table.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Ours: a leaf without access (P clear) whose frame is kept, for PROT_NONE memory. Hardware ignores all bits of an entry whose P
/// is clear.
pub const PROT_NONE: u64 = 1 << 9;
/// Ours: the entry points to a table. By this bit alone walks tell it from a leaf.
pub const TABLE: u64 = 1 << 10;
/// Ours: in an entry that points to a table, how many entries of that table are not empty, so that an emptied table is freed
/// without reading its 512 entries. (§5.4.1: available to software in entries that point to tables, with protection keys on as well.)
pub const COUNT: u64 = 0x3ff << COUNT_SHIFT;
/// Lowest bit of [`COUNT`].
pub const COUNT_SHIFT: u32 = 52;

/// Entries of a table.
pub const ENTRIES: usize = 512;

/// Levels as APM vol. 2 §5.3 draws them: 4 = PML4, 3 = page-directory pointers, 2 = page directory, 1 = page table.
pub type Level = u32;

/// log2 of the bytes one entry of a table at `level` covers.
#[inline]
#[must_use]
pub const fn shift(level: Level) -> u32 {
    12 + 9 * (level - 1)
}

/// Bytes one entry of a table at `level` covers.
#[inline]
#[must_use]
pub const fn span(level: Level) -> u64 {
    1 << shift(level)
}

/// Which entry of a table at `level` translates `va`.
#[inline]
#[must_use]
pub const fn index(va: u64, level: Level) -> usize {
    (va >> shift(level)) as usize & (ENTRIES - 1)
}
