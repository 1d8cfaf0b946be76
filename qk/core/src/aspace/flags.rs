//! Properties of regions that leave their frames as they are.

use super::{Aspace, Machine};
use crate::mman::Lock;
use crate::regions::RegionFlags;
use abi::Errno;
use abi::addr::VaRange;

impl<M: Machine> Aspace<M> {
    /// Sets or clears the LOCKED flag.
    ///
    /// # Errors
    /// ENOMEM without room to cut regions; what the plan says.
    pub fn lock(&mut self, plan: &Lock, locked: bool) -> Result<(), Errno> {
        self.regions
            .update(plan.range, |region| {
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

    /// Keeps the NUMA policy of what is mapped in `range`: bits of [`RegionFlags::POLICY`].
    ///
    /// # Errors
    /// ENOMEM without room to cut regions.
    pub fn bind(&mut self, range: VaRange, policy: RegionFlags) -> Result<(), Errno> {
        self.change_flags(range, |flags| {
            flags.remove(RegionFlags::POLICY);
            flags.insert(policy);
        })
    }

    /// Sets or clears the DONT_DUMP flag of what is mapped in `range`.
    pub(super) fn leave_out(&mut self, range: VaRange, out: bool) -> Result<(), Errno> {
        self.change_flags(range, |flags| flags.set(RegionFlags::DONT_DUMP, out))
    }

    /// Region by region; there may be holes.
    fn change_flags(
        &mut self,
        range: VaRange,
        change: impl Fn(&mut RegionFlags),
    ) -> Result<(), Errno> {
        self.each_piece(range, |aspace, piece| {
            aspace
                .regions
                .update(piece.range(), |region| change(&mut region.flags))
                .map_err(|_| Errno::ENOMEM)
        })
    }
}
