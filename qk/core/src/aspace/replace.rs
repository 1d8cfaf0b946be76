//! Mapping over something (MAP_FIXED). Linux does it in one step: a thread that uses the pages meanwhile finds what was there or what
//! comes. Here there is nothing between the two, for whom the address space's lock makes wait: the program's own threads, and the kernel
//! in their name. For Linux, which carries out their calls through the proxy, the log does not say that what was there has gone, only
//! what is there now. Until then the frames that went are no one's: what retires waits for that record.

use super::{Aspace, Machine, Unfinished, record, shown};
use crate::mman::MmapPlan;
use crate::paging::{self, Extent, Stretch};
use crate::regions::{Backing, Prot, Region, RegionFlags};
use abi::Errno;
use abi::addr::VaRange;
use wire::region_log::Change;

impl<M: Machine> Aspace<M> {
    /// Makes a mapping of zeros in the place of what is there.
    ///
    /// # Errors
    /// As [`Self::map`].
    #[inline(never)] // Out of the way of mappings where nothing is.
    pub(super) fn map_over(&mut self, plan: &MmapPlan) -> Result<(), Unfinished> {
        let range = plan.region.range();
        if plan.region.is_backed() && !self.regions.is_vacant(range) {
            // What lies there comes back first, to whom it belongs.
            let others = self.vacant_bytes(range) + self.lent_bytes(range);
            self.check_free(others)?;
        }
        self.vacate(range)?;
        let mapped = self.map_new(plan.region);
        self.end_replacing();
        Ok(mapped?)
    }

    /// Takes away what is mapped at `range`, in whose place something is mapped next, until [`Self::end_replacing`].
    ///
    /// # Errors
    /// [`Unfinished::Owes`]. ENOMEM, when a region or a large page would have to be cut in two and there is no room.
    pub fn vacate(&mut self, range: VaRange) -> Result<(), Unfinished> {
        // Where nothing is mapped there is nothing that peers, or the proxy, have seen.
        if self.regions.is_vacant(range) {
            return Ok(());
        }
        self.evict(range)?;
        self.prepare_removal(range)?;
        let forget = Change::Forget {
            addr: range.start.0,
            len_bytes: range.len_bytes(),
        };
        record(self.machine, &forget);
        self.take_out(range);
        self.replaced = range;
        Ok(())
    }

    /// What takes the place of what was taken away is mapped, or is not: then the proxy gets to know that nothing is there.
    pub fn end_replacing(&mut self) {
        if !self.replaced.is_empty() {
            self.publish_hole(self.replaced);
        }
    }

    /// Makes a mapping of zeros, where nothing is mapped, for the proxy to fill, which alone can access it: the program's threads
    /// wait, or peers see nothing, until [`Self::protect`] gives it an access.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn map_to_fill(&mut self, region: Region) -> Result<(), Errno> {
        debug_assert_eq!(region.backing(), Backing::Own);
        let range = region.range();
        self.back_new(range, Prot::empty(), self.max_page(&region))?;
        self.add_region(region)?;
        let machine = self.machine;
        let (tables, root) = self.tables();
        paging::extents(&tables, root, range, |extent| {
            let prot = Prot::READ | Prot::WRITE;
            record(machine, &shown(&Extent { prot, ..extent }));
        });
        self.published(range);
        Ok(())
    }

    /// Logs for the proxy that nothing is at `range` any more.
    pub(super) fn publish_hole(&mut self, range: VaRange) {
        let change = Change::Unmap {
            addr: range.start.0,
            len_bytes: range.len_bytes(),
        };
        record(self.machine, &change);
        self.published(range);
    }

    /// Logs for the proxy what is at `range`, all of it with this access.
    #[inline(always)]
    pub(super) fn publish_access(&mut self, range: VaRange, prot: Prot) {
        match prot.is_empty() {
            true => self.publish_reservations(range),
            false => self.publish(range),
        }
    }

    /// Logs a region that was entered, or moved, to `range`, if it is without access.
    #[inline(always)]
    pub(super) fn publish_reservation(&mut self, region: &Region, range: VaRange) {
        if region.is_reservation() {
            self.publish_reservations(range);
        }
    }

    /// Logs for the proxy what is mapped in `range` without access.
    #[inline(never)] // Out of the way of what has access.
    pub(super) fn publish_reservations(&mut self, range: VaRange) {
        let machine = self.machine;
        // POINT: regions::list::next
        for region in self
            .regions
            .iter_range(range)
            .filter(Region::is_reservation)
        {
            let change = Change::Reserve {
                addr: region.start.0,
                len_bytes: region.len_bytes(),
                shared: region.flags.contains(RegionFlags::SHARED),
            };
            record(machine, &change);
        }
        self.published(range);
    }

    /// Logs what is at `range` for the proxy, which may show there what was taken away.
    pub(super) fn publish_over(&mut self, range: VaRange) {
        if !self.replaced.is_empty() {
            self.publish_holes(range);
        }
        self.publish(range);
        self.published(range);
    }

    #[cold]
    #[inline(never)]
    fn publish_holes(&mut self, range: VaRange) {
        let VaRange { start: mut at, end } = range;
        // POINT: paging::report::stretch
        while at < end {
            let (tables, root) = self.tables();
            let Stretch { end: next, mapped } = paging::stretch(&tables, root, at, end);
            let next = if mapped {
                next
            } else {
                self.hole_end(next, end)
            };
            if !mapped {
                self.publish_hole(at.until(next));
            }
            at = next;
        }
    }

    /// After the log got what is at `range`: from the start of what was taken away on, or up to its end.
    #[inline]
    pub(super) fn published(&mut self, range: VaRange) {
        if !self.replaced.is_empty() {
            self.note_replaced(range);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_replaced(&mut self, range: VaRange) {
        let VaRange { start, end } = self.replaced;
        if range.start <= start {
            self.replaced = start.max(range.end).min(end).until(end);
        } else if range.end >= end {
            self.replaced = start.until(end.min(range.start));
        }
        // Up to this record, if all of it is replaced.
        self.leases.begin(self.machine);
    }
}
