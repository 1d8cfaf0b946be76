//! Address spaces on this machine: `qk_core::aspace` over pool memory, CR3 and the rank's region log.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::control::HostOp;
use hal::addr::Phys;
use qk_core::aspace::Machine;
use qk_core::page::PageSize;
use qk_core::paging::entry::Entry;
use qk_core::paging::{GROUP, Table};
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

/// Whose address space it is; `None`: the PCT's, which no proxy maps.
#[derive(Clone, Copy)]
pub struct Owner(pub Option<&'static Rank>);

/// A page table in pool memory.
#[derive(Clone, Copy)]
pub struct PoolTable(&'static [AtomicU64; 512]);

impl PoolTable {
    /// The table in `frame`.
    #[inline]
    pub fn at(frame: u64) -> PoolTable {
        PoolTable(hal::mem::shared(Phys(frame)))
    }

    /// Entries side by side: a fixed number, so that looking at them all needs no loop.
    #[inline]
    fn group(&self, first: usize) -> &[AtomicU64; GROUP] {
        let group = self.0[first..].first_chunk();
        group.expect("a group lies in its table")
    }
}

impl Table for PoolTable {
    #[inline]
    fn get(&self, index: usize) -> Entry {
        Entry(self.0[index].load(Ordering::Relaxed))
    }

    #[inline]
    fn bits_of_group(&self, first: usize) -> u64 {
        // BOUND: GROUP.
        self.group(first)
            .iter()
            .fold(0, |bits, entry| bits | entry.load(Ordering::Relaxed))
    }

    #[inline]
    fn set_group(&self, first: usize, leaf: Entry, step: u64) {
        // BOUND: GROUP.
        for (i, entry) in self.group(first).iter().enumerate() {
            entry.store(leaf.0 + i as u64 * step, Ordering::Relaxed);
        }
    }

    #[inline]
    fn take_group(&self, first: usize, leaf: Entry, step: u64) -> usize {
        let mut next = leaf.0;
        let is_taken = |entry: &AtomicU64| {
            let taken = entry.compare_exchange(next, 0, Ordering::SeqCst, Ordering::SeqCst);
            next += step;
            taken.is_ok()
        };
        let group = self.group(first);
        // BOUND: GROUP.
        group
            .iter()
            .map(is_taken)
            .position(|taken| !taken)
            .unwrap_or(GROUP)
    }

    #[inline]
    fn differences_of_group(&self, first: usize, leaf: Entry, step: u64) -> u64 {
        let difference = |(i, entry): (usize, &AtomicU64)| {
            entry.load(Ordering::Relaxed) ^ (leaf.0 + i as u64 * step)
        };
        let all = self.group(first).iter().enumerate().map(difference);
        // BOUND: GROUP.
        all.fold(0, |bits, difference| bits | difference)
    }

    #[inline]
    fn set(&self, index: usize, entry: Entry) {
        self.0[index].store(entry.0, Ordering::Relaxed);
    }

    #[inline]
    fn exchange(&self, index: usize, current: Entry, new: Entry) -> Result<(), Entry> {
        self.0[index]
            .compare_exchange(current.0, new.0, Ordering::SeqCst, Ordering::SeqCst)
            .map(|_| ())
            .map_err(Entry)
    }
}

impl Machine for Owner {
    type Table = PoolTable;

    #[inline]
    fn table(self, frame: u64) -> PoolTable {
        PoolTable::at(frame)
    }

    fn init_root(self, root: u64) {
        hal::aspace::new_root(Phys(root));
    }

    fn zero(self, pa: u64, len_bytes: u64) {
        preempt::zero(Phys(pa), len_bytes);
    }

    fn copy(self, to: u64, from: u64, len_bytes: u64) {
        hal::mem::copy(Phys(to), Phys(from), len_bytes);
    }

    fn rewrite(self, pa: u64) {
        hal::mem::rewrite(Phys(pa), abi::map::PAGE);
    }

    fn flush(self, start: u64, end: u64) {
        match self.0 {
            Some(rank) => {
                rank.root.removed();
                shootdown::flush(&rank.shootdown, start, end);
            }
            None => hal::aspace::flush(start, end),
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
        self.0.is_none_or(|rank| rank.host.publish_mapping(change))
    }

    fn log_position(self) -> u64 {
        self.0.map_or(0, |rank| rank.host.mappings())
    }

    fn log_applied(self) -> u64 {
        self.0.map_or(u64::MAX, |rank| rank.host.mappings_applied())
    }

    #[inline]
    fn is_written(self) -> bool {
        self.0
            .is_some_and(|rank| rank.writers.load(Ordering::SeqCst) > 0)
    }

    fn sync(self) {
        if let Some(rank) = self.0 {
            // The PCT changes only what it loads, for the main thread. A proxy that fails to apply the log ends itself, and
            // with it the rank.
            let caller = thread::current().unwrap_or(rank.main());
            let _ = ship::host_op(caller, HostOp::Sync, [0; 3]);
            if rank.host.has_lost_mappings() {
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
