//! Address spaces on this machine: `qk_core::aspace` over pool memory, CR3 and the rank's region log.

use abi::control::HostOp;
use hal::addr::{Phys, VaRange};
use qk_core::aspace::Machine;
use qk_core::page::PageSize;
use qk_core::paging::Table;
use qk_core::paging::entry::{Entry, Level};
use qk_core::signals::Signal;
use wire::region_log::Change;

use crate::host::ship;
use crate::rank::Rank;
use crate::{preempt, shootdown, thread, windows};

/// An address space of a rank, or of the PCT.
pub type Aspace = qk_core::aspace::Aspace<Owner>;

/// Regions that an address space may have.
pub const REGIONS: usize = 8192;

/// Physically contiguous pieces, and holes between them, that an address space may have. Each is a mapping of its proxy, which
/// Linux allows 65,530 (vm.max_map_count, its default). A region more may cut two of them, without being counted before; the
/// rest is for the proxy itself.
pub const PIECES: usize = 65_530 - 2 * REGIONS - 1_146;

/// Work of emptying a new table, in instructions.
const TABLE_WORK: u32 = 600;

/// Whose address space it is; `None`: the PCT's, which no proxy maps.
#[derive(Clone, Copy)]
pub struct Owner(pub Option<&'static Rank>);

/// A page table, as `qk_core` works on it.
#[derive(Clone, Copy)]
pub struct PageTable(hal::tables::Table);

impl PageTable {
    /// The table in `frame`.
    #[inline]
    pub fn at(frame: Phys) -> PageTable {
        PageTable(hal::tables::Table::at(frame))
    }

    /// The table that entry `index` points to, or the one that `entry` did when it was read there.
    #[inline]
    pub fn below(&self, index: usize, entry: Entry) -> PageTable {
        let below = self.0.below(index).map(PageTable);
        below.unwrap_or_else(|| PageTable::at(entry.address()))
    }
}

impl Table for PageTable {
    #[inline]
    fn get(&self, index: usize) -> Entry {
        Entry(self.0.get(index))
    }

    #[inline]
    fn bits_of_group(&self, first: usize) -> u64 {
        // BOUND: GROUP.
        self.0.group(first).fold(0, |bits, entry| bits | entry)
    }

    #[inline]
    fn set(&self, index: usize, entry: Entry) {
        self.0.set(index, entry.0);
    }

    #[inline]
    fn set_leaves(&self, first: usize, count: usize, leaf: Entry, _: Level) {
        self.0.set_leaves(first, count, leaf.0);
    }

    #[inline]
    fn clear_group(&self, first: usize) {
        self.0.clear_group(first);
    }

    #[inline]
    fn set_count(&self, index: usize, _: Entry, count: u64) {
        self.0.set_count(index, count);
    }

    #[inline]
    fn note(&self, index: usize, frame: Phys) {
        self.0.note(index, frame);
    }

    #[inline]
    fn take_groups(&self, first: usize, groups: usize, leaf: Entry, _: Level) -> usize {
        self.0.take_groups(first, groups, leaf.0)
    }

    #[inline]
    fn differences_of_group(&self, first: usize, leaf: Entry, step: u64) -> u64 {
        let mut next = leaf.0;
        let difference = |entry: u64| {
            let difference = entry ^ next;
            next = next.wrapping_add(step);
            difference
        };
        let all = self.0.group(first).map(difference);
        // BOUND: GROUP.
        all.fold(0, |bits, difference| bits | difference)
    }

    #[inline]
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        self.0.exchange(index, current.0, new.0).map_err(Entry)
    }
}

const _: () = assert!(qk_core::paging::GROUP == hal::tables::GROUP);

impl Machine for Owner {
    type Table = PageTable;

    #[inline]
    fn table(self, frame: Phys) -> PageTable {
        PageTable::at(frame)
    }

    #[inline]
    fn below(self, table: &PageTable, index: usize, entry: Entry) -> PageTable {
        table.below(index, entry)
    }

    fn new_table(self, frame: Phys, level: Level) {
        preempt::point(TABLE_WORK);
        let _ = hal::tables::Table::new(frame, level);
    }

    fn zero(self, pa: Phys, len_bytes: u64) {
        preempt::zero(pa, len_bytes);
    }

    fn copy(self, to: Phys, from: Phys, len_bytes: u64) {
        hal::mem::copy(to, from, len_bytes);
    }

    fn rewrite(self, pa: Phys) {
        hal::mem::rewrite(pa, abi::map::PAGE);
    }

    fn flush(self, range: VaRange) {
        match self.0 {
            Some(rank) => {
                rank.root().removed();
                shootdown::flush(rank.shootdown(), range);
            }
            None => hal::aspace::flush(range),
        }
    }

    fn flush_windows(self) {
        if let Some(rank) = self.0 {
            windows::flush(rank);
        }
    }

    fn largest_page(self) -> PageSize {
        match hal::cpu::giant_pages() {
            true => PageSize::Size1G,
            false => PageSize::Size2M,
        }
    }

    fn log(self, change: &Change) -> bool {
        self.0
            .is_none_or(|rank| rank.host().publish_mapping(change))
    }

    fn log_position(self) -> u64 {
        self.0.map_or(0, |rank| rank.host().mappings())
    }

    fn log_applied(self) -> u64 {
        self.0
            .map_or(u64::MAX, |rank| rank.host().mappings_applied())
    }

    #[inline]
    fn is_written(self) -> bool {
        self.0.is_some_and(|rank| rank.memory().is_written())
    }

    fn sync(self) {
        if let Some(rank) = self.0 {
            // The PCT changes only what it loads, for the main thread. A proxy that fails to apply the log ends itself, and
            // with it the rank.
            let caller = thread::current().unwrap_or(rank.main());
            let _ = ship::host_op(caller, HostOp::Sync, [0; 3]);
            if rank.host().has_lost_mappings() {
                // Its proxy says that it has carried them out and has not: the rank cannot go on with it.
                rank.end(u64::from(Signal::KILL.number()), false);
            }
        }
    }

    #[inline]
    fn point(work: u32) {
        preempt::point(work);
    }
}
