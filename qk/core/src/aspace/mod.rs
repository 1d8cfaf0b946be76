//! An address space: a rank's partition of memory, its regions, its page tables (in memory of their own), and what its proxy's
//! log says of them.
//!
//! Nothing is lazy: what a program may touch is backed and mapped. Each change first sets aside all that it may need
//! (frames, tables for a large page that has to be split at either border, room in the region map) and then goes through:
//! regions and page tables never disagree, and an error leaves both as they were. Where Linux documents partial effects
//! (mprotect over a hole), the plan of [`crate::mman`] says which part, and that part is a change of its own.
//!
//! A change may take long: it has preemption points everywhere, and it waits for the proxy when the region log is full or
//! memory is short. So the caller holds a *sleeping* lock from the plan to the end.
//!
//! | file | what |
//! |---|---|
//! | here | the type, and its queries |
//! | `machine` | what it needs of the machine and of the proxy |
//! | `change` | map, unmap, protect, discard, brk |
//! | `flags` | what leaves frames as they are: mlock, mbind |
//! | `remap` | mremap |
//! | `replace` | mapping over something: one step, as the proxy sees it |
//! | `backing` | finding frames, giving them back |
//! | `pieces` | how many mappings the proxy has, and where frames are adjacent |
//! | `shared` | mappings of frames that ranks share |
//! | `text` | such frames that are never written to |
//! | `receipt`, `evict` | what a change lets go of that is not the partition's, and who gets it; taking it out before the change |
//! | `log` | what the proxy's log says of what is mapped |
//! | `leases` | when retired frames are free |
//! | `pool` | page tables, and the memory they lie in |
//! | `usage` | how much it uses |
//! | `walk` | where bytes lie, for whoever reaches them by the direct map |
//! | `stale` | addresses that peers may still see as they were |
//!
//! # When is a frame free again?
//! A frame that was unmapped may still be mapped by the proxy. It is retired, and released once the proxy has
//! acknowledged the log up to the record that removed it; this rank's TLBs are flushed before that. A peer may still have
//! a translation through its SMARTMAP window. That reaches memory of this same rank, since a partition is never divided anew
//! while the job lives; what would let a peer reach more, or see what is not there any more, waits for
//! [`Machine::flush_windows`] (docs/adr/0018).
//!
//! # Whose frames?
//! What a region shows says whose frames they are ([`Backing`]), what becomes of them, and what the region may become:
//!
//! | frames | where they go when they are unmapped |
//! |---|---|
//! | the partition's | retired, then free |
//! | of an object | to the node pool, by a receipt |
//! | text | to the node pool, by a receipt, after the proxy has caught up; a copy takes their place before they can be written to |
//! | foreign | nowhere: the clock page is the kernel's |
//!
//! No caller has to know which of them lie in a range: each change sees to all ([`receipt`]).

mod backing;
mod change;
mod evict;
mod flags;
mod leases;
mod log;
mod machine;
mod pieces;
mod pool;
pub mod receipt;
mod remap;
mod replace;
mod shared;
mod stale;
#[cfg(test)]
mod tests;
mod text;
mod usage;
mod walk;

use crate::frames::{self, Frames};
use crate::mman::{Bounds, Heap};
use crate::objects::Run;
use crate::page::{PAGE_BYTES, PageSize};
use crate::paging::{self, MapOptions, Tables};
use crate::regions::{Backing, Prot, Region, RegionFlags, Regions};
use abi::Errno;
use abi::addr::{Phys, PhysRange, Va, VaRange};
use abi::areas;
use abi::map::{STACK_TOP, USER_BASE, USER_TOP};
use alloc::vec::Vec;
use leases::Leases;
use log::{record, shown, shown_as};
pub use machine::{COPY_BYTES, Machine};
use pieces::{Newest, Pieces};
use pool::{PartitionTables, Pool, Purpose};
pub use receipt::{Lender, Receipt, Unfinished};
use stale::Stale;
use text::TextEnds;

/// An address space. Addresses and lengths are multiples of 4 KiB inside slot 0.
pub struct Aspace<M: Machine> {
    machine: M,
    root: Phys,
    frames: Frames,
    pool: Pool,
    regions: Regions,
    /// What peers may still see as it was.
    stale: Stale,
    /// On retired frames.
    leases: Leases,
    /// Start and end of the brk heap, in bytes; equal when it is empty.
    heap: (Va, Va),
    /// Where the mmap area ends: below the stack and its gap.
    mmap_top: Va,
    /// Of large mappings in it ([`Bounds::phase`]).
    phase: u64,
    /// What each new region has besides: LOCKED after mlockall(MCL_FUTURE).
    new_flags: RegionFlags,
    /// Which accesses regions ever had: bit n stands for the [`Prot`] of value n.
    accesses: u8,
    /// Where text that ranks share may lie.
    text_ends: TextEnds,
    /// Bytes of regions that show objects.
    object_bytes: u64,
    /// Room for a receipt of text, once any was mapped.
    runs: Vec<Run>,
    /// Changes that failed because the partition was used up.
    shortages: u64,
    pieces: Pieces,
    newest: Newest,
    /// What was taken out and the log still shows: it gets what takes its place.
    replaced: VaRange,
}

/// Memory of a partition, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub partition: u64,
    /// In use by the program. What it has given back is not, whether it is free already or retired.
    pub used: u64,
    /// The most that was in use at once since the program was loaded.
    pub peak: u64,
    /// Of all that is mapped, what is locked (mlock(2)).
    pub locked: u64,
}

/// Memory for an address space: whole pages.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What is mapped: the proxy may see all of it.
    pub partition: PhysRange,
    /// Page tables, which kernel and CPU alone see.
    pub tables: PhysRange,
    /// The partition is known to hold zeros.
    pub zeroed: bool,
}

impl<M: Machine> Aspace<M> {
    /// An empty address space over `memory`, for at most `regions` regions and `pieces` physically contiguous pieces. `None` when
    /// there is no memory for its records, or not even the first tables fit.
    pub fn new(machine: M, memory: Memory, regions: usize, pieces: usize) -> Option<Self> {
        let PhysRange { start, .. } = memory.partition;
        let len_bytes = memory.partition.len_bytes();
        let mut frames = Frames::new(start, len_bytes, memory.zeroed, M::point)?;
        M::point(frames::SET_UP_WORK);
        let regions = Regions::new(regions, M::point)?;
        let mut pool = Pool::new(memory.tables);
        let root = PartitionTables {
            machine,
            frames: &mut frames,
            pool: &mut pool,
            purpose: Purpose::Mapping,
        }
        .alloc_table(4)?;
        let mut aspace = Aspace {
            machine,
            root,
            frames,
            pool,
            regions,
            stale: Stale::default(),
            leases: Leases::NONE,
            heap: (Va(0), Va(0)),
            mmap_top: Va(STACK_TOP),
            phase: 0,
            new_flags: RegionFlags::empty(),
            accesses: 0,
            text_ends: TextEnds::NONE,
            object_bytes: 0,
            runs: Vec::new(),
            shortages: 0,
            pieces: Pieces::new(pieces),
            newest: Newest::NONE,
            replaced: VaRange::default(),
        };
        aspace.reserve_tables(VaRange::default()).ok()?;
        Some(aspace)
    }

    /// Physical address of the root table.
    pub fn root(&self) -> Phys {
        self.root
    }

    /// What is where.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Where mappings may lie.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            low: Va(USER_BASE),
            mmap_top: self.mmap_top,
            phase: self.phase,
            top: Va(USER_TOP),
            max_page: self.machine.largest_page(),
            new_flags: self.new_flags,
        }
    }

    /// Ends the mmap area, below `stack`.
    pub fn set_mmap_area(&mut self, stack: VaRange) {
        self.mmap_top = Va(areas::mmap_top(stack.start.0));
        self.phase = areas::phase(stack.end.0);
    }

    /// The break; `max_bytes` is the limit on it.
    pub fn heap(&self, max_bytes: u64) -> Heap {
        Heap {
            start: self.heap.0,
            current: self.heap.1,
            max_bytes,
        }
    }

    /// Says where the heap begins.
    pub fn set_heap(&mut self, start: Va) {
        self.heap = (start, start);
    }

    /// Where its partition lies.
    pub fn partition(&self) -> PhysRange {
        PhysRange {
            start: self.frames.base(),
            end: self.frames.end(),
        }
    }

    /// Whether the program may write code, or ever could: then what others write into its memory may be code.
    pub fn has_writable_code(&self) -> bool {
        const WRITABLE: Prot = Prot::WRITE.union(Prot::EXEC);
        const ALL: u8 = bit(WRITABLE) | bit(Prot::all());
        self.accesses & ALL != 0
    }

    /// Physical address behind `va`, and how many bytes of its page follow.
    pub fn translate(&mut self, va: Va) -> Option<(Phys, u64)> {
        let (tables, root) = self.tables();
        let t = paging::translate(&tables, root, va)?;
        Some((t.pa, t.size.bytes() - t.pa.0 % t.size.bytes()))
    }

    /// Whether the access that faulted at `va` with this error code is allowed by now, and finds a frame: another thread was changing
    /// what is mapped there. It is to be made again.
    pub fn is_settled(&mut self, va: Va, error: u64) -> bool {
        let is_mapped = va < Va(USER_TOP) && paging::is_of_access(error);
        let (tables, root) = self.tables();
        let found = is_mapped.then(|| paging::translate(&tables, root, va));
        found
            .flatten()
            .is_some_and(|page| paging::allows(page.prot, error))
    }

    /// Notes a write to `range` (any alignment) that does not go through the page tables.
    pub fn mark_dirty(&mut self, range: VaRange) {
        let end = range.end.min(Va(USER_TOP)).align_up(PAGE_BYTES);
        let pages = range.start.align_down(PAGE_BYTES).until(end);
        let (mut tables, root) = self.tables();
        paging::mark_dirty(&mut tables, root, pages);
    }

    /// Has the executable pages of `range` (any alignment) written over themselves, after another process filled them.
    pub fn renew_code(&mut self, range: VaRange) {
        let start = range.start.align_down(PAGE_BYTES);
        let range = start.until(range.end.min(Va(USER_TOP)));
        let machine = self.machine;
        let (regions, tables, root) = self.regions_and_tables(Purpose::Mapping);
        for region in regions.iter_range(range) {
            // Other processes fill objects, against which no instruction is atomic under single-threaded TCG. Frames of text
            // held no code before, and cannot be written to.
            if !region.prot.contains(Prot::EXEC) || region.backing() != Backing::Own {
                continue;
            }
            paging::extents(&tables, root, region.range(), |extent| {
                for at in (0..extent.len_bytes).step_by(PAGE_BYTES as usize) {
                    machine.rewrite(extent.pa + at);
                    M::point(PAGE_BYTES as u32 / 2);
                }
            });
        }
    }

    fn tables(&mut self) -> (PartitionTables<'_, M>, Phys) {
        self.tables_for(Purpose::Mapping)
    }

    #[inline]
    fn tables_for(&mut self, purpose: Purpose) -> (PartitionTables<'_, M>, Phys) {
        let (_, tables, root) = self.regions_and_tables(purpose);
        (tables, root)
    }

    #[inline]
    fn regions_and_tables(&mut self, purpose: Purpose) -> (&Regions, PartitionTables<'_, M>, Phys) {
        let tables = PartitionTables {
            machine: self.machine,
            frames: &mut self.frames,
            pool: &mut self.pool,
            purpose,
        };
        (&self.regions, tables, self.root)
    }

    /// After entries of `range` went away: no TLB of the rank's cores has them, and emptied tables may be used again.
    /// Those of peers may: of what the emptied tables covered, too, for they keep where tables were.
    fn flush(&mut self, range: VaRange) {
        let covered = self.pool.covered_by_emptied();
        let start = range.start.align_down(covered);
        self.stale.add(start.until(range.end.align_up(covered)));
        self.machine.flush(range);
        self.pool.flushed(self.machine);
    }

    /// After what is mapped at `range` got other rights: no TLB has the old ones, a peer's neither.
    fn flush_rights(&mut self, range: VaRange) {
        self.machine.flush(range);
        self.machine.flush_windows();
        self.stale.clear();
    }

    /// Before frames are shown at `range`: no peer sees what was there before.
    #[inline]
    fn renew(&mut self, range: VaRange) {
        if self.stale.meets(range) {
            self.machine.flush_windows();
            self.stale.clear();
        }
    }

    /// Logs what is at `range` for the proxy, but for holes.
    fn publish(&mut self, range: VaRange) {
        // Page tables do not say that a region is writable and not readable.
        const WRITE_ONLY: u8 = bit(Prot::WRITE) | bit(Prot::WRITE.union(Prot::EXEC));
        if self.may_show_text(range) || self.accesses & WRITE_ONLY != 0 {
            return self.publish_by_regions(range);
        }
        let machine = self.machine;
        let (tables, root) = self.tables();
        paging::extents(&tables, root, range, |extent| {
            record(machine, &shown(&extent));
        });
    }

    /// The largest page that a region is mapped with.
    fn max_page(&self, region: &Region) -> PageSize {
        match region.is_mapped_small() {
            true => PageSize::Size4K,
            false => self.machine.largest_page(),
        }
    }
}

/// Of an access in [`Aspace::accesses`].
const fn bit(prot: Prot) -> u8 {
    1 << prot.bits()
}

/// A change needs more memory than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl From<OutOfMemory> for Errno {
    fn from(_: OutOfMemory) -> Errno {
        Errno::ENOMEM
    }
}

/// How fresh frames are mapped.
fn fresh(prot: Prot, max: PageSize) -> MapOptions {
    MapOptions {
        prot,
        max,
        dirty: false,
    }
}
