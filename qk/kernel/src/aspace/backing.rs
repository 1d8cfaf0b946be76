//! Finding frames: every accessible region is backed when it is made, with the largest pages that fit.

use hal::addr::Phys;
use qk_core::page::PageSize;
use qk_core::paging::{self, MapOptions};
use qk_core::regions::Prot;

use super::{Aspace, Stop};
use crate::stats;

/// Bytes cleared between two looks for interrupts.
const CLEAR_STEP_BYTES: u64 = 64 << 10;

/// Clears physical memory, taking interrupts in between.
pub(super) fn clear(addr: u64, len_bytes: u64) {
    let mut done = 0;
    while done < len_bytes {
        let step = CLEAR_STEP_BYTES.min(len_bytes - done);
        hal::mem::zero(Phys(addr + done), step);
        done += step;
        stats::irq_window();
    }
}

impl Aspace {
    /// Backs every page of `start .. end` that has no frame yet, with the largest pages up to `max`.
    /// Pages that have one keep it.
    pub fn back(&mut self, start: u64, end: u64, prot: Prot, max: PageSize) -> Result<(), Stop> {
        self.reclaim();
        let mut at = start;
        while at < end {
            let vacant = self.vacant_end(at, end);
            if vacant > at {
                self.fill(at, vacant, prot, max)?;
                at = vacant;
            } else {
                let step = self.step_end(at, end);
                at = self.first_hole(at, step).unwrap_or(step);
            }
            stats::irq_window();
        }
        Ok(())
    }

    /// Bytes of the page at `at`; a small one where there is none.
    pub(super) fn page_bytes(&mut self, at: u64) -> u64 {
        let (tables, root) = self.tables();
        paging::translate(&tables, root, at).map_or(abi::map::PAGE, |t| t.size.bytes())
    }

    /// The first address of `start .. end` without a frame.
    fn first_hole(&mut self, start: u64, end: u64) -> Option<u64> {
        let (tables, root) = self.tables();
        let mut hole = None;
        paging::vacant(&tables, root, start, end, |va, _| {
            _ = hole.get_or_insert(va)
        });
        hole
    }

    /// Bytes without frames that `start .. end` begins with.
    pub fn vacant_bytes(&mut self, start: u64, end: u64) -> u64 {
        self.vacant_end(start, end) - start
    }

    /// End of the stretch without frames that begins at `at`; `at` itself when there is one.
    fn vacant_end(&mut self, at: u64, end: u64) -> u64 {
        let mut next = at;
        while next < end {
            let (tables, root) = self.tables();
            match paging::vacant_until(&tables, root, next, end) {
                Some(until) => next = until,
                None => break,
            }
            stats::irq_window();
        }
        next
    }

    /// Maps fresh zeroed frames at `start .. end`, where nothing is mapped.
    fn fill(&mut self, start: u64, end: u64, prot: Prot, max: PageSize) -> Result<(), Stop> {
        let mut at = start;
        let mut prefer = None;
        while at < end {
            let (pa, len_bytes, zero) = self
                .take(at, end - at, max, prefer)
                .ok_or_else(|| self.out_of_memory())?;
            if !zero {
                stats::irq_window();
                clear(pa, len_bytes);
            }
            let (mut tables, root) = self.tables();
            let options = MapOptions {
                prot,
                max,
                dirty: false,
            };
            if paging::map(&mut tables, root, at, pa, len_bytes, options).is_err() {
                // Never seen by anybody: straight back.
                self.frames
                    .free_range(pa, len_bytes, true)
                    .expect("a frame just allocated can be freed");
                return Err(self.out_of_memory());
            }
            at += len_bytes;
            prefer = Some(pa + len_bytes);
            stats::irq_window();
        }
        Ok(())
    }

    /// Frames for the front of `va .. va + len_bytes`: (address, bytes, known to be zero).
    fn take(
        &mut self,
        va: u64,
        len_bytes: u64,
        max: PageSize,
        prefer: Option<u64>,
    ) -> Option<(u64, u64, bool)> {
        let mut size = PageSize::largest(va, len_bytes, max);
        while size != PageSize::Size4K {
            let frame = match prefer {
                Some(addr) => self.frames.alloc_prefer(size, addr),
                None => self.frames.alloc(size),
            };
            if let Some(frame) = frame {
                return Some((frame.addr, size.bytes(), frame.zero));
            }
            size = size.smaller()?;
        }
        // Up to the next address where a larger page may start.
        let to_large = abi::map::PAGE_2M - va % abi::map::PAGE_2M;
        let max_frames = len_bytes.min(to_large) / abi::map::PAGE;
        let run = self.frames.alloc_run(max_frames as usize, prefer)?;
        Some((run.addr, run.len_bytes, run.zero))
    }
}
