//! Properties of regions that leave their frames as they are.

use super::change::SEARCH_WORK;
use super::{Aspace, Machine};
use crate::mman::Lock;
use crate::regions::RegionFlags;
use abi::Errno;

impl<M: Machine> Aspace<M> {
    /// Sets or clears the LOCKED flag.
    ///
    /// # Errors
    /// ENOMEM without room to cut regions; what the plan says.
    pub fn lock(&mut self, plan: &Lock, locked: bool) -> Result<(), Errno> {
        self.regions
            .update(plan.start, plan.end, |region| {
                region.flags.set(RegionFlags::LOCKED, locked);
            })
            .map_err(|_| Errno::ENOMEM)?;
        plan.result
    }

    /// Sets or clears the LOCKED flag of all that is mapped, and of what will be. `future` without `current`: of that alone
    /// (mm/mlock.c, apply_mlockall_flags).
    pub fn lock_all(&mut self, current: bool, future: bool) {
        self.new_flags.set(RegionFlags::LOCKED, future);
        if current || !future {
            self.regions
                .update_all(|region| region.flags.set(RegionFlags::LOCKED, current));
        }
    }

    /// Keeps the NUMA policy of what is mapped in `start .. end`: bits of [`RegionFlags::POLICY`].
    ///
    /// # Errors
    /// ENOMEM without room to cut regions.
    pub fn bind(&mut self, start: u64, end: u64, policy: RegionFlags) -> Result<(), Errno> {
        self.change_flags(start, end, |flags| (flags - RegionFlags::POLICY) | policy)
    }

    /// Sets or clears the DONT_DUMP flag of what is mapped in `start .. end`.
    pub(super) fn leave_out(&mut self, start: u64, end: u64, out: bool) -> Result<(), Errno> {
        let mut flag = RegionFlags::empty();
        flag.set(RegionFlags::DONT_DUMP, out);
        self.change_flags(start, end, |flags| (flags - RegionFlags::DONT_DUMP) | flag)
    }

    /// Region by region; there may be holes.
    fn change_flags(
        &mut self,
        start: u64,
        end: u64,
        change: impl Fn(RegionFlags) -> RegionFlags,
    ) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            M::point(SEARCH_WORK);
            let region = self.regions.iter_range(at, end).next();
            let Some(region) = region else { break };
            at = region.end;
            self.regions
                .update(region.start, region.end, |region| {
                    region.flags = change(region.flags);
                })
                .map_err(|_| Errno::ENOMEM)?;
        }
        Ok(())
    }
}
