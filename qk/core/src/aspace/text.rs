//! Text that ranks share: frames of the node pool, of private mappings, which are never written to.
//!
//! They are mapped without write access. Before a rank gets that, it gets a copy of its own ([`Aspace::own`]), so that nothing
//! is copied at a page fault.

use super::receipt::{RUNS, Receipt};
use super::{Aspace, COPY_BYTES, Machine, Purpose, Unfinished, record, shown_as};
use crate::frames::Place;
use crate::objects::{AttachedText, Run, TextLease};
use crate::page::PageSize;
use crate::paging::{self, Extent};
use crate::regions::{Prot, Region, RegionFlags};
use abi::Errno;
use abi::addr::{Phys, Va, VaRange};
use abi::map::USER_TOP;
use wire::region_log::prot;

/// A program's text lies below its heap, that of its libraries at the upper end of the mmap area. What it maps and unmaps as it
/// runs lies between, mostly, where no region has to be looked at.
pub(super) struct TextEnds {
    /// End of what was text in the lower half of the addresses.
    low: Va,
    /// Start of what was text in the upper half.
    high: Va,
}

impl TextEnds {
    /// There is no text.
    pub const NONE: Self = Self {
        low: Va(0),
        high: Va(USER_TOP),
    };

    fn widen(&mut self, range: VaRange) {
        match range.start < Va(USER_TOP / 2) {
            true => self.low = self.low.max(range.end),
            false => self.high = self.high.min(range.start),
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
            false => self
                .reserve_receipt()
                .map_err(Errno::from)
                .and_then(|()| self.map_pieces(region, text.pieces(), from)),
        };
        self.text_ends.widen(region.range());
        match mapped.and_then(|()| self.show_new(region)) {
            Ok(()) => {
                text.pass_on();
                Ok(())
            }
            Err(errno) => Err((errno, text)),
        }
    }

    /// Whether some of `range` may be text.
    #[inline]
    pub(super) fn may_show_text(&self, range: VaRange) -> bool {
        range.start < self.text_ends.low || self.text_ends.high < range.end
    }

    /// The first part of `range` that is text.
    #[inline]
    pub fn text(&self, range: VaRange) -> Option<Region> {
        match self.may_show_text(range) {
            true => self.find_text(range),
            false => None,
        }
    }

    #[inline(never)] // Out of the way of what is no text; as the next.
    fn find_text(&self, range: VaRange) -> Option<Region> {
        // POINT: aspace::evict::looked_at
        (!range.is_empty())
            .then(|| self.looked_at(range).find(Region::is_text))
            .flatten()
    }

    /// Has `let_go` take the front of `range` that is text out of the tables, a run of adjacent frames after another, each at
    /// most `most_bytes`; it says how much of it has gone.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] when there was text; those of `let_go`.
    pub(super) fn each_text_run(
        &mut self,
        range: VaRange,
        most_bytes: u64,
        mut let_go: impl FnMut(&mut Self, &Extent) -> Result<u64, Errno>,
    ) -> Result<(), Unfinished> {
        let mut runs = self.take_runs()?;
        let (mut at, mut result) = (range.start, Ok(()));
        // BOUND: RUNS.
        while runs.len() < RUNS
            && let Some((region, run)) = self.text_piece(at.until(range.end), most_bytes)
        {
            match let_go(self, &run) {
                Ok(len_bytes) => {
                    let (offset, pa) = (region.offset_at(run.va), run.pa);
                    at = run.va + len_bytes;
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

    /// Gives all text in `range` frames of the rank's own, which hold the same, with the same access.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] when there was text. ENOMEM: when memory is so fragmented that there is none for page tables, some of it
    /// may be the rank's own then, without a sign which.
    #[inline]
    pub fn own(&mut self, range: VaRange) -> Result<(), Unfinished> {
        match self.text(range) {
            Some(first) => self.own_text(first.start.until(range.end)),
            None => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn own_text(&mut self, range: VaRange) -> Result<(), Unfinished> {
        let mut bytes = 0;
        let mut at = range.start;
        // POINT: aspace::evict::looked_at
        while let Some(region) = self.text(at.until(range.end)) {
            bytes += region.len_bytes();
            at = region.end;
        }
        self.check_free(bytes)?; // for all of it, before the first
        self.each_text_run(range, PageSize::Size2M.bytes(), Self::own_run)
    }

    /// The same for the front of adjacent frames of text; returns how much of them.
    fn own_run(&mut self, run: &Extent) -> Result<u64, Errno> {
        let max = PageSize::Size2M.min(self.machine.largest_page());
        self.reclaim();
        // The copy, and what is left on both sides.
        self.add_pieces(3)?;
        let all = VaRange::new(run.va, run.len_bytes);
        let taken = self.or_sync(|aspace| aspace.take(all, max, Place::Any))?;
        let front = VaRange::new(run.va, taken.len_bytes);
        let replaced = self.replace_text(front, run, taken.pa);
        if replaced.is_err() {
            self.frames
                .free_range(taken.pa, taken.len_bytes, false)
                .expect("a frame just allocated can be freed");
        }
        replaced.map(|()| taken.len_bytes)
    }

    /// Puts a copy at `to` in the place of the text that begins with `run`.
    fn replace_text(&mut self, range: VaRange, run: &Extent, to: Phys) -> Result<(), Errno> {
        self.regions
            .check_update(range)
            .map_err(|_| Errno::ENOMEM)?;
        self.reserve_tables(range)?;
        let len_bytes = range.len_bytes();
        for at in (0..len_bytes).step_by(COPY_BYTES as usize) {
            let step = COPY_BYTES.min(len_bytes - at);
            self.machine.copy(to + at, run.pa + at, step);
            M::point(step as u32 / 8);
        }
        let not_text = |region: &mut Region| region.flags.remove(RegionFlags::TEXT);
        self.regions
            .update(range, not_text)
            .map_err(|_| Errno::ENOMEM)?;
        let (mut tables, root) = self.tables_for(Purpose::Borders);
        paging::replace(&mut tables, root, range, to).expect("tables for the borders are reserved");
        self.flush_rights(range);
        self.publish_access(range, run.prot);
        Ok(())
    }

    /// The first adjacent frames of the first text in `range`, at most `most_bytes`. A region of text has frames for all
    /// of it.
    fn text_piece(&mut self, range: VaRange, most_bytes: u64) -> Option<(Region, Extent)> {
        let region = self.text(range)?;
        let (tables, root) = self.tables();
        let most = region.len_bytes().min(most_bytes);
        let run = paging::extent_at(&tables, root, region.start, region.start + most)?;
        Some((region, run))
    }

    /// The text that shows a frame, and where.
    pub fn text_showing(&mut self, frame: Phys) -> Option<(Region, Va)> {
        let mut at = Va(0);
        // POINT: aspace::evict::looked_at
        while let Some(region) = self.text(at.until(Va(USER_TOP))) {
            let mut found = None;
            let (tables, root) = self.tables();
            paging::extents(&tables, root, region.range(), |run| {
                let inside = frame.0.checked_sub(run.pa.0);
                let inside = inside.filter(|inside| *inside < run.len_bytes);
                found = found.or(inside.map(|inside| (region, run.va + inside)));
            });
            if found.is_some() {
                return found;
            }
            at = region.end;
        }
        None
    }

    /// The program has ended: gives back all text, although it stays mapped, for a report of how it ended. Nothing is unmapped
    /// after this.
    pub fn end_text(&mut self, mut left: impl FnMut(TextLease)) {
        let mut at = Va(0);
        // POINT: aspace::evict::looked_at
        while let Some(region) = self.text(at.until(Va(USER_TOP))) {
            let (tables, root) = self.tables();
            paging::extents(&tables, root, region.range(), |run| {
                left(TextLease::of(Run {
                    offset: region.offset_at(run.va),
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
    pub(super) fn publish_by_regions(&mut self, range: VaRange) {
        let machine = self.machine;
        let (regions, tables, root) = self.regions_and_tables(Purpose::Mapping);
        // POINT: regions::list::next
        for region in regions.iter_range(range) {
            let kind = if region.is_text() { prot::TEXT } else { 0 };
            paging::extents(&tables, root, region.range(), |extent| {
                let prot = region.prot;
                record(machine, &shown_as(&Extent { prot, ..extent }, kind));
            });
        }
    }
}
