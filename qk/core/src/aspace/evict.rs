//! Taking out what the node pool lends, before anything else becomes of its addresses: a step at a time, with a receipt for each
//! ([`super::receipt`]).

use super::receipt::{RUNS, Receipt};
use super::{Aspace, Machine, Unfinished, range};
use crate::objects::{Lease, Run};
use crate::paging;
use crate::regions::{Backing, Kind, Region, RegionFlags};
use abi::Errno;
use abi::addr::Va;
use alloc::vec::Vec;

/// Work of looking at a region, in instructions.
const LOOK_WORK: u32 = 20;

impl<M: Machine> Aspace<M> {
    /// Has nothing of the node pool left at `start .. end`.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] for the front of it; ENOMEM, when there is no room for cutting a region or a large page in two.
    #[inline]
    pub(super) fn evict(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        match self.may_show_lent(start, end) {
            true => self.evict_lent(start, end),
            false => Ok(()),
        }
    }

    /// Whether the node pool may have lent something of `start .. end`.
    #[inline]
    fn may_show_lent(&self, start: u64, end: u64) -> bool {
        self.object_bytes != 0 || self.may_show_text(start, end)
    }

    /// Bytes of `start .. end` in frames that the node pool has lent.
    #[inline]
    pub(super) fn lent_bytes(&self, start: u64, end: u64) -> u64 {
        match self.may_show_lent(start, end) {
            true => self.count_lent(start, end),
            false => 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn count_lent(&self, start: u64, end: u64) -> u64 {
        let has_frames = |region: &Region| {
            region.backing().is_lent() && !region.flags.contains(RegionFlags::PAST_END)
        };
        let lent = self.looked_at(start, end).filter(has_frames);
        // POINT: looked_at
        lent.map(|region| region.len_bytes()).sum()
    }

    #[cold]
    #[inline(never)]
    fn evict_lent(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        let is_lent = |region: &Region| region.backing().is_lent();
        // POINT: looked_at
        let Some(region) = self.looked_at(start, end).find(is_lent) else {
            return Ok(());
        };
        // For all of the change, before its first step.
        self.reserve_tables(start, end)?;
        let room = self.regions.check_remove(start, end);
        room.map_err(|_| Errno::ENOMEM)?;
        match region.backing() {
            Backing::Own | Backing::Foreign => Ok(()),
            Backing::Text => self.evict_text(region.start, end),
            Backing::Object(_) => self.evict_object(&region),
        }
    }

    /// The same for objects alone: a program that has ended has no more use for them, while its text may still be read.
    ///
    /// # Errors
    /// As [`Unfinished`]; ENOMEM.
    pub fn evict_objects(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        match self.object(start, end) {
            Some(region) => self.evict_object(&region),
            None => Ok(()),
        }
    }

    /// The same for text, of which some is at `start`.
    fn evict_text(&mut self, start: u64, end: u64) -> Result<(), Unfinished> {
        self.each_text_run(start, end, u64::MAX, |aspace, run| {
            aspace.remove(run.va.0, run.va.0 + run.len_bytes)?;
            Ok(run.len_bytes)
        })
    }

    /// The first part of `start .. end` that shows an object.
    pub fn object(&self, start: u64, end: u64) -> Option<Region> {
        match self.object_bytes != 0 && start < end {
            // POINT: looked_at
            true => self.looked_at(start, end).find(Region::is_object),
            false => None,
        }
    }

    /// Regions in `start .. end`, which may be many.
    pub(super) fn looked_at(&self, start: u64, end: u64) -> impl Iterator<Item = Region> + '_ {
        let regions = self.regions.iter_range(start, end);
        regions.inspect(|_| M::point(LOOK_WORK))
    }

    /// Takes out the front of a region that shows an object, as far as a receipt says what was written to.
    fn evict_object(&mut self, region: &Region) -> Result<(), Unfinished> {
        let mut written = self.take_runs()?;
        let end = self.written_runs(region, &mut written);
        if let Err(error) = self.remove(region.start, end) {
            written.clear();
            self.runs = written;
            return Err(error.into());
        }
        let len_bytes = end - region.start;
        self.object_bytes -= len_bytes;
        let last = end == region.end && self.is_without(region.object);
        let lease = Lease::new(region.object, len_bytes);
        Err(Receipt::of_object(lease, written, last).into())
    }

    /// What may have been written of a region that shows a file, from its start on: at most [`RUNS`], and where that ends.
    fn written_runs(&mut self, region: &Region, runs: &mut Vec<Run>) -> u64 {
        let is_file = region.kind == Kind::File;
        if !is_file || region.flags.contains(RegionFlags::READ_ONLY) {
            return region.end;
        }
        let mut at = region.start;
        // POINT: paging::report::stretch
        while at < region.end {
            let (mut tables, root) = self.tables();
            let next = paging::stretch(&tables, root, Va(at), Va(region.end)).end.0;
            let mut stop = next;
            paging::visit_dirty(&mut tables, root, range(at, next), |va, pa, len_bytes| {
                let run = Run {
                    offset: region.offset_at(va.0),
                    pa,
                    len_bytes,
                };
                if stop == next && !add(runs, run) {
                    stop = va.0;
                }
            });
            if stop < next {
                return stop;
            }
            at = next;
        }
        region.end
    }
}

/// Adds a run, or makes the last one longer; `false`: there is no room.
fn add(runs: &mut Vec<Run>, run: Run) -> bool {
    if runs.last_mut().is_some_and(|last| last.append(&run)) {
        return true;
    }
    let has_room = runs.len() < RUNS;
    if has_room {
        runs.push(run);
    }
    has_room
}
