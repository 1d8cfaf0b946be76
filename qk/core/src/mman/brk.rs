//! brk.

use super::{Bounds, page_align};
use crate::regions::Regions;

/// A rank's break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Where it began, behind the program's image.
    pub start: u64,
    /// Where it is now, to the byte.
    pub current: u64,
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
    /// Map and back `[start, end)`; if there is no memory, keep the break.
    Grow {
        /// The old break's page end.
        start: u64,
        /// The new break's page end.
        end: u64,
    },
    /// Unmap `[start, end)`.
    Shrink {
        /// The new break's page end.
        start: u64,
        /// The old break's page end.
        end: u64,
    },
}

/// Decides a brk to `wanted`. As on Linux one page stays free between the heap and what follows.
pub fn brk(heap: &Heap, wanted: u64, regions: &Regions, bounds: &Bounds) -> BrkPlan {
    if wanted < heap.start || wanted >= bounds.top || wanted - heap.start > heap.max_bytes {
        return BrkPlan::Keep;
    }
    let (old_end, new_end) = (page_align(heap.current), page_align(wanted));
    if new_end == old_end {
        return BrkPlan::Set;
    }
    if new_end < old_end {
        return BrkPlan::Shrink {
            start: new_end,
            end: old_end,
        };
    }
    let gap_end = new_end + crate::page::PAGE_BYTES;
    if gap_end > bounds.top || !regions.is_vacant(old_end, gap_end) || !regions.has_room(1) {
        return BrkPlan::Keep;
    }
    BrkPlan::Grow {
        start: old_end,
        end: new_end,
    }
}
