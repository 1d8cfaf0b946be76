//! Address spaces as the CPU sees them: CR3 and the TLB.
//!
//! Walking user page tables is pure logic in `qk/core`, changing them is `tables`; here is only what needs instructions, and the one
//! thing all address spaces share: the kernel half (PML4 slots 256..=511), fixed at boot, so it is copied once per root and never again.

use crate::addr::{Phys, Va, VaRange};
use crate::cpu::local::local;
use crate::tables;
use abi::map;
use core::arch::asm;
use core::sync::atomic::Ordering;

/// The root with nothing in the lower half.
#[must_use]
pub fn kernel_root() -> Phys {
    tables::kernel_root()
}

/// Boot's step from the early tables to the final ones.
pub(crate) fn set_kernel_root(root: Phys) {
    tables::set_kernel_root(root);
    load(root);
}

/// Loads CR3 unconditionally.
pub(crate) fn load(root: Phys) {
    local().root.store(root.0, Ordering::Relaxed);
    // SAFETY: 1. Every root that gets here has the kernel half: the boot root, or one checked by `check_root` (rule 6).
    //         2. The lower half cannot be seen by kernel code except through `user`, which expects any mapping.
    unsafe { asm!("mov cr3, {}", in(reg) root.0, options(nostack, preserves_flags)) };
}

/// Loads `root` on this CPU; flushes the TLB.
///
/// # Panics
/// When `root` is neither [`kernel_root`] nor a root table ([`Table::new`](tables::Table::new)).
pub fn activate(root: Phys) {
    check_root(root);
    load(root);
}

/// The root this CPU runs on. Kernel contexts keep the last one, so before a root's frames are freed every CPU that has it here must
/// activate another.
#[must_use]
pub fn active() -> Phys {
    Phys(local().root.load(Ordering::Relaxed))
}

/// Panics unless `root` has the kernel half: without it the next instruction would be the last.
pub(crate) fn check_root(root: Phys) {
    assert!(
        tables::is_root(root),
        "{root:?} is not the root of an address space"
    );
}

/// Pages up to which dropping translations one by one beats dropping all: Linux's tlb_single_page_flush_ceiling.
const SINGLE_PAGES: u64 = 32;

/// Drops this CPU's translations of `range`, and what it caches of the tables that lead there.
pub fn flush(range: VaRange) {
    if range.len_bytes() / map::PAGE > SINGLE_PAGES {
        flush_all();
    } else {
        // BOUND: SINGLE_PAGES.
        (range.start.0..range.end.0)
            .step_by(map::PAGE as usize)
            .for_each(|at| flush_page(Va(at)));
    }
}

/// Drops this CPU's translation of the page at `va`, and what it caches of the tables that lead there (Intel SDM vol. 3
/// §4.10.4.1; AMD APM vol. 2 §5.5.2, with EFER.TCE clear).
fn flush_page(va: Va) {
    // SAFETY: 1. Forgetting a translation is harmless: the tables still say what may be seen (rule 6).
    unsafe { asm!("invlpg [{}]", in(reg) va.0, options(nostack, preserves_flags)) };
}

/// Drops all of this CPU's translations (no global pages exist).
pub fn flush_all() {
    load(active());
}
