//! What an address space works on.

use abi::addr::{Phys, VaRange};
use wire::region_log::Change;

use crate::page::PageSize;
use crate::paging::Table;
use crate::paging::entry::{Entry, Level};

/// What an address space needs of the machine and of the proxy. A handle, copied at will.
pub trait Machine: Copy {
    /// A page table.
    type Table: Table;

    /// The page table in `frame`.
    fn table(self, frame: Phys) -> Self::Table;

    /// The table that entry `index` of `table` points to; `entry` is what was read there.
    #[inline]
    fn below(self, table: &Self::Table, index: usize, entry: Entry) -> Self::Table {
        let _ = (table, index);
        self.table(entry.address())
    }

    /// Makes a frame that was none an empty table of `level`: from now on it is one of that level. A root (level 4) gets the
    /// kernel's half.
    fn new_table(self, frame: Phys, level: Level);

    /// Clears physical memory, of any length: a preemption point all along.
    fn zero(self, pa: Phys, len_bytes: u64);

    /// Copies physical memory; at most [`COPY_BYTES`] at a time, which do not overlap.
    fn copy(self, to: Phys, from: Phys, len_bytes: u64);

    /// Writes a page over itself, without losing what others store there meanwhile: an emulator that keeps translated code drops
    /// what it translated before another process filled the page (TCG does not see other processes' writes).
    fn rewrite(self, pa: Phys);

    /// Drops translations of `range` on the cores that run the rank.
    fn flush(self, range: VaRange);

    /// Drops what cores that used a window on the rank hold of it.
    fn flush_windows(self);

    /// The largest page that the CPU has.
    fn largest_page(self) -> PageSize;

    /// Appends to the region log; `false`: the proxy has to catch up first.
    fn log(self, change: &Change) -> bool;

    /// Position behind the last change in the log.
    fn log_position(self) -> u64;

    /// Position up to which the proxy has applied the log.
    fn log_applied(self) -> u64;

    /// Whether a call is under way that may write to the rank's memory: Linux then changes what the page tables call clean.
    fn is_written(self) -> bool;

    /// Waits until the proxy has caught up with the log.
    fn sync(self);

    /// A preemption point (see [`crate::Point`]).
    fn point(work: u32);
}

/// Bytes that are copied between two preemption points.
pub const COPY_BYTES: u64 = 16 << 10;
