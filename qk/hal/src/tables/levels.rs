//! The memory for tables, and the level of each frame of it.

use crate::addr::{Phys, PhysRange};
use crate::{mem, ram};
use abi::map::PAGE;
use abi::pte::Level;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

/// The frames for tables: the first, and how many.
static FIRST: AtomicU64 = AtomicU64::new(0);

static COUNT_OF: AtomicU64 = AtomicU64::new(0);

/// The level of each, a byte: 0 for one that is not in use yet, [`BUSY`] while it becomes a table.
static LEVELS: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());

pub(super) const BUSY: u8 = u8::MAX;

/// Makes free RAM memory for page tables, for good: whole pages of `range`, less what records their levels. Returns what tables
/// may be made of.
///
/// # Panics
/// On a second call, and when the range is not free RAM of the boot information, or is in use already.
pub fn give(range: PhysRange) -> PhysRange {
    let range = range.whole_pages();
    ram::claim(range);
    assert!(
        LEVELS.load(Ordering::Relaxed).is_null(),
        "memory for page tables is given once"
    );
    let records = (range.len_bytes() / PAGE).next_multiple_of(PAGE);
    let frames = PhysRange {
        start: range.start + records.min(range.len_bytes()),
        end: range.end,
    };
    let levels = range.start.direct() as *mut u8;
    // SAFETY: 1. The bytes are RAM that was just claimed: nothing else reaches them (rule 2 of the README). 2. A byte for each
    //            page of the range fits in the pages that are taken off.
    unsafe { mem::clear(levels, frames.start - range.start) };
    FIRST.store(frames.start.0, Ordering::Relaxed);
    COUNT_OF.store(frames.len_bytes() / PAGE, Ordering::Relaxed);
    LEVELS.store(levels.cast(), Ordering::Release);
    frames
}

/// The record of `frame`'s level; `None`: it is no frame for tables.
#[inline]
pub(super) fn record(frame: Phys) -> Option<&'static AtomicU8> {
    // Bytes within a page come to the top: too much for an index.
    let offset = frame.0.wrapping_sub(FIRST.load(Ordering::Relaxed));
    let index = offset.rotate_right(PAGE.trailing_zeros());
    if index >= COUNT_OF.load(Ordering::Relaxed) {
        return None;
    }
    let levels = LEVELS.load(Ordering::Relaxed);
    // SAFETY: 1. `give` has set all three, on the only CPU that ran: the count was not 0. 2. There is a record for each of the
    //            frames, for ever, and it is reached as an atomic only.
    Some(unsafe { &*levels.add(index as usize) })
}

/// The level of the table in `frame`; 0: it is none.
#[inline]
pub(super) fn level(frame: Phys) -> Level {
    record(frame).map_or(0, |level| level.load(Ordering::Relaxed).into())
}
