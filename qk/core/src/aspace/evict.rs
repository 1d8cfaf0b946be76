//! Taking out what the node pool lends, before anything else becomes of its addresses: a step at a time, with a receipt for each
//! ([`super::receipt`]).

use super::receipt::{RUNS, Receipt};
use super::{Aspace, Machine, Unfinished};
use crate::objects::{Lease, Run};
use crate::paging;
use crate::regions::{Backing, Kind, Region, RegionFlags};
use abi::Errno;
use abi::addr::{Va, VaRange};
use alloc::vec::Vec;

/// Work of looking at a region, in instructions.
const LOOK_WORK: u32 = 20;

impl<M: Machine> Aspace<M> {
    /// Has nothing of the node pool left at `range`.
    ///
    /// # Errors
    /// [`Unfinished::Owes`] for the front of it; ENOMEM, when there is no room for cutting a region or a large page in two.
    #[inline]
    pub(super) fn evict(&mut self, range: VaRange) -> Result<(), Unfinished> {
        match self.may_show_lent(range) {
            true => self.evict_lent(range),
            false => Ok(()),
        }
    }

    /// Whether the node pool may have lent something of `range`.
    #[inline]
    fn may_show_lent(&self, range: VaRange) -> bool {
        self.object_bytes != 0 || self.may_show_text(range)
    }

    /// Bytes of `range` in frames that the node pool has lent.
    #[inline]
    pub(super) fn lent_bytes(&self, range: VaRange) -> u64 {
        match self.may_show_lent(range) {
            true => self.count_lent(range),
            false => 0,
        }
    }

    #[cold]
    #[inline(never)]
    fn count_lent(&self, range: VaRange) -> u64 {
        let has_frames = |region: &Region| {
            region.backing().is_lent() && !region.flags.contains(RegionFlags::PAST_END)
        };
        let lent = self.looked_at(range).filter(has_frames);
        // POINT: looked_at
        lent.map(|region| region.len_bytes()).sum()
    }

    #[cold]
    #[inline(never)]
    fn evict_lent(&mut self, range: VaRange) -> Result<(), Unfinished> {
        let is_lent = |region: &Region| region.backing().is_lent();
        // POINT: looked_at
        let Some(region) = self.looked_at(range).find(is_lent) else {
            return Ok(());
        };
        // For all of the change, before its first step.
        self.reserve_tables(range)?;
        let room = self.regions.check_remove(range);
        room.map_err(|_| Errno::ENOMEM)?;
        match region.backing() {
            Backing::Own | Backing::Foreign => Ok(()),
            Backing::Text => self.evict_text(region.start.until(range.end)),
            Backing::Object(_) => self.evict_object(&region),
        }
    }

    /// The same for objects alone: a program that has ended has no more use for them, while its text may still be read.
    ///
    /// # Errors
    /// As [`Unfinished`]; ENOMEM.
    pub fn evict_objects(&mut self, range: VaRange) -> Result<(), Unfinished> {
        match self.object(range) {
            Some(region) => self.evict_object(&region),
            None => Ok(()),
        }
    }

    /// The same for text, of which some is at the start of `range`.
    fn evict_text(&mut self, range: VaRange) -> Result<(), Unfinished> {
        self.each_text_run(range, u64::MAX, |aspace, run| {
            aspace.remove(VaRange::new(run.va, run.len_bytes))?;
            Ok(run.len_bytes)
        })
    }

    /// The first part of `range` that shows an object.
    pub fn object(&self, range: VaRange) -> Option<Region> {
        match self.object_bytes != 0 && !range.is_empty() {
            // POINT: looked_at
            true => self.looked_at(range).find(Region::is_object),
            false => None,
        }
    }

    /// Regions in `range`, which may be many.
    pub(super) fn looked_at(&self, range: VaRange) -> impl Iterator<Item = Region> + '_ {
        let regions = self.regions.iter_range(range);
        regions.inspect(|_| M::point(LOOK_WORK))
    }

    /// Takes out the front of a region that shows an object, as far as a receipt says what was written to.
    fn evict_object(&mut self, region: &Region) -> Result<(), Unfinished> {
        let mut written = self.take_runs()?;
        let end = self.written_runs(region, &mut written);
        if let Err(error) = self.remove(region.start.until(end)) {
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
    fn written_runs(&mut self, region: &Region, runs: &mut Vec<Run>) -> Va {
        let is_file = region.kind == Kind::File;
        if !is_file || region.flags.contains(RegionFlags::READ_ONLY) {
            return region.end;
        }
        let mut at = region.start;
        // POINT: paging::report::stretch
        while at < region.end {
            let (mut tables, root) = self.tables();
            let next = paging::stretch(&tables, root, at, region.end).end;
            let mut stop = next;
            paging::visit_dirty(&mut tables, root, at.until(next), |va, pa, len_bytes| {
                let run = Run {
                    offset: region.offset_at(va),
                    pa,
                    len_bytes,
                };
                if stop == next && !add(runs, run) {
                    stop = va;
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
