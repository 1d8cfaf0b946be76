//! Where bytes of an address space lie: for the kernel, which reaches them by the direct map.

use super::{Aspace, Machine};
use crate::page::PAGE_BYTES;
use crate::paging;
use crate::regions::{Prot, RegionFlags};
use abi::Errno;
use abi::addr::{Phys, Va, VaRange};
use abi::map::USER_TOP;

impl<M: Machine> Aspace<M> {
    /// Whether all of `range` (any alignment) can be read, or written.
    pub fn allows(&self, range: VaRange, write: bool) -> bool {
        let mut at = range.start;
        // POINT: aspace::evict::looked_at
        for region in self.looked_at(range) {
            let is_allowed = match write {
                true => region.prot.contains(Prot::WRITE),
                false => !region.prot.is_empty(),
            };
            if region.start > at || !is_allowed || region.flags.contains(RegionFlags::PAST_END) {
                return false;
            }
            at = region.end;
        }
        at >= range.end
    }

    /// Shows `visit` where the bytes `start .. start + len_bytes` (any alignment) lie, page by page of 4 KiB: the physical address, how
    /// far it is from `start`, and how many bytes. `written`: they are written to there.
    ///
    /// # Errors
    /// EFAULT at the first page that has no frame; those of `visit`.
    pub fn each_page(
        &mut self,
        start: Va,
        len_bytes: u64,
        written: bool,
        mut visit: impl FnMut(Phys, u64, u64) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let end = start
            .checked_add(len_bytes)
            .filter(|end| *end <= Va(USER_TOP));
        let end = end.ok_or(Errno::EFAULT)?;
        let (mut tables, root) = self.tables();
        let mut at = start;
        while at < end {
            let step = (at.align_down(PAGE_BYTES) + PAGE_BYTES).min(end) - at;
            let pa = paging::reach(&mut tables, root, at, written).ok_or(Errno::EFAULT)?;
            visit(pa, at - start, step)?;
            M::point(step as u32 / 8);
            at += step;
        }
        Ok(())
    }
}
