//! brk.

use super::Bounds;
use crate::page::PAGE_BYTES;
use crate::regions::Regions;
use abi::addr::{Va, VaRange};

/// A rank's break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Where it began, behind the program's image.
    pub start: Va,
    /// Where it is now, to the byte.
    pub current: Va,
    /// The most bytes the heap may have (RLIMIT_DATA).
    pub max_bytes: u64,
}

/// What a brk comes to. It never fails: when refused, the call returns the old break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrkPlan {
    /// Refused, or only read: nothing changes.
    Keep,
    /// The break moves within its page.
    Set,
    /// Map and back what lies from the old break's page end to the new one's; if there is no memory, keep the break.
    Grow(VaRange),
    /// Unmap what lies from the new break's page end to the old one's.
    Shrink(VaRange),
}

/// Decides a brk to `wanted`. As on Linux one page stays free between the heap and what follows.
pub fn brk(heap: &Heap, wanted: Va, regions: &Regions, bounds: &Bounds) -> BrkPlan {
    if wanted < heap.start || wanted >= bounds.top || wanted - heap.start > heap.max_bytes {
        return BrkPlan::Keep;
    }
    let (old_end, new_end) = (
        heap.current.align_up(PAGE_BYTES),
        wanted.align_up(PAGE_BYTES),
    );
    if new_end == old_end {
        return BrkPlan::Set;
    }
    if new_end < old_end {
        return BrkPlan::Shrink(new_end.until(old_end));
    }
    let gap_end = new_end + PAGE_BYTES;
    if gap_end > bounds.top || !regions.is_vacant(old_end.until(gap_end)) || !regions.has_room(1) {
        return BrkPlan::Keep;
    }
    BrkPlan::Grow(old_end.until(new_end))
}
