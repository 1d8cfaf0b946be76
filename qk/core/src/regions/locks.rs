//! How much is locked (mlock(2)): Linux's `mm->locked_vm`, in bytes.

use super::{Region, RegionFlags, Regions};
use abi::addr::VaRange;

impl Regions {
    /// Bytes of all that is locked.
    pub fn locked_bytes(&self) -> u64 {
        self.locked_bytes
    }

    /// Bytes of what is locked in `range`.
    pub fn locked_in(&self, range: VaRange) -> u64 {
        match self.locked_bytes {
            0 => 0,
            _ => self.count(range),
        }
    }

    /// What is mapped in `range` goes. Nearly always nothing is locked.
    #[inline(always)]
    pub(super) fn unlock_removed(&mut self, range: VaRange) {
        if self.locked_bytes != 0 {
            self.locked_bytes -= self.count(range);
        }
    }

    #[cold]
    #[inline(never)]
    fn count(&self, range: VaRange) -> u64 {
        // POINT: regions::list::next
        self.iter_range(range).map(|piece| bytes_of(&piece)).sum()
    }
}

/// What a region adds.
pub(super) fn bytes_of(region: &Region) -> u64 {
    match region.flags.contains(RegionFlags::LOCKED) {
        true => region.len_bytes(),
        false => 0,
    }
}
