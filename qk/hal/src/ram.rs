//! What RAM is for: each range of what boot left free is given once, to the heap, the pool or page tables, and stays that.

use crate::addr::PhysRange;
use crate::boot::kept;
use crate::cpu::local;
use crate::sync::{Mutex, class};
use arrayvec::ArrayVec;

/// Ranges that may be given.
pub const MAX_CLAIMS: usize = 32;

static CLAIMED: Mutex<ArrayVec<PhysRange, MAX_CLAIMS>, class::Claimed> =
    Mutex::new(ArrayVec::new_const());

/// Takes a range of free RAM for one purpose, for good.
///
/// # Panics
/// When other CPUs run already, when the range is not free RAM of the boot information, when a part of it was taken before, and
/// on too many ranges.
pub(crate) fn claim(range: PhysRange) {
    assert!(
        local::count() == 1,
        "RAM is divided before other CPUs are started"
    );
    let mut claimed = CLAIMED.lock();
    // BOUND: the ranges of RAM, at boot; so below.
    assert!(
        kept::free_memory()
            .iter()
            .any(|free| free.holds(range.start, range.len_bytes())),
        "{range:?} is not free RAM"
    );
    // BOUND: MAX_CLAIMS, at boot.
    assert!(
        !claimed.iter().any(|taken| taken.overlaps(range)),
        "{range:?} is in use already"
    );
    assert!(claimed.try_push(range).is_ok(), "too many ranges of RAM");
}
