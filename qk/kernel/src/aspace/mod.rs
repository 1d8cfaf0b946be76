//! An address space: a rank's share of memory, its regions and its page tables, and what its proxy has been told of them.
//!
//! Everything here works in steps that are short (interrupts are taken between them) and that can be repeated: when an
//! operation answers [`Stop::Sync`], the caller lets go of the address space, has the proxy catch up with the region log,
//! and calls again; what was done stays done. Nothing is lazy: whatever a program may touch is backed and mapped.

mod backing;

use backing::clear;
use hal::addr::Phys;
use qk_core::frames::Frames;
use qk_core::page::PageSize;
use qk_core::paging::{self, MapOptions, Tables};
use qk_core::regions::{Prot, Regions};
use wire::region_log::{Change, RegionLog};

use crate::limbo::Limbo;
use crate::stats;
use crate::tables::{Emptied, ShareTables};

/// Regions a rank may have.
const REGIONS: usize = 4096;
/// Bytes of 4 KiB pages worked on between two looks for interrupts (128 entries).
const SMALL_STEP_BYTES: u64 = 512 << 10;
/// Pages moved between two looks for interrupts: each is mapped anew by itself.
const MOVE_STEP_PAGES: u64 = 16;
/// Large pages worked on between two looks for interrupts.
const LARGE_STEP_PAGES: usize = 32;

/// Why an operation did not finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The proxy must catch up first; then repeat the call.
    Sync,
    /// The share is used up.
    NoMemory,
}

/// An address space. Addresses and lengths are multiples of 4 KiB inside slot 0.
pub struct Aspace {
    root: u64,
    frames: Frames,
    limbo: Limbo,
    emptied: Emptied,
    log: Option<&'static RegionLog>,
    /// What is where.
    pub regions: Regions,
    /// Start and end of the brk heap, in bytes; equal when it is empty.
    pub heap: (u64, u64),
    /// Where the mmap area ends: below the stack and its gap.
    pub mmap_top: u64,
}

impl Aspace {
    /// An empty address space over the share `base .. base + len_bytes`; `zeroed`: it is known to hold zeros.
    /// `None` when not even the first table fits.
    pub fn new(
        base: u64,
        len_bytes: u64,
        zeroed: bool,
        log: Option<&'static RegionLog>,
    ) -> Option<Aspace> {
        let mut frames = Frames::new_with_pauses(base, len_bytes, zeroed, stats::irq_window);
        let mut emptied = Emptied::new();
        let root = ShareTables {
            frames: &mut frames,
            emptied: &mut emptied,
        }
        .alloc_table()?;
        hal::aspace::new_root(Phys(root));
        Some(Aspace {
            root,
            frames,
            limbo: Limbo::new(),
            emptied,
            log,
            regions: Regions::new(REGIONS),
            heap: (0, 0),
            mmap_top: abi::map::STACK_TOP,
        })
    }

    /// What CR3 is to hold.
    pub fn root(&self) -> Phys {
        Phys(self.root)
    }

    /// Bytes of the share: all, in use, most ever in use.
    pub fn usage_bytes(&self) -> (u64, u64, u64) {
        (
            self.frames.end() - self.frames.base(),
            self.frames.used_bytes(),
            self.frames.peak_bytes(),
        )
    }

    /// Bytes that can still be backed, once the proxy has caught up.
    pub fn free_bytes(&self) -> u64 {
        self.frames.free_bytes() + self.limbo.bytes()
    }

    fn tables(&mut self) -> (ShareTables<'_>, u64) {
        (
            ShareTables {
                frames: &mut self.frames,
                emptied: &mut self.emptied,
            },
            self.root,
        )
    }

    /// Position of the region log that covers everything done so far.
    pub fn log_position(&self) -> u64 {
        self.log.map_or(0, RegionLog::position)
    }

    /// Takes back frames that the proxy has let go.
    pub fn reclaim(&mut self) {
        if !self.limbo.is_empty() {
            let applied = self.log.map_or(u64::MAX, RegionLog::applied);
            self.limbo
                .release(&mut self.frames, applied, stats::irq_window);
        }
    }

    fn record(&mut self, change: &Change) -> Result<(), Stop> {
        match self.log {
            Some(log) => log.append(change).map(|_| ()).ok_or(Stop::Sync),
            None => Ok(()),
        }
    }

    /// [`Stop`] for running out: worth another try when the proxy still holds something.
    fn out_of_memory(&self) -> Stop {
        if self.limbo.is_empty() {
            Stop::NoMemory
        } else {
            Stop::Sync
        }
    }

    /// End of the step that starts at `at`: some large pages, or a stretch of small ones or of nothing.
    fn step_end(&mut self, at: u64, end: u64) -> u64 {
        let (tables, root) = self.tables();
        let mut next = at;
        for _ in 0..LARGE_STEP_PAGES {
            // A large page that is only partly in the range will be split: small pages, then.
            match paging::translate(&tables, root, next).map(|t| t.size.bytes()) {
                Some(size)
                    if size > abi::map::PAGE && next.is_multiple_of(size) && end - next >= size =>
                {
                    next += size
                }
                _ => break,
            }
        }
        if next == at {
            let small = (at + SMALL_STEP_BYTES) & !(SMALL_STEP_BYTES - 1);
            next = paging::vacant_until(&tables, root, at, end)
                .map_or(small, |until| until.max(small));
        }
        next.min(end)
    }

    /// Tells the proxy of all frames in `*at .. end`; `*at` moves on as it gets there.
    pub fn publish(&mut self, at: &mut u64, end: u64) -> Result<(), Stop> {
        let Some(log) = self.log else { return Ok(()) };
        while *at < end {
            let step = self.step_end(*at, end);
            let (tables, root) = self.tables();
            let mut full_at = None;
            paging::extents(&tables, root, *at, step, |e| {
                let change = match e.prot.is_empty() {
                    true => Change::Unmap {
                        addr: e.va,
                        len_bytes: e.len_bytes,
                    },
                    false => Change::Map {
                        addr: e.va,
                        len_bytes: e.len_bytes,
                        gpa: e.pa,
                        read: true,
                        write: e.prot.contains(Prot::WRITE),
                    },
                };
                if full_at.is_none() && log.append(&change).is_none() {
                    full_at = Some(e.va);
                }
            });
            if let Some(va) = full_at {
                *at = va;
                return Err(Stop::Sync);
            }
            *at = step;
            stats::irq_window();
        }
        Ok(())
    }

    /// Tells the proxy that nothing is at `start .. end` any more.
    pub fn forget(&mut self, start: u64, end: u64) -> Result<(), Stop> {
        self.record(&Change::Unmap {
            addr: start,
            len_bytes: end - start,
        })
    }

    /// Takes the frames of `*at .. end` away; `*at` moves on. The caller has removed the regions.
    pub fn unmap(&mut self, at: &mut u64, end: u64) -> Result<(), Stop> {
        while *at < end {
            if self.limbo.is_full() {
                self.reclaim();
                if self.limbo.is_full() {
                    return Err(Stop::Sync);
                }
            }
            let step = self.step_end(*at, end);
            // Recorded first: should the log be full, nothing has happened yet. The proxy may well drop what is
            // still mapped here: no shipped call of this rank is under way.
            self.record(&Change::Unmap {
                addr: *at,
                len_bytes: step - *at,
            })?;
            self.remove(*at, step)?;
            *at = step;
            stats::irq_window();
        }
        Ok(())
    }

    fn remove(&mut self, start: u64, end: u64) -> Result<(), Stop> {
        let mut tables = ShareTables {
            frames: &mut self.frames,
            emptied: &mut self.emptied,
        };
        let limbo = &mut self.limbo;
        let result = paging::unmap(
            &mut tables,
            self.root,
            start,
            end,
            |pa, len_bytes, dirty| limbo.put(pa, len_bytes, !dirty),
        );
        self.settle();
        result.map_err(|_| self.out_of_memory())
    }

    /// After entries went away: no TLB and no peer may use them before their frames are used again.
    fn settle(&mut self) {
        hal::aspace::flush_all();
        let position = self.log_position();
        let Self { emptied, limbo, .. } = self;
        emptied
            .drain(..)
            .for_each(|table| limbo.put(table, abi::map::PAGE, false));
        limbo.recorded(position);
    }

    /// Gives what is mapped in `*at .. end` the access `prot`; `*at` moves on.
    pub fn protect(&mut self, at: &mut u64, end: u64, prot: Prot) -> Result<(), Stop> {
        while *at < end {
            let step = self.step_end(*at, end);
            let (mut tables, root) = self.tables();
            let flush = paging::protect(&mut tables, root, *at, step, prot)
                .map_err(|_| self.out_of_memory())?;
            if flush {
                hal::aspace::flush_all();
            }
            *at = step;
            stats::irq_window();
        }
        Ok(())
    }

    /// Moves frames from `from .. from + len_bytes` to `to`, where nothing is mapped.
    ///
    /// All or nothing: there must be frames for all tables that it may need before it begins.
    pub fn relocate(&mut self, from: u64, to: u64, len_bytes: u64) -> Result<(), Stop> {
        // One for each 2 MiB there, and one for each large page here that has to be split.
        let tables_bytes = (2 * len_bytes / abi::map::PAGE_2M + 8) * abi::map::PAGE;
        if self.frames.free_bytes() < tables_bytes {
            return Err(self.out_of_memory());
        }
        let mut at = from;
        while at < from + len_bytes {
            // A large page stays one only between addresses that are aligned alike; else the first step is to split it.
            let page_bytes = self.page_bytes(at);
            let alike = (at | to.wrapping_sub(from)).is_multiple_of(page_bytes);
            let most_bytes = if alike {
                page_bytes * MOVE_STEP_PAGES
            } else {
                abi::map::PAGE
            };
            let step = self.step_end(at, from + len_bytes).min(at + most_bytes);
            let (mut tables, root) = self.tables();
            let moved = paging::move_range(&mut tables, root, at, to + (at - from), step - at);
            self.settle();
            moved.map_err(|_| self.out_of_memory())?;
            at = step;
            stats::irq_window();
        }
        Ok(())
    }

    /// Makes `start .. end` read as zeros again (madvise DONTNEED): clears what may have been written to.
    pub fn discard(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let step = self.step_end(at, end);
            let (mut tables, root) = self.tables();
            let mut dirty: arrayvec::ArrayVec<(u64, u64), 512> = arrayvec::ArrayVec::new();
            paging::visit_dirty(&mut tables, root, at, step, false, |_, pa, len| {
                dirty.push((pa, len))
            });
            hal::aspace::flush_all();
            dirty.iter().for_each(|&(pa, len)| clear(pa, len));
            at = step;
        }
    }

    /// Notes that somebody who does not come through the page tables writes to `start .. end` (any alignment).
    pub fn mark_dirty(&mut self, start: u64, end: u64) {
        let (mut tables, root) = self.tables();
        paging::mark_dirty(
            &mut tables,
            root,
            start & !(abi::map::PAGE - 1),
            end.next_multiple_of(abi::map::PAGE),
        );
    }

    /// Writes the pages of `start .. end` over themselves, so that an emulator that keeps translated code drops what it
    /// translated before another process filled them (PLATFORM: TCG does not see other processes' writes).
    pub fn renew_code(&mut self, start: u64, end: u64) {
        let (tables, root) = self.tables();
        let mut at = start & !(abi::map::PAGE - 1);
        while at < end {
            if let Some(t) = paging::translate(&tables, root, at) {
                hal::mem::copy(Phys(t.pa), Phys(t.pa), abi::map::PAGE);
            }
            at += abi::map::PAGE;
            stats::irq_window();
        }
    }

    /// Maps a foreign physical page (the clock page) for reading.
    pub fn map_foreign(&mut self, va: u64, pa: Phys) -> Result<(), Stop> {
        let (mut tables, root) = self.tables();
        let options = MapOptions {
            prot: Prot::READ,
            max: PageSize::Size4K,
            dirty: true,
        };
        paging::map(&mut tables, root, va, pa.0, abi::map::PAGE, options)
            .map_err(|_| Stop::NoMemory)
    }

    /// Physical address behind `va`, and how many bytes of its page follow.
    pub fn translate(&mut self, va: u64) -> Option<(Phys, u64)> {
        let (tables, root) = self.tables();
        let t = paging::translate(&tables, root, va)?;
        Some((Phys(t.pa), t.size.bytes() - t.pa % t.size.bytes()))
    }
}
