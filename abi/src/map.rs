//! The address map: the only place with addresses that the node chooses, but for what a linker script has to repeat (qk/hal/link/kernel.ld).
//! What others have chosen stands where it is used: where QEMU has RAM, and room for the communication area, in host/machine/src/qemu; the
//! PC's devices and tables in qk/hal.
//!
//! ```text
//! virtual, every address space (4-level paging; one PML4 slot = 512 GiB)
//!
//!   0000_0000_0000_0000  slot 0        this rank: ELF image, heap, mmap area, vDSO, stack
//!   0000_0080_0000_0000  slots 1..255  SMARTMAP windows: slot r+1 shows rank r's slot 0 (NX)
//!   0000_8000_0000_0000  --- not canonical ---
//!   ffff_8000_0000_0000  slots 256..   direct map of physical memory (RW, NX)
//!   ffff_ff00_0000_0000  slot 510      kernel stacks, each between guard pages
//!   ffff_ffff_8000_0000  slot 511      kernel image in the top 2 GiB (W^X)
//!
//! inside slot 0 of a rank
//!
//!   0000_0000_0001_0000  USER_BASE     lowest address a program may map
//!   0000_0000_0040_0000                where static ET_EXEC programs are usually linked
//!   0000_0010_0000_0000  PIE_BASE      position-independent programs (64 GiB)
//!   (end of image)       brk heap, grows up, up to the next region (areas.rs: of each rank behind another gap)
//!        ...             mmap area, top down from below the stack and its gap; the program's interpreter first
//!   0000_007f_ffef_f000  INFO_PAGE     the ranks of the job, and which live
//!   0000_007f_fff0_0000  VDSO_AREA     vvar page, then the vDSO
//!   0000_007f_ffe0_0000  STACK_TOP     the stack grows down from here (areas.rs: of each rank from another page below)
//!   0000_0080_0000_0000  USER_TOP
//! ```

/// Bytes of the smallest page.
pub const PAGE: u64 = 4096;
/// Bytes of a 2 MiB page.
pub const PAGE_2M: u64 = 2 << 20;
/// Bytes of a 1 GiB page.
pub const PAGE_1G: u64 = 1 << 30;

/// log2 of the bytes that one PML4 slot covers; SMARTMAP's shift (seed 004: `addr |= (core+1)<<39`).
pub const SLOT_SHIFT: u32 = 39;
/// End of a rank's own memory: 512 GiB, the end of slot 0.
pub const USER_TOP: u64 = 1 << SLOT_SHIFT;
/// End of the SMARTMAP windows and of the lower canonical half.
pub const WINDOW_TOP: u64 = 1 << 47;
/// Ranks that 4-level paging has room for: slots 1..=255.
pub const MAX_RANKS: usize = 255;
/// Threads that a rank may have at a time.
pub const MAX_THREADS: usize = 1024;

/// Separate ranges of RAM that a node works with, of all that its firmware names the largest: a virtual machine has about three, a
/// UEFI machine a few dozen.
pub const MAX_RAM_RANGES: usize = 64;

/// Lowest address a program may map (Linux's default vm.mmap_min_addr; a proxy without privileges cannot map below).
pub const USER_BASE: u64 = 0x1_0000;
/// Load base of position-independent programs.
pub const PIE_BASE: u64 = 0x10_0000_0000;
/// First byte above the main thread's stack of rank 0, the highest.
pub const STACK_TOP: u64 = 0x7f_ffe0_0000;
/// Unmapped bytes kept between the mmap area and the lowest stack address.
pub const STACK_GAP: u64 = 1 << 20;
/// The vvar page; the vDSO's pages follow it.
pub const VDSO_AREA: u64 = 0x7f_fff0_0000;

/// The information page: the ranks of the job, and which live.
pub const INFO_PAGE: u64 = VDSO_AREA - PAGE;

/// Entry of the auxiliary vector with the address of the information page; no number of Linux's (uapi/linux/auxvec.h).
pub const AT_MARGAY: u64 = 0x4d47;

/// All physical memory, from physical address 0.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Kernel stacks with their guard pages.
pub const KSTACKS: u64 = 0xffff_ff00_0000_0000;
/// Bytes of physical memory that the direct map has room for.
pub const DIRECT_MAP_BYTES: u64 = KSTACKS - DIRECT_MAP;
/// Base of the top 2 GiB, where the kernel image is linked (code model "kernel").
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;

/// Physical address the host puts the communication area at (see crate `wire`): above the legacy first MiB.
pub const COMM_BASE: u64 = 0x10_0000;

/// The address under which every rank of the node sees `addr` of `rank`.
///
/// `addr` must lie in slot 0 ([`USER_TOP`]).
#[must_use]
pub const fn remote(rank: usize, addr: u64) -> u64 {
    ((rank as u64 + 1) << SLOT_SHIFT) | addr
}

/// The rank in whose window `addr` lies, and the address there as that rank has it. `None`: in no window.
#[must_use]
pub const fn in_window(addr: u64) -> Option<(usize, u64)> {
    match addr {
        USER_TOP..WINDOW_TOP => {
            let slot = (addr >> SLOT_SHIFT) as usize;
            Some((slot - 1, addr & (USER_TOP - 1)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_window_is_canonical_and_below_the_kernel() {
        assert!(remote(MAX_RANKS - 1, USER_TOP - 1) < WINDOW_TOP);
    }

    #[test]
    fn windows_are_distinguished() {
        assert_eq!(in_window(remote(0, USER_BASE)), Some((0, USER_BASE)));
        assert_eq!(
            in_window(remote(254, USER_TOP - 1)),
            Some((254, USER_TOP - 1))
        );
        assert_eq!(
            (in_window(USER_TOP - 1), in_window(WINDOW_TOP)),
            (None, None)
        );
    }

    #[test]
    fn areas_do_not_overlap() {
        const { assert!(STACK_TOP < INFO_PAGE && VDSO_AREA < USER_TOP && PIE_BASE < STACK_TOP) };
    }
}
