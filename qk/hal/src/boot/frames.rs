//! Page frames during boot: a bump allocator over one free range, closed when `kernel_main` starts.
//!
//! After that the heap is the source (see [`crate::heap::frames`]). The loader's tables need no protection here: everything is copied
//! out of them before the first frame is taken.
//!
//! BOUND: at boot only.

use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;
use crate::sync::Mutex;
use abi::map::PAGE;

/// Enough for page tables of several TiB of RAM with 1 GiB pages, or 200 GiB without.
const WANTED_BYTES: u64 = 1 << 20;
/// Boot sees only the low 4 GiB (the early direct map).
const REACH: Phys = Phys(4 << 30);

/// The arena: `start..next` is taken, `next..end` free. Closed when empty.
struct Arena {
    start: Phys,
    next: Phys,
    end: Phys,
}

static ARENA: Mutex<Arena> = Mutex::new(Arena {
    start: Phys(0),
    next: Phys(0),
    end: Phys(0),
});

/// Chooses the arena: free RAM, not in use by the loader, preferably above the kernel image.
pub(super) fn open(free: &Ranges, in_use: &Ranges, kernel: PhysRange) {
    let mut candidates = free.clone();
    in_use.iter().for_each(|range| candidates.subtract(*range));
    let PhysRange { start, end } = candidates
        .first_fit(kernel.end, REACH, WANTED_BYTES)
        .or_else(|| candidates.first_fit(Phys(0), REACH, WANTED_BYTES))
        .unwrap_or_else(|| {
            panic!(
                "no {} KiB of free RAM below 4 GiB to boot in",
                WANTED_BYTES >> 10
            )
        });
    *ARENA.lock() = Arena {
        start,
        next: start,
        end,
    };
}

/// Takes `count` zeroed, contiguous frames; `None` when the arena is closed.
pub(crate) fn take(count: u64) -> Option<Phys> {
    let mut arena = ARENA.lock();
    let taken = arena.next;
    if taken == arena.end {
        return None;
    }
    assert!(
        count * PAGE <= arena.end - taken,
        "boot ran out of early frames"
    );
    arena.next = taken + count * PAGE;
    // SAFETY: 1. The range is free RAM that was just taken out of the arena, so nothing else uses it.
    //         2. It lies below 4 GiB, where the early and the final direct map both show RAM.
    unsafe { core::ptr::write_bytes(taken.direct() as *mut u8, 0, (count * PAGE) as usize) };
    Some(taken)
}

/// Ends the early phase; returns what was taken.
pub(super) fn close() -> PhysRange {
    let mut arena = ARENA.lock();
    let taken = PhysRange {
        start: arena.start,
        end: arena.next,
    };
    arena.end = arena.next;
    taken
}
