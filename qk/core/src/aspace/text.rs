//! Text that ranks share: frames of the node pool, of private mappings, which are never written to.
//!
//! They are mapped without write access. Before a rank gets that, it gets a copy of its own ([`Aspace::own`]), so that nothing
//! is copied at a page fault. The counter of the frames' mappings is told what has gone, a piece at a time.

use super::{Aspace, Machine, Purpose, record, shown_as};
use crate::frames::Place;
use crate::objects::Piece;
use crate::page::PageSize;
use crate::paging::{self, Extent};
use crate::regions::{Prot, Region, RegionFlags};
use abi::Errno;
use abi::map::USER_TOP;
use wire::region_log::prot;

use super::COPY_BYTES;

/// Adjacent frames of the node pool that are not mapped any more. They may only be counted as gone when the proxy has caught up
/// with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Physical address of the first byte.
    pub pa: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Where they were mapped until: what lies below has been seen to.
    pub end: u64,
}

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
    /// Maps text at `region`, where nothing is mapped, without write access; `pieces` are as for [`Self::map_shared`].
    ///
    /// # Errors
    /// ENOMEM, with nothing changed; EACCES.
    pub fn map_text(&mut self, mut region: Region, pieces: &[Piece]) -> Result<(), Errno> {
        if region.prot.contains(Prot::WRITE) {
            return Err(Errno::EACCES);
        }
        self.text_ends.widen(region.start, region.end);
        region.flags |= RegionFlags::TEXT;
        self.map_shared(region, pieces)
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
        const LOOK_WORK: u32 = 20;
        let mut regions = self.regions.iter_range(start, end);
        let is_text = |region: &Region| {
            M::point(LOOK_WORK);
            region.is_text()
        };
        // POINT: find_text
        (start < end).then(|| regions.find(is_text)).flatten()
    }

    /// Unmaps the first piece of text in `start .. end`; `None`: there is none.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    #[inline(never)]
    pub fn take_text(&mut self, start: u64, end: u64) -> Result<Option<Gone>, Errno> {
        let Some(Extent {
            va, pa, len_bytes, ..
        }) = self.text_piece(start, end, u64::MAX)
        else {
            return Ok(None);
        };
        let end = va + len_bytes;
        self.unmap(va, end)?;
        Ok(Some(Gone { pa, len_bytes, end }))
    }

    /// Whether there is memory for a copy of all text in `start .. end`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn check_own(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        let mut bytes = 0;
        let mut at = start;
        // POINT: find_text
        while let Some(region) = self.text(at, end) {
            bytes += region.len_bytes();
            at = region.end;
        }
        Ok(self.check_free(bytes)?)
    }

    /// Gives the front of the first text in `start .. end` frames of the rank's own, which hold the same; `None`: there is no text.
    /// Its access stays.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: also after [`Self::check_own`], when memory is so fragmented that there is none for page tables.
    #[inline(never)]
    pub fn own(&mut self, start: u64, end: u64) -> Result<Option<Gone>, Errno> {
        let max = PageSize::Size2M.min(self.machine.largest_page());
        let most_bytes = PageSize::Size2M.bytes();
        let Some(Extent {
            va, pa, len_bytes, ..
        }) = self.text_piece(start, end, most_bytes)
        else {
            return Ok(None);
        };
        self.reclaim();
        // The copy, and what is left on both sides.
        self.add_pieces(3)?;
        let taken = self.or_sync(|aspace| aspace.take(va, len_bytes, max, Place::Any))?;
        let end = va + taken.len_bytes;
        let replaced = self.replace_text(va, end, pa, taken.pa);
        if replaced.is_err() {
            self.frames
                .free_range(taken.pa, taken.len_bytes, false)
                .expect("a frame just allocated can be freed");
        }
        let len_bytes = taken.len_bytes;
        replaced.map(|()| Some(Gone { pa, len_bytes, end }))
    }

    /// Puts a copy at `to` in the place of the text at `from`.
    fn replace_text(&mut self, start: u64, end: u64, from: u64, to: u64) -> Result<(), Errno> {
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
        paging::replace(&mut tables, root, start, end, to)
            .expect("tables for the borders are reserved");
        self.flush_rights(start, end);
        self.publish(start, end);
        Ok(())
    }

    /// The first adjacent frames of the first text in `start .. end`, at most `most_bytes`. A region of text has frames for all
    /// of it.
    fn text_piece(&mut self, start: u64, end: u64, most_bytes: u64) -> Option<Extent> {
        let region = self.text(start, end)?;
        let (tables, root) = self.tables();
        let most = region.len_bytes().min(most_bytes);
        paging::extent_at(&tables, root, region.start, region.start + most)
    }

    /// Shows `visit` all text in `start .. end`, adjacent frames at a time.
    pub fn visit_text(&mut self, start: u64, end: u64, mut visit: impl FnMut(Extent)) {
        let mut at = start;
        // POINT: find_text
        while let Some(region) = self.text(at, end) {
            let (tables, root) = self.tables();
            paging::extents(&tables, root, region.start, region.end, &mut visit);
            at = region.end;
        }
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
            paging::extents(&tables, root, region.start, region.end, |extent| {
                record(machine, &shown_as(&extent, kind));
            });
        }
    }
}
