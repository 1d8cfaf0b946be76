//! The boot-time heap (talc): task contexts, per-CPU records, tables of the kernel. Nothing on a hot path allocates.

use crate::addr::{Phys, PhysRange};
use crate::boot::frames;
use crate::ram;
use crate::sync::{RawSpin, class};
use abi::map::{DIRECT_MAP, PAGE};
use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use talc::TalcLock;
use talc::source::Manual;

#[global_allocator]
static HEAP: TalcLock<RawSpin<class::Heap>, Manual> = TalcLock::new(Manual);

/// Gives whole pages of free RAM to the heap, for good, before other CPUs run.
///
/// # Panics
/// When other CPUs run already, and when the range is not free RAM of the boot information, or is in use already.
pub fn give(range: PhysRange) {
    let range = range.whole_pages();
    ram::claim(range);
    // SAFETY: 1. The range is free RAM that was just claimed: it holds no Rust object, and nothing else reaches it (rule 2).
    //         2. The direct map shows it for good.
    let claimed = unsafe {
        HEAP.lock()
            .claim(range.start.direct() as *mut u8, range.len_bytes() as usize)
    };
    assert!(claimed.is_some(), "{range:?} is too small for a heap");
}

/// A box, or `None` when the heap has no room for it.
pub fn try_box<T>(value: T) -> Option<Box<T>> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0, "a box of nothing needs no heap");
    // SAFETY: 1. The layout has a size greater than zero. 2. Null is handled.
    let memory = unsafe { HEAP.alloc(layout) }.cast::<T>();
    if memory.is_null() {
        return None;
    }
    // SAFETY: 1. `memory` is fresh, aligned and large enough for a T.
    //         2. It comes from the global allocator with T's layout, as Box requires.
    unsafe {
        memory.write(value);
        Some(Box::from_raw(memory))
    }
}

/// `count` zeroed, contiguous page frames for the hardware layer, for good: from boot's arena while it is open, then from the heap.
/// `None` when there are none.
pub(crate) fn frames(count: u64) -> Option<Phys> {
    frames::take(count).or_else(|| {
        // SAFETY: 1. The layout has a size greater than zero.
        from_heap(count, |layout| unsafe { HEAP.alloc_zeroed(layout) })
    })
}

/// The same, but what they hold is unspecified.
pub(crate) fn unspecified_frames(count: u64) -> Option<Phys> {
    frames::take(count).or_else(|| {
        // SAFETY: 1. The layout has a size greater than zero.
        from_heap(count, |layout| unsafe { HEAP.alloc(layout) })
    })
}

fn from_heap(count: u64, alloc: impl FnOnce(Layout) -> *mut u8) -> Option<Phys> {
    let Ok(layout) = Layout::from_size_align((count * PAGE) as usize, PAGE as usize) else {
        unreachable!("a few pages are a valid layout")
    };
    let memory = alloc(layout);
    (!memory.is_null()).then(|| Phys(memory as u64 - DIRECT_MAP))
}
