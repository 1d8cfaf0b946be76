//! The boot-time heap (talc): task contexts, per-CPU records, tables of the kernel. Nothing on a hot path allocates.

use crate::addr::{Phys, PhysRange};
use crate::boot::{frames, kept};
use crate::mem;
use crate::sync::{Mutex, RawSpin};
use abi::map::{DIRECT_MAP, PAGE};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::alloc::{GlobalAlloc, Layout};
use talc::TalcLock;
use talc::source::Manual;

#[global_allocator]
static HEAP: TalcLock<RawSpin, Manual> = TalcLock::new(Manual);

/// Ranges that were given; few, because it happens at boot.
static GIVEN: Mutex<ArrayVec<PhysRange, 8>> = Mutex::new(ArrayVec::new_const());

/// Gives whole pages of free RAM to the heap, for good.
///
/// # Panics
/// When the range is not free RAM of the boot information, or was given before, to the heap or to the pool.
pub fn give(range: PhysRange) {
    let range = range.whole_pages();
    // BOUND: at boot.
    assert!(
        kept::free_memory()
            .iter()
            .any(|free| free.holds(range.start, range.len_bytes())),
        "{range:?} is not free RAM"
    );
    assert!(
        !overlaps(range) && !mem::overlaps(range),
        "{range:?} is in use already"
    );
    GIVEN.lock().push(range);
    // SAFETY: 1. The range is RAM that holds no Rust object yet: free after boot, not heap, not pool (asserted above).
    //         2. The direct map shows it for good, and nothing else reaches it: `mem` refuses ranges that overlap the heap.
    let claimed = unsafe {
        HEAP.lock()
            .claim(range.start.direct() as *mut u8, range.len_bytes() as usize)
    };
    assert!(claimed.is_some(), "{range:?} is too small for a heap");
}

/// Whether the heap holds a byte of `range`.
pub(crate) fn overlaps(range: PhysRange) -> bool {
    // BOUND: the ranges that were given, at boot.
    GIVEN.lock().iter().any(|given| given.overlaps(range))
}

/// A box, or `None` when the heap has no room for it.
pub fn try_box<T>(value: T) -> Option<Box<T>> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0, "a box of nothing needs no heap");
    // SAFETY: The layout has a size greater than zero; null is handled.
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
    if let Some(taken) = frames::take(count) {
        return Some(taken);
    }
    let Ok(layout) = Layout::from_size_align((count * PAGE) as usize, PAGE as usize) else {
        unreachable!("a few pages are a valid layout")
    };
    // SAFETY: The layout has a size greater than zero; null is handled.
    let memory = unsafe { HEAP.alloc_zeroed(layout) };
    (!memory.is_null()).then(|| Phys(memory as u64 - DIRECT_MAP))
}
