//! Taking out what the node pool lends, before anything else becomes of its addresses: a step at a time, with a receipt for each
//! ([`super::receipt`]).

use super::receipt::Receipt;
use super::{Aspace, Machine, Unfinished};
use crate::objects::Lease;
use crate::regions::{Backing, Region, RegionFlags};
use abi::Errno;
use abi::addr::VaRange;

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

    /// Takes out a region that shows an object.
    fn evict_object(&mut self, region: &Region) -> Result<(), Unfinished> {
        self.remove(region.range())?;
        self.object_bytes -= region.len_bytes();
        let lease = Lease::new(region.object, region.len_bytes());
        Err(Receipt::of_object(lease).into())
    }
}
