//! Carrying out what `mman` decided.

use super::{Aspace, Machine, OutOfMemory, PartitionTables, Purpose, TextEnds, Unfinished, bit};
use crate::mman::{self, Advice, AdvicePlan, BrkPlan, MmapPlan, ProtectPlan};
use crate::page::{PAGE_BYTES, PageSize};
use crate::paging::{self, Extent, MapOptions};
use crate::regions::{Backing, Kind, Prot, Region, RegionFlags};
use abi::Errno;
use abi::addr::{Phys, Va, VaRange};
use abi::map::{STACK_TOP, USER_BASE, USER_TOP};

/// Work of a search in the region map, in instructions.
const SEARCH_WORK: u32 = 150;

impl<M: Machine> Aspace<M> {
    /// Makes a mapping of zeros.
    ///
    /// # Errors
    /// [`Unfinished::Owes`]. ENOMEM, with nothing changed; or with what was to be replaced gone, when memory is so fragmented that
    /// there is none for page tables.
    #[inline(always)] // Mostly nothing is replaced; as for `protect`, where mostly nothing needs a copy.
    pub fn map(&mut self, plan: &MmapPlan) -> Result<(), Unfinished> {
        match plan.replace {
            true => self.map_over(plan),
            false => Ok(self.map_new(plan.region)?),
        }
    }

    /// Makes a mapping of zeros where nothing is mapped.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn map_new(&mut self, region: Region) -> Result<(), Errno> {
        debug_assert_eq!(region.backing(), Backing::Own);
        if !region.is_backed() {
            return self.map_unbacked(region);
        }
        let max = self.max_page(&region);
        self.back_new(region.range(), region.prot, max)?;
        self.note_access(region.prot);
        self.add_region(region)
    }

    #[cold]
    #[inline(never)] // Out of the way of what has frames.
    fn map_unbacked(&mut self, region: Region) -> Result<(), Errno> {
        self.add_region(region)?;
        self.publish_reservation(&region, region.range());
        Ok(())
    }

    /// Maps a physical page that is not of the partition, for reading.
    ///
    /// # Errors
    /// ENOMEM, EEXIST.
    pub fn map_foreign(&mut self, region: Region, pa: Phys) -> Result<(), Errno> {
        debug_assert_eq!(region.backing(), Backing::Foreign);
        if !self.regions.is_vacant(region.range()) {
            return Err(Errno::EEXIST);
        }
        self.note_cut();
        self.renew(region.range());
        let (mut tables, root) = self.tables();
        let options = MapOptions {
            prot: Prot::READ,
            max: PageSize::Size4K,
            dirty: true,
        };
        paging::map(
            &mut tables,
            root,
            region.start,
            pa,
            region.len_bytes(),
            options,
        )
        .map_err(|_| OutOfMemory)?;
        self.add_region(region)
    }

    /// Enters a region whose frames are mapped; takes them out again if there is no room for it.
    pub(super) fn add_region(&mut self, region: Region) -> Result<(), Errno> {
        let added = self.regions.insert(region);
        if added.is_err() {
            self.take_back(region.range());
        }
        added.map_err(|_| Errno::ENOMEM)
    }

    /// Unmaps `range`, whatever it shows; holes are allowed.
    ///
    /// # Errors
    /// [`Unfinished::Owes`]. ENOMEM, when a region or a large page would have to be cut in two and there is no room.
    #[inline]
    pub fn unmap(&mut self, range: VaRange) -> Result<(), Unfinished> {
        self.evict(range)?;
        Ok(self.remove(range)?)
    }

    /// Removes `range`, of which nothing is lent, or what is lent is put on a receipt.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed, when a region or a large page would have to be cut in two and there is no room.
    pub(super) fn remove(&mut self, range: VaRange) -> Result<(), Errno> {
        self.prepare_removal(range)?;
        self.take_back(range);
        Ok(())
    }

    /// Does all of that which may fail: the frames are still there.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    #[inline]
    pub(super) fn prepare_removal(&mut self, range: VaRange) -> Result<(), Errno> {
        self.reclaim();
        self.reserve_tables(range)?;
        self.regions.remove(range).map_err(|_| Errno::ENOMEM)?;
        self.note_cut();
        Ok(())
    }

    /// Removes all that is mapped, and forgets what was said of heap, stack and mlockall, and the peak: another program is to
    /// be loaded. Tables stay tables, so that peers see what comes, or nothing.
    ///
    /// # Errors
    /// [`Unfinished::Owes`]; no other, unless the map of regions is broken.
    pub fn clear(&mut self) -> Result<(), Unfinished> {
        self.unmap(Va(USER_BASE).until(Va(USER_TOP)))?;
        self.heap = (Va(0), Va(0));
        self.mmap_top = Va(STACK_TOP);
        self.phase = 0;
        self.new_flags = RegionFlags::empty();
        self.accesses = 0;
        self.text_ends = TextEnds::NONE;
        self.frames.restart_peak();
        Ok(())
    }

    /// Changes the access of a range that is wholly mapped; backs what has no frame yet.
    ///
    /// # Errors
    /// [`Unfinished::Owes`], when text that ranks share may be written to from now on: it becomes the rank's own. ENOMEM, with no
    /// access changed; what the plan says, after it was carried out.
    #[inline(always)]
    pub fn protect(&mut self, plan: &ProtectPlan) -> Result<(), Unfinished> {
        if plan.prot.contains(Prot::WRITE) {
            self.own(plan.range)?;
        }
        Ok(self.change_access(plan)?)
    }

    /// The same of what needs no copy.
    ///
    /// # Errors
    /// ENOMEM, with no access changed; what the plan says.
    #[inline(never)]
    fn change_access(&mut self, plan: &ProtectPlan) -> Result<(), Errno> {
        let ProtectPlan { range, prot, .. } = *plan;
        if !range.is_empty() {
            self.reserve_tables(range)?;
            if !prot.is_empty() {
                self.commit(range)?;
            }
            self.regions
                .protect(range, prot)
                .map_err(|_| Errno::ENOMEM)?;
            let (mut tables, root) = self.tables_for(Purpose::Borders);
            let stale = paging::protect(&mut tables, root, range, prot)
                .expect("tables for the borders are reserved");
            if stale {
                self.flush_rights(range);
            }
            self.note_cut();
            self.note_access(prot);
            if prot.contains(Prot::EXEC) {
                self.renew_code(range);
            }
            self.publish_access(range, prot);
        }
        plan.result
    }

    /// Gives every page of the reservations in `range` a frame, without access as yet.
    ///
    /// # Errors
    /// ENOMEM, also when the region map has no room for what comes then; with none of them backed.
    fn commit(&mut self, range: VaRange) -> Result<(), Errno> {
        let mut vacant_bytes = 0;
        self.each_reservation(range, |aspace, piece| {
            vacant_bytes += aspace.vacant_bytes(piece.range());
            Ok(())
        })?;
        if vacant_bytes == 0 {
            return Ok(());
        }
        self.check_free(vacant_bytes)?;
        self.regions
            .check_update(range)
            .map_err(|_| Errno::ENOMEM)?;
        let backed = self.each_reservation(range, |aspace, piece| {
            let max = aspace.max_page(&piece);
            aspace.back(piece.range(), Prot::empty(), max)
        });
        if backed.is_err() {
            self.each_reservation(range, |aspace, piece| {
                aspace.take_out_clean(piece.range());
                Ok(())
            })?;
        }
        Ok(backed?)
    }

    /// Shows `visit` the reservations in `range`.
    fn each_reservation(
        &mut self,
        range: VaRange,
        mut visit: impl FnMut(&mut Self, Region) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        self.each_piece(range, |aspace, piece| match piece.is_reservation() {
            true => visit(aspace, piece),
            false => Ok(()),
        })
    }

    /// Shows `visit` what is mapped in `range`, region by region; there may be holes. It may change what it is shown.
    pub(super) fn each_piece<E>(
        &mut self,
        range: VaRange,
        mut visit: impl FnMut(&mut Self, Region) -> Result<(), E>,
    ) -> Result<(), E> {
        let VaRange { start: mut at, end } = range;
        while at < end {
            M::point(SEARCH_WORK);
            let piece = self.regions.iter_range(at.until(end)).next();
            let Some(piece) = piece else { break };
            visit(self, piece)?;
            at = piece.end;
        }
        Ok(())
    }

    /// Takes out the pages of a reservation that are the partition's and hold zeros: without them it reads the same. Whole ones only: no
    /// tables are set aside to split one.
    fn take_out_clean(&mut self, range: VaRange) {
        let VaRange { start: mut at, end } = range;
        while at < end {
            M::point(SEARCH_WORK);
            let (tables, root) = self.tables();
            let Some(page) = paging::translate(&tables, root, at) else {
                at = paging::stretch(&tables, root, at, end).end;
                continue;
            };
            let len_bytes = page.size.bytes();
            let front = at.align_down(len_bytes);
            let is_ours = !page.dirty && self.frames.holds(page.pa, PAGE_BYTES);
            if is_ours && range.start <= front && front + len_bytes <= end {
                self.take_out(VaRange::new(front, len_bytes));
            }
            at = front + len_bytes;
        }
    }

    /// Carries out an madvise.
    ///
    /// # Errors
    /// ENOMEM without room to cut regions; what the plan says.
    pub fn advise(&mut self, plan: &AdvicePlan) -> Result<(), Errno> {
        match plan.advice {
            Advice::Accept => {}
            Advice::Discard => self.discard(plan.range),
            Advice::LeaveOut(out) => self.leave_out(plan.range, out)?,
        }
        plan.result
    }

    /// Makes private anonymous memory of `range` read as zeros: clears what may have been written to.
    fn discard(&mut self, range: VaRange) {
        let machine = self.machine;
        let mut tables = PartitionTables {
            machine,
            frames: &mut self.frames,
            pool: &mut self.pool,
            purpose: Purpose::Mapping,
        };
        // POINT: regions::list::next
        for region in self.regions.iter_range(range) {
            if region.is_discardable() && machine.is_written() {
                let all = |extent: Extent| machine.zero(extent.pa, extent.len_bytes);
                paging::extents(&tables, self.root, region.range(), all);
            } else if region.is_discardable() {
                paging::visit_dirty(
                    &mut tables,
                    self.root,
                    region.range(),
                    |_, pa, len_bytes| machine.zero(pa, len_bytes),
                );
            }
        }
    }

    /// Moves the break to `wanted` if it can; returns where it is then. `max_bytes` is the limit on the heap.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] only: a program may have mapped a file into its heap.
    pub fn brk(&mut self, wanted: Va, max_bytes: u64) -> Result<Va, Unfinished> {
        let heap = self.heap(max_bytes);
        let done = match mman::brk(&heap, wanted, &self.regions, &self.bounds()) {
            BrkPlan::Keep => return Ok(heap.current),
            BrkPlan::Set => Ok(()),
            BrkPlan::Grow(range) => self.map_new(Region {
                flags: self.new_flags,
                ..Region::new(range, Prot::READ | Prot::WRITE, Kind::Heap)
            }),
            BrkPlan::Shrink(range) => match self.unmap(range) {
                Err(Unfinished::Failed(errno)) => Err(errno),
                Err(owes) => return Err(owes),
                Ok(()) => Ok(()),
            },
        };
        if done.is_ok() {
            self.heap.1 = wanted;
        }
        Ok(self.heap.1)
    }

    /// Notes an access that a region gets.
    pub(super) fn note_access(&mut self, prot: Prot) {
        self.accesses |= bit(prot);
    }
}
