//! Text that ranks share: frames of the node pool, of private mappings, which are never written to.
//!
//! They are mapped without write access. Before a rank gets that, it gets a copy of its own ([`Aspace::own`]), so that nothing
//! is copied at a page fault.

use super::receipt::{RUNS, Receipt};
use super::{Aspace, COPY_BYTES, Machine, Purpose, Unfinished, range, record, shown_as};
use crate::frames::Place;
use crate::objects::{AttachedText, Run, TextLease};
use crate::page::PageSize;
use crate::paging::{self, Extent};
use crate::regions::{Prot, Region, RegionFlags};
use abi::Errno;
use abi::addr::{Phys, Va};
use abi::map::USER_TOP;
use wire::region_log::prot;

/// A program's text lies below its heap, that of its libraries at the upper end of the mmap area. What it maps and unmaps as it
/// runs lies between, mostly, where no region has to be looked at.
pub(super) struct TextEnds {
    /// End of what was text in the lower half of the addresses.
    low: u64,
    /// Start of what was text in the upper half.
    high: u64,
}

impl TextEnds {
    /// There is no text.
    pub const NONE: Self = Self {
        low: 0,
        high: USER_TOP,
    };

    fn widen(&mut self, start: u64, end: u64) {
        match start < USER_TOP / 2 {
            true => self.low = self.low.max(end),
            false => self.high = self.high.min(start),
        }
    }
}

impl<M: Machine> Aspace<M> {
    /// Maps text at `region`, where nothing is mapped, without write access.
    ///
    /// # Errors
    /// ENOMEM, EACCES; with nothing changed, and the text for its owner.
    pub fn map_text(
        &mut self,
        mut region: Region,
        text: AttachedText,
    ) -> Result<(), (Errno, AttachedText)> {
        region.flags |= RegionFlags::TEXT;
        let from = text.pieces().first().map_or(0, |piece| piece.offset);
        let mapped = match region.prot.contains(Prot::WRITE) {
            true => Err(Errno::EACCES),
            false => self.map_pieces(region, text.pieces(), from),
        };
        self.text_ends.widen(region.start, region.end);
        match mapped.and_then(|()| self.show_new(region)) {
            Ok(()) => {
                text.pass_on();
                Ok(())
            }
            Err(errno) => Err((errno, text)),
        }
    }

    /// Whether some of `start .. end` may be text.
    #[inline]
    pub(super) fn may_show_text(&self, start: u64, end: u64) -> bool {
        start < self.text_ends.low || self.text_ends.high < end
    }

    /// The first part of `start .. end` that is text.
    #[inline]
    pub fn text(&self, start: u64, end: u64) -> Option<Region> {
        match self.may_show_text(start, end) {
            true => self.find_text(start, end),
            false => None,
        }
    }

    #[inline(never)] // Out of the way of what is no text; as the next.
    fn find_text(&self, start: u64, end: u64) -> Option<Region> {
        // POINT: aspace::evict::looked_at
        (start < end)
            .then(|| self.looked_at(start, end).find(Region::is_text))
            .flatten()
    }

    /// Has `let_go` take the front of `start .. end` that is text out of the tables, a run of adjacent frames after another, each at
    /// most `most_bytes`; it says how much of it has gone.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] when there was text; those of `let_go`.
    pub(super) fn each_text_run(
        &mut self,
        start: u64,
        end: u64,
        most_bytes: u64,
        mut let_go: impl FnMut(&mut Self, &Extent) -> Result<u64, Errno>,
    ) -> Result<(), Unfinished> {
        let mut runs = self.take_runs()?;
        let (mut at, mut result) = (start, Ok(()));
        // BOUND: RUNS.
        while runs.len() < RUNS
            && let Some((region, run)) = self.text_piece(at, end, most_bytes)
        {
            match let_go(self, &run) {
                Ok(len_bytes) => {
                    let (offset, pa) = (region.offset_at(run.va.0), run.pa);
                    at = run.va.0 + len_bytes;
                    runs.push(Run {
                        offset,
                        pa,
                        len_bytes,
                    });
                }
                Err(errno) => {
                    result = Err(errno.into());
                    break;
                }
            }
        }
        if runs.is_empty() {
            self.runs = runs;
            return result;
        }
        // What failed fails again, when it is called again.
        Err(Receipt::of_text(runs).into())
    }

    /// Gives all text in `start .. end` frames of the rank's own, which hold the same, with the same access.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] when there was text. ENOMEM: when memory is so fragmented that there is none for page tables, some of it
    /// may be the rank's own then, without a sign which.
    #[inline]
    pub fn own(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        match self.text(start, end) {
            Some(first) => self.own_text(first.start, end),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn own_text(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        let mut bytes = 0;
        let mut at = start;
        // POINT: aspace::evict::looked_at
        while let Some(region) = self.text(at, end) {
            bytes += region.len_bytes();
            at = region.end;
        }
        self.check_free(bytes)?; // for all of it, before the first
        self.each_text_run(start, end, PageSize::Size2M.bytes(), Self::own_run)
    }

    /// The same for the front of adjacent frames of text; returns how much of them.
    fn own_run(&mut self, run: &Extent) -> Result<u64, Errno> {
        let max = PageSize::Size2M.min(self.machine.largest_page());
        self.reclaim();
        // The copy, and what is left on both sides.
        self.add_pieces(3)?;
        let taken = self.or_sync(|aspace| aspace.take(run.va.0, run.len_bytes, max, Place::Any))?;
        let end = run.va.0 + taken.len_bytes;
        let replaced = self.replace_text(run.va.0, end, run.pa, taken.pa);
        if replaced.is_err() {
            self.frames
                .free_range(taken.pa, taken.len_bytes, false)
                .expect("a frame just allocated can be freed");
        }
        replaced.map(|()| taken.len_bytes)
    }

    /// Puts a copy at `to` in the place of the text at `from`.
    fn replace_text(&mut self, start: u64, end: u64, from: Phys, to: Phys) -> Result<(), Errno> {
        self.regions
            .check_update(start, end)
            .map_err(|_| Errno::ENOMEM)?;
        self.reserve_tables(start, end)?;
        for at in (0..end - start).step_by(COPY_BYTES as usize) {
            let step = COPY_BYTES.min(end - start - at);
            self.machine.copy(to + at, from + at, step);
            M::point(step as u32 / 8);
        }
        let not_text = |region: &mut Region| region.flags.remove(RegionFlags::TEXT);
        self.regions
            .update(start, end, not_text)
            .map_err(|_| Errno::ENOMEM)?;
        let (mut tables, root) = self.tables_for(Purpose::Borders);
        paging::replace(&mut tables, root, range(start, end), to)
            .expect("tables for the borders are reserved");
        self.flush_rights(start, end);
        self.publish(start, end);
        Ok(())
    }

    /// The first adjacent frames of the first text in `start .. end`, at most `most_bytes`. A region of text has frames for all
    /// of it.
    fn text_piece(&mut self, start: u64, end: u64, most_bytes: u64) -> Option<(Region, Extent)> {
        let region = self.text(start, end)?;
        let (tables, root) = self.tables();
        let most = region.len_bytes().min(most_bytes);
        let run = paging::extent_at(&tables, root, Va(region.start), Va(region.start + most))?;
        Some((region, run))
    }

    /// The program has ended: gives back all text, although it stays mapped, for a report of how it ended. Nothing is unmapped
    /// after this.
    pub fn end_text(&mut self, mut left: impl FnMut(TextLease)) {
        let mut at = 0;
        // POINT: aspace::evict::looked_at
        while let Some(region) = self.text(at, USER_TOP) {
            let (tables, root) = self.tables();
            paging::extents(&tables, root, range(region.start, region.end), |run| {
                left(TextLease::of(Run {
                    offset: region.offset_at(run.va.0),
                    pa: run.pa,
                    len_bytes: run.len_bytes,
                }));
            });
            at = region.end;
        }
        self.text_ends = TextEnds::NONE;
    }

    /// As [`Self::publish`], with what is text said to be that.
    #[cold]
    #[inline(never)]
    pub(super) fn publish_by_regions(&mut self, start: u64, end: u64) {
        let machine = self.machine;
        let (regions, tables, root) = self.regions_and_tables(Purpose::Mapping);
        // POINT: regions::list::next
        for region in regions.iter_range(start, end) {
            let kind = if region.is_text() { prot::TEXT } else { 0 };
            paging::extents(&tables, root, range(region.start, region.end), |extent| {
                record(machine, &shown_as(&extent, kind));
            });
        }
    }
}
