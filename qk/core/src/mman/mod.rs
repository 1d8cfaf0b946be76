//! What mmap, munmap, mremap, mprotect, madvise, brk and their kin may do.
//!
//! Each function decodes its arguments as Linux does, bad ones included (which errno, and which
//! check comes first), and answers with a plan that the kernel carries out. Nothing is changed
//! here. The orders were read off a running Linux 6.18; the tests carry its answers.
//!
//! Margay differs in one thing: nothing is lazy. A plan for memory with any access means frames
//! now, or ENOMEM now, MAP_NORESERVE or not. PROT_NONE is a reservation of addresses and costs no
//! frame; mprotect to an access backs what has none yet, and back to PROT_NONE keeps contents.

mod advice;
mod brk;
mod map;
mod protect;
mod remap;
#[cfg(test)]
mod tests;

pub use advice::{Advice, AdvicePlan, Lock, SyncPlan, madvise, mbind, mincore, mlock, msync};
pub use brk::{BrkPlan, Heap, brk};
pub use map::{FileInfo, MmapArgs, MmapPlan, Source, mmap, source};
pub use protect::{ProtectPlan, mprotect, munmap};
pub use remap::{MremapArgs, RemapPlan, mremap};

use crate::page::{PAGE_BYTES, PageSize};
use crate::regions::RegionFlags;
use abi::addr::{Va, VaRange};

/// Where a rank's mappings may lie, and what they are like.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Lowest address a program may map (`abi::map::USER_BASE`).
    pub low: Va,
    /// End of the area in which the kernel chooses addresses, from the top down.
    pub mmap_top: Va,
    /// End of user memory (`abi::map::USER_TOP`): Linux's TASK_SIZE.
    pub top: Va,
    /// How far above a multiple of a large page memory begins that may have some (`abi::areas::phase`).
    pub phase: u64,
    /// The largest page the machine and the partition allow.
    pub max_page: PageSize,
    /// What each new region has besides.
    pub new_flags: RegionFlags,
}

impl Bounds {
    /// Whether `[start, start + len_bytes)` lies below the end of user memory.
    const fn holds(&self, start: Va, len_bytes: u64) -> bool {
        len_bytes <= self.top.0 && start.0 <= self.top.0 - len_bytes
    }

    /// Where the kernel chooses addresses.
    const fn area(&self) -> VaRange {
        self.low.until(self.mmap_top)
    }
}

/// Linux's PAGE_ALIGN: rounds up, and wraps to 0 as Linux's does.
const fn page_align(len_bytes: u64) -> u64 {
    len_bytes.wrapping_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1)
}

const fn misaligned(addr: Va) -> bool {
    !addr.is_aligned(PAGE_BYTES)
}
