//! Address spaces as the CPU sees them: CR3 and the TLB.
//!
//! Walking and changing user page tables is pure logic in `qk/core` over pool memory; here is only what needs instructions, and the one
//! thing all address spaces share: the kernel half (PML4 slots 256..=511), fixed at boot, so it is copied once per root and never again.

use crate::addr::Phys;
use crate::cpu::local::local;
use crate::mem;
use abi::map;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

/// The root with nothing in the lower half.
#[must_use]
pub fn kernel_root() -> Phys {
    Phys(KERNEL_ROOT.load(Ordering::Relaxed))
}

/// Boot's step from the early tables to the final ones.
pub(crate) fn set_kernel_root(root: Phys) {
    KERNEL_ROOT.store(root.0, Ordering::Relaxed);
    load(root);
}

/// Loads CR3 unconditionally.
pub(crate) fn load(root: Phys) {
    local().root.store(root.0, Ordering::Relaxed);
    // SAFETY: 1. Every root that gets here has the kernel half: the boot root, or one checked by `activate`.
    //         2. The lower half cannot be seen by kernel code except through `user`, which expects any mapping.
    unsafe { asm!("mov cr3, {}", in(reg) root.0, options(nostack, preserves_flags)) };
}

/// The first PML4 slot of the kernel half.
const KERNEL_SLOTS: u64 = 256;

/// Gives the zeroed pool frame `root` the kernel half.
pub fn new_root(root: Phys) {
    let table = mem::shared::<[AtomicU64; 512]>(root);
    // BOUND: half a table, once in a root table.
    for slot in KERNEL_SLOTS..512 {
        table[slot as usize].store(kernel_entry(slot), Ordering::Relaxed);
    }
}

/// The kernel root's PML4 entry `slot`.
fn kernel_entry(slot: u64) -> u64 {
    // SAFETY: The kernel root is a frame of the hardware layer, constant after boot and shown by the direct map.
    unsafe { ((kernel_root().direct() + slot * 8) as *const u64).read() }
}

/// Loads `root` on this CPU; flushes the TLB.
///
/// # Panics
/// When `root` is neither [`kernel_root`] nor a frame prepared by [`new_root`].
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
    let slots = [map::DIRECT_MAP, map::KSTACKS, map::KERNEL_BASE]
        .map(|address| address >> map::SLOT_SHIFT & 511);
    // BOUND: three slots.
    let whole = root == kernel_root()
        || slots
            .iter()
            .all(|&slot| mem::read_u64(root + slot * 8) == kernel_entry(slot));
    assert!(
        whole && root.is_aligned(map::PAGE),
        "{root:?} is not the root of an address space"
    );
}

/// Pages up to which dropping translations one by one beats dropping all: Linux's tlb_single_page_flush_ceiling.
const SINGLE_PAGES: u64 = 32;

/// Drops this CPU's translations of `start .. end`, and what it caches of the tables that lead there.
pub fn flush(start: u64, end: u64) {
    if (end - start) / map::PAGE > SINGLE_PAGES {
        flush_all();
    } else {
        // BOUND: SINGLE_PAGES.
        (start..end)
            .step_by(map::PAGE as usize)
            .for_each(flush_page);
    }
}

/// Drops this CPU's translation of the page at `va`, and what it caches of the tables that lead there (Intel SDM vol. 3
/// §4.10.4.1; AMD APM vol. 2 §5.5.2, with EFER.TCE clear).
fn flush_page(va: u64) {
    // SAFETY: Forgetting a translation is harmless.
    unsafe { asm!("invlpg [{}]", in(reg) va, options(nostack, preserves_flags)) };
}

/// Drops all of this CPU's translations (no global pages exist).
pub fn flush_all() {
    load(active());
}
