//! The kernel's half of every address space, built once at boot (drawing: `abi::map`).
//!
//! - Image: 4 KiB pages, W^X: .text RX, .rodata R, .data and .bss RW.
//! - Direct map: RW and never executable, with the largest pages; the frames of .text and .rodata are read-only here too, or the direct
//!   map would be a way around W^X. Below 4 GiB, what is not RAM is mapped uncached: that is how devices (local APIC,
//!   PCI windows) are reached, and why no driver here has to map anything. A co-kernel's shows its own memory and its local
//!   APIC: a pointer that strays faults, and does not hit Linux.
//! - Kernel stacks: 4 KiB pages, mapped one by one ([`crate::task::kstack`]).
//!
//! The lower half stays empty: the boot identity map is gone once [`build`] has run.

use super::frames;
use crate::addr::{Phys, PhysRange};
use crate::firmware::Memory;
use crate::ranges::Ranges;
use crate::{aspace, cokernel, heap};
use abi::map::{self, PAGE, PAGE_1G, PAGE_2M};
use abi::pte::{ADDRESS, ENTRIES, NX, P, PCD, PS, PWT, W, index};
use core::sync::atomic::{AtomicU64, Ordering};
use wire::cokernel::EARLY_BYTES;

/// Where devices end and only RAM follows.
const LOW: PhysRange = PhysRange {
    start: Phys(0),
    end: Phys(4 << 30),
};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
    /// The first entry of the directory that the early tables have for the GiB after the low four (boot::entry).
    static mut early_pd_window: u64;
}

/// Linked (virtual) borders of the image: start, end of .text, end of .rodata, end.
fn image_borders() -> [u64; 4] {
    [
        &raw const __image_start,
        &raw const __text_end,
        &raw const __rodata_end,
        &raw const __image_end,
    ]
    .map(|border| border as u64)
}

/// What of the direct map the early page tables show: where boot takes its first frames.
static EARLY: [AtomicU64; 2] = [AtomicU64::new(LOW.start.0), AtomicU64::new(LOW.end.0)];

/// A co-kernel's, whose memory begins as `memory` does ([`wire::cokernel`]).
pub(super) fn set_early(memory: PhysRange) {
    let end = memory.end.0.min(memory.start.0 + EARLY_BYTES);
    EARLY[0].store(memory.start.0, Ordering::Relaxed);
    EARLY[1].store(end, Ordering::Relaxed);
}

/// What the early page tables show.
pub(super) fn early() -> PhysRange {
    let [start, end] = EARLY
        .each_ref()
        .map(|word| Phys(word.load(Ordering::Relaxed)));
    PhysRange { start, end }
}

/// How far the image was loaded from where it was linked.
static DELTA: AtomicU64 = AtomicU64::new(0);

/// Where the image was loaded, `delta` bytes from where it was linked; stores `delta`.
pub(super) fn image_range(delta: u64) -> PhysRange {
    DELTA.store(delta, Ordering::Relaxed);
    let [start, _, _, end] = image_borders();
    PhysRange {
        start: image_phys(start),
        end: image_phys(end),
    }
}

/// The physical address of something in the image.
pub(crate) fn image_phys(va: u64) -> Phys {
    Phys((va - map::KERNEL_BASE).wrapping_add(DELTA.load(Ordering::Relaxed)))
}

/// Physical memory as the tables of loader and firmware are read from it during boot, with the early page tables.
pub(super) struct Physical;

impl Memory for Physical {
    fn read(&self, at: Phys, to: &mut [u8]) -> bool {
        let mut done = 0;
        // BOUND: a piece is a page of 2 MiB, and tables are smaller.
        while done < to.len() {
            let Some(at) = at.0.checked_add(done as u64).map(Phys) else {
                return false;
            };
            let in_page = (PAGE_2M - at.0 % PAGE_2M) as usize;
            let part = to.len().min(done + in_page);
            let to = &mut to[done..part];
            let Some(from) = early_view(at) else {
                return false;
            };
            // SAFETY: 1. `early_view` shows the bytes up to the end of a page of 2 MiB.
            //         2. The addresses come from the tables of loader and firmware and are read during boot, before a Rust object
            //            could lie there.
            unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            done = part;
        }
        true
    }
}

/// The page that the window of the early page tables shows; 0: none.
static EARLY_PAGE: AtomicU64 = AtomicU64::new(0);

/// Where the early page tables show `at`, up to the end of its page of 2 MiB: above 4 GiB through a window, until the next call. `None`:
/// the CPU has no such address.
fn early_view(at: Phys) -> Option<*const u8> {
    if at < LOW.end {
        return Some(at.direct() as *const u8);
    }
    let page = at.align_down(PAGE_2M);
    // The early tables show the low 4 GiB of the direct map; the window follows.
    let window = LOW.end.direct();
    if EARLY_PAGE.load(Ordering::Relaxed) != page.0 {
        if at.0 >> crate::cpu::features::physical_address_bits() != 0 {
            return None;
        }
        // SAFETY: 1. `early_pd_window` is the page directory behind `window` in the early page tables, which only this CPU uses, for
        //            nothing else.
        //         2. What it shows is read only, and nothing keeps the pointer beyond the next call.
        unsafe {
            (&raw mut early_pd_window).write_volatile(page.0 | P | PS | NX);
            core::arch::asm!("invlpg [{}]", in(reg) window, options(nostack, preserves_flags));
        }
        EARLY_PAGE.store(page.0, Ordering::Relaxed);
    }
    Some((window + (at - page)) as *const u8)
}

/// Builds the kernel half for RAM at `memory`, the image at `image` and the devices `named`, and moves this CPU to it.
pub(super) fn build(memory: &Ranges, image: PhysRange, named: &[PhysRange]) {
    let Some(root) = frames::take(1) else {
        unreachable!("the arena is open during boot")
    };
    let tables = Tables {
        root,
        giant_pages: crate::cpu::features::giant_pages(),
    };
    let [start, text_end, rodata_end, end] = image_borders();
    let phys = |va: u64| image.start + (va - start);

    tables.map(start, phys(start), text_end - start, P);
    tables.map(text_end, phys(text_end), rodata_end - text_end, P | NX);
    tables.map(rodata_end, phys(rodata_end), end - rodata_end, P | W | NX);

    let mut ram = Ranges::new();
    // BOUND: the ranges of RAM, at boot; so all below.
    for range in memory.iter() {
        ram.insert(mapped_as_ram(*range));
    }
    let devices = devices(&ram, named);

    let read_only = PhysRange {
        start: phys(start),
        end: phys(rodata_end),
    };
    ram.subtract(read_only);
    tables.map_direct(read_only, P | NX);
    // BOUND: the ranges of RAM.
    ram.iter()
        .for_each(|range| tables.map_direct(*range, P | W | NX));
    // BOUND: the ranges of RAM.
    devices
        .iter()
        .for_each(|range| tables.map_direct(*range, P | W | NX | PCD | PWT));

    aspace::set_kernel_root(root);
}

/// What the direct map shows uncached from the start: below 4 GiB all that is not RAM, or of a co-kernel `named`.
fn devices(ram: &Ranges, named: &[PhysRange]) -> Ranges {
    if cokernel::is_here() {
        // BOUND: what boot names.
        return named.iter().copied().collect();
    }
    let mut devices = Ranges::new();
    devices.insert(LOW);
    // BOUND: the ranges of RAM.
    ram.iter().for_each(|range| devices.subtract(*range));
    devices
}

/// Makes the direct map show `device` uncached, for good. False: it is partly RAM, or too high, or there is no memory for page tables.
/// For the boot CPU, before others run.
pub(crate) fn map_device(device: PhysRange) -> bool {
    // BOUND: the ranges of RAM, at boot.
    let is_ram = super::kept::ram()
        .iter()
        .any(|range| mapped_as_ram(*range).overlaps(device));
    let reach = 1u64 << crate::cpu::features::physical_address_bits();
    if is_ram || device.end.0 > map::DIRECT_MAP_BYTES.min(reach) || device.is_empty() {
        return false;
    }
    let tables = kernel_tables();
    let mut page = device.start.align_down(PAGE);
    // BOUND: the pages of a device, at boot.
    while page < device.end {
        // Below, everything is shown already, but on a co-kernel.
        if page >= LOW.end || cokernel::is_here() {
            let Some(table) = tables.table(page.direct(), 1) else {
                return false;
            };
            put(table, page.direct(), 1, page.0 | P | W | NX | PCD | PWT);
        }
        page = page + PAGE;
    }
    true
}

/// What is mapped for `range` of RAM: whole pages of 2 MiB.
fn mapped_as_ram(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range.start.align_down(PAGE_2M),
        end: range.end.align_up(PAGE_2M),
    }
}

/// Maps the frame `frame` at `va`, a page of the kernel stack area, in every address space.
pub(crate) fn map_stack_page(va: u64, frame: Phys) {
    kernel_tables().map(va, frame, PAGE, P | W | NX);
}

/// Makes the page tables for `[va, va + len_bytes)`, which spans two of the lowest level at most: [`map_stack_page`] needs no
/// memory then. `None`: there is none.
pub(crate) fn prepare_stack_pages(va: u64, len_bytes: u64) -> Option<()> {
    let tables = kernel_tables();
    tables.table(va, 1)?;
    tables.table(va + len_bytes - PAGE, 1).map(|_| ())
}

fn kernel_tables() -> Tables {
    Tables {
        root: aspace::kernel_root(),
        giant_pages: false,
    }
}

/// Page tables under construction, reached through the direct map.
struct Tables {
    root: Phys,
    giant_pages: bool,
}

impl Tables {
    fn map_direct(&self, range: PhysRange, flags: u64) {
        self.map(range.start.direct(), range.start, range.len_bytes(), flags);
    }

    /// Maps `[va, va + len_bytes)` to `phys` with the largest pages that fit.
    fn map(&self, mut va: u64, mut phys: Phys, len_bytes: u64, flags: u64) {
        let mut left = len_bytes;
        // The table of the entry before, and what is mapped by it.
        let mut last: Option<(u32, u64, Phys)> = None;
        // BOUND: at boot; later one page.
        while left > 0 {
            let fits = |size: u64| left >= size && va.is_multiple_of(size) && phys.is_aligned(size);
            let (level, size) = if self.giant_pages && fits(PAGE_1G) {
                (3, PAGE_1G)
            } else if fits(PAGE_2M) {
                (2, PAGE_2M)
            } else {
                (1, PAGE)
            };
            let large = if level > 1 { PS } else { 0 };
            let part = va / (size * ENTRIES as u64);
            let table = match last {
                Some((of, same, table)) if (of, same) == (level, part) => table,
                _ => self.table(va, level).expect("memory for page tables"),
            };
            last = Some((level, part, table));
            put(table, va, level, phys.0 | flags | large);
            va = va.wrapping_add(size);
            phys = phys + size;
            left = left.saturating_sub(size);
        }
    }

    /// The table of `level` for `va`, made with those above it; `None` when there is no memory.
    fn table(&self, va: u64, level: u32) -> Option<Phys> {
        let mut table = self.root;
        // BOUND: the levels of tables.
        for upper in (level + 1..=4).rev() {
            let entry = entry_of(table, va, upper);
            // SAFETY: 1. `entry_of` points into a page table of the kernel half: boot and the stack allocator, under its lock, change it.
            let mut found = unsafe { entry.read() };
            if found & P == 0 {
                found = heap::frames(1)?.0 | P | W;
                // SAFETY: 1. As above.
                unsafe { entry.write(found) };
            }
            assert!(
                found & PS == 0,
                "kernel mapping {va:#x} overlaps a large page"
            );
            table = Phys(found & ADDRESS);
        }
        Some(table)
    }
}

/// Writes the entry for `va` in `table`, a table of `level` (1: of pages of 4 KiB) of the kernel half.
fn put(table: Phys, va: u64, level: u32, value: u64) {
    // SAFETY: 1. The entry lies in a page table of the kernel half: boot and the stack allocator, under its lock, change it.
    unsafe { entry_of(table, va, level).write(value) };
}

/// Where the entry for `va` lies in `table`, a table of `level`.
fn entry_of(table: Phys, va: u64, level: u32) -> *mut u64 {
    (table.direct() + index(va, level) as u64 * 8) as *mut u64
}
