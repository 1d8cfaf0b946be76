//! Page frames during boot: a bump allocator over one free range, closed when `kernel_main` starts.
//!
//! After that the heap is the source (see [`crate::heap::frames`]). The loader's tables need no protection here: everything is copied
//! out of them before the first frame is taken.
//!
//! BOUND: at boot only.

use crate::addr::{Phys, PhysRange};
use crate::cpu::features;
use crate::ranges::Ranges;
use crate::sync::{Mutex, class};
use abi::map::{PAGE, PAGE_1G};

/// Page tables with 1 GiB pages, of stacks and of RAM that begins or ends in the middle of them.
const FIXED_BYTES: u64 = 1 << 20;

/// The arena: `start..next` is taken, `next..end` free. Closed when empty.
struct Arena {
    start: Phys,
    next: Phys,
    end: Phys,
}

static ARENA: Mutex<Arena, class::Arena> = Mutex::new(Arena {
    start: Phys(0),
    next: Phys(0),
    end: Phys(0),
});

/// Chooses the arena: free RAM within `reach`, which the early page tables show, without the loader's modules, preferably above the kernel image. Without 1 GiB pages it has room for the
/// page table of each GiB of RAM, too.
pub(super) fn open(free: &Ranges, modules: &[PhysRange], kernel: PhysRange, reach: PhysRange) {
    let mut candidates = free.clone();
    for &PhysRange { start, end } in modules {
        candidates.subtract(PhysRange {
            start: start.align_down(PAGE),
            end: end.align_up(PAGE),
        });
    }
    let for_tables = if features::giant_pages() {
        0
    } else {
        free.bytes() / PAGE_1G * PAGE
    };
    let wanted = FIXED_BYTES + for_tables;
    let PhysRange { start, end } = candidates
        .first_fit(kernel.end, reach.end, wanted)
        .or_else(|| candidates.first_fit(reach.start, reach.end, wanted))
        .unwrap_or_else(|| {
            let (wanted, there) = (wanted >> 10, free.bytes() >> 10);
            let end = reach.end.0.div_ceil(PAGE_1G);
            panic!("no {wanted} KiB of free RAM in one piece below {end} GiB to boot in, of {there} KiB in all")
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
    //         2. It lies in what the early direct map shows (`open`), and the final one shows all RAM.
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
