//! One 8-byte entry of a translation table (bits: [`abi::pte`]).
//!
//! Three kinds: empty (0), a table, a leaf. Two conventions of ours, in bits the MMU ignores:
//! - A **PROT_NONE entry** is a leaf that has P clear and PROT_NONE set: memory without access whose frame stays.
//! - A table entry has TABLE set, and in COUNT how many entries of that table are not empty.
//!
//! A is set in every entry from the start, so that hardware never writes to a table entry and the
//! count above needs no atomic update.

use crate::page::PageSize;
use crate::regions::Prot;
use abi::addr::Phys;
pub use abi::pte::{A, D, Level, NX, P, PS, U, W, index, shift, span};
use abi::pte::{ADDRESS, COUNT, COUNT_SHIFT, PROT_NONE, TABLE};

/// The level whose entries map pages of `size`.
pub const fn level_of(size: PageSize) -> Level {
    match size {
        PageSize::Size4K => 1,
        PageSize::Size2M => 2,
        PageSize::Size1G => 3,
    }
}

/// The page size that leaves at `level` (1..=3) map.
pub const fn size_at(level: Level) -> PageSize {
    match level {
        1 => PageSize::Size4K,
        2 => PageSize::Size2M,
        _ => PageSize::Size1G,
    }
}

/// A table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    /// No translation, no frame.
    pub const EMPTY: Self = Self(0);

    /// An entry that points to the table in `frame` with `count` entries in use. Access is decided
    /// by the leaves.
    pub const fn table(frame: Phys, count: u64) -> Self {
        Self(frame.0 | P | W | U | A | TABLE | count << COUNT_SHIFT)
    }

    /// A leaf for the frame at `pa`. Without any access it is a PROT_NONE entry.
    pub const fn leaf(pa: Phys, level: Level, prot: Prot, dirty: bool) -> Self {
        let size = if level > 1 { PS } else { 0 };
        let dirty = if dirty { D } else { 0 };
        Self(pa.0 | U | A | size | dirty).with_prot(prot)
    }

    /// The same leaf with other access. x86 cannot express write-only or execute-only memory: any
    /// access brings read access, as on Linux.
    pub const fn with_prot(self, prot: Prot) -> Self {
        let bare = self.0 & !(P | W | NX | PROT_NONE);
        if prot.is_empty() {
            return Self(bare | PROT_NONE);
        }
        let write = if prot.contains(Prot::WRITE) { W } else { 0 };
        let no_exec = if prot.contains(Prot::EXEC) { 0 } else { NX };
        Self(bare | P | write | no_exec)
    }

    /// No translation, no frame.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Points to a table one level down.
    pub const fn is_table(self) -> bool {
        self.0 & TABLE != 0
    }

    /// Translated by the MMU (neither empty nor a PROT_NONE entry).
    pub const fn is_present(self) -> bool {
        self.0 & P != 0
    }

    /// Whether hardware may set D at any moment.
    pub const fn may_become_dirty(self) -> bool {
        self.0 & (P | W | D) == P | W
    }

    /// The same leaf without D.
    pub const fn clean(self) -> Self {
        Self(self.0 & !D)
    }

    /// The leaf for the frame at `pa`, which holds something, with the same access.
    pub const fn at(self, pa: Phys) -> Self {
        Self(self.0 & !ADDRESS | pa.0 | D)
    }

    /// The leaf of `level` for the frame behind this one's, otherwise alike.
    pub const fn following(self, level: Level) -> Self {
        Self(self.0 + span(level))
    }

    /// Written to since it was mapped, or since D was last cleared.
    pub const fn is_dirty(self) -> bool {
        self.0 & D != 0
    }

    /// Physical address of the table or of the frame.
    pub const fn address(self) -> Phys {
        Phys(self.0 & ADDRESS)
    }

    /// Of a table entry: entries in use in that table.
    pub const fn count(self) -> u64 {
        (self.0 & COUNT) >> COUNT_SHIFT
    }

    /// Of a table entry: the same table with another count.
    pub const fn with_count(self, count: u64) -> Self {
        Self(self.0 & !COUNT | count << COUNT_SHIFT)
    }

    /// What the MMU allows through a leaf.
    pub fn prot(self) -> Prot {
        let mut prot = Prot::empty();
        if self.is_present() {
            prot |= Prot::READ;
            prot.set(Prot::WRITE, self.0 & W != 0);
            prot.set(Prot::EXEC, self.0 & NX == 0);
        }
        prot
    }

    /// The first of the 512 leaves that stand for this leaf of `level` one level down.
    pub const fn part(self, level: Level) -> Self {
        Self(if level == 2 { self.0 & !PS } else { self.0 })
    }
}
