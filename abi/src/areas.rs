//! Where the areas of a rank lie whose addresses its program does not choose: the heap, the stack, and below it the mmap area.
//!
//! Ranks that run one program make the same requests in the same order. Were their areas at the same addresses, then what one sends
//! to another would have one address in both, and in a window the same lower bits: source and destination of each copy would take
//! turns in one entry of an emulator's TLB, and in one set of a processor's. So the areas of each rank are moved down, or the
//! heap up, by another number of pages. What a program asks for by address stays there, its own segments among it (docs/adr/0048).

use crate::map::{self, PAGE, PAGE_2M};
use crate::stack::size_bytes;

/// Pages between the areas of a rank and those of the next. It is odd, so no two of 2^n adjacent ranks have the same remainder by 2^n
/// pages, up to the 512 of 2 MiB, which are more than there can be ranks. By [`FEWEST_ENTRIES`] two adjacent ranks are 25 apart, and
/// any two of four 11: what is longer than a page shares few entries, too. Nor is that near a power of two, as buffers' lengths are:
/// one rank's first buffer and the other's second share none.
const PAGES: u64 = 153;

/// Entries of the smallest TLB that QEMU emulates (CPU_TLB_DYN_MIN_BITS, include/exec/cpu-defs.h); a page has that of its number's
/// low bits.
const FEWEST_ENTRIES: u64 = 64;

/// Bytes by which the areas of `rank` are moved: whole pages, less than 2 MiB, for rank 0 none.
#[must_use]
pub const fn stagger(rank: usize) -> u64 {
    rank as u64 * PAGES * PAGE % PAGE_2M
}

/// The areas of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    stagger: u64,
}

impl Areas {
    /// Those of `rank`, by its number on the node.
    #[must_use]
    pub const fn of(rank: usize) -> Areas {
        Areas {
            stagger: stagger(rank),
        }
    }

    /// First byte above the main thread's stack.
    #[must_use]
    pub const fn stack_top(self) -> u64 {
        map::STACK_TOP - self.stagger
    }

    /// The main thread's stack: its lowest address and its bytes; arguments as of [`size_bytes`].
    #[must_use]
    pub fn stack(self, limit_bytes: u64, partition_bytes: u64) -> (u64, u64) {
        let top = self.stack_top();
        let len_bytes = size_bytes(limit_bytes, partition_bytes).min(top - map::USER_BASE);
        (top - len_bytes, len_bytes)
    }

    /// Where the heap begins behind a program that ends at `image_end`; `mmap_top` is the end of the mmap area, above both.
    #[must_use]
    pub fn heap(self, image_end: u64, mmap_top: u64) -> u64 {
        (image_end + self.stagger).min(mmap_top)
    }
}

/// Where the mmap area ends, and with it what may be loaded: below the stack that begins at `base`.
#[must_use]
pub const fn mmap_top(base: u64) -> u64 {
    base.saturating_sub(map::STACK_GAP)
}

/// Where memory begins that the kernel places and that may have large pages: this much above a multiple of such a page, of any size,
/// modulo 2^64. It is as much as the end of the stack is moved, so that all of a rank's mmap area is; a mapping has one large page
/// less for it at most.
#[must_use]
pub const fn phase(stack_end: u64) -> u64 {
    stack_end.wrapping_sub(map::STACK_TOP)
}

/// Whether copying from one of these addresses upwards to the other, in the memory of another rank, would have both in one entry of the
/// smallest TLB, all the time or at some places of each page.
#[must_use]
pub const fn share_entries(to: u64, from: u64) -> bool {
    let apart = to.wrapping_sub(from).wrapping_add(PAGE) % (FEWEST_ENTRIES * PAGE);
    to >> map::SLOT_SHIFT != from >> map::SLOT_SHIFT && apart < 2 * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{MAX_RANKS, STACK_GAP, STACK_TOP, USER_BASE, remote};

    #[test]
    fn pages_share_an_entry_by_the_low_bits_of_their_numbers() {
        let at = 0x40_1000;
        for rank in [0, 1, 254] {
            let there = remote(rank, at);
            assert!(share_entries(at, there) && share_entries(there, at));
            assert!(share_entries(at + 0xfff, there) && share_entries(at, there + 0xfff));
            assert!(share_entries(at + 64 * PAGE, there) && share_entries(at, there + 640 * PAGE));
            assert!(!share_entries(at + PAGE, there) && !share_entries(at + 32 * PAGE, there));
            assert!(
                !share_entries(at, there + PAGES * PAGE)
                    && !share_entries(at, there + 63 * PAGE - 1)
            );
        }
        // What one rank copies to itself may overlap.
        assert!(!share_entries(at, at + 8) && !share_entries(at, at + 64 * PAGE));
    }

    /// A TLB of 256 entries is what QEMU begins with (CPU_TLB_DYN_DEFAULT_BITS); those of 64 adjacent ranks differ in the smallest, too.
    #[test]
    fn no_two_ranks_have_their_areas_in_the_same_entries() {
        let mut taken = [false; 256];
        for rank in 0..MAX_RANKS {
            let entry = (stagger(rank) / PAGE % 256) as usize;
            assert!(!core::mem::replace(&mut taken[entry], true), "rank {rank}");
            assert!(stagger(rank) < PAGE_2M && stagger(rank).is_multiple_of(PAGE));
            let adjacent = rank.saturating_sub(63)..rank;
            let entry = |rank| stagger(rank) / PAGE % FEWEST_ENTRIES;
            assert!(
                adjacent
                    .into_iter()
                    .all(|other| entry(other) != entry(rank))
            );
        }
    }

    /// Entries of the smallest TLB between one place of a rank and another, some pages further, of the rank `ranks` above.
    fn apart(ranks: usize, pages: u64) -> u64 {
        let entries = (stagger(ranks) / PAGE).wrapping_add(pages) % FEWEST_ENTRIES;
        entries.min(FEWEST_ENTRIES - entries)
    }

    /// 64 KiB at one address in two adjacent ranks lie in 32 entries; in two of four ranks they have few in common.
    #[test]
    fn buffers_of_adjacent_ranks_share_few_entries() {
        assert!(apart(1, 0) >= 16);
        assert!(apart(2, 0).min(apart(3, 0)) >= 11);
    }

    /// Once what one rank sent from its first buffer another received in its second, 16 pages further, in nearly the same entry.
    #[test]
    fn adjacent_buffers_of_adjacent_ranks_share_no_entries() {
        for pages in [1, 2, 4, 8, 16, 32] {
            for ranks in [1, 2, 3] {
                let nearest = apart(ranks, pages).min(apart(ranks, pages.wrapping_neg()));
                assert!(nearest >= 2, "{ranks} ranks, {pages} pages");
            }
        }
    }

    #[test]
    fn areas_begin_as_far_away_as_the_stagger_is() {
        let (first, second) = (Areas::of(0), Areas::of(1));
        let bytes = PAGES * PAGE;
        assert_eq!(first.stack_top(), STACK_TOP);
        assert_eq!(second.stack_top(), STACK_TOP - bytes);
        assert_eq!(
            first.stack(8 << 20, 1 << 30),
            (STACK_TOP - (8 << 20), 8 << 20)
        );
        assert_eq!(
            second.stack(8 << 20, 1 << 30),
            (STACK_TOP - bytes - (8 << 20), 8 << 20)
        );
        assert_eq!(second.heap(0x40_6000, 1 << 38), 0x40_6000 + bytes);
        assert_eq!(phase(second.stack_top()), bytes.wrapping_neg());
        assert_eq!(phase(first.stack_top()), 0);
    }

    /// What is left below the stack is never negative, nor is the heap in it.
    #[test]
    fn areas_keep_within_the_map() {
        for rank in [0, 1, MAX_RANKS - 1] {
            let (base, len_bytes) = Areas::of(rank).stack(u64::MAX, u64::MAX);
            assert_eq!(
                (base, base + len_bytes),
                (USER_BASE, Areas::of(rank).stack_top())
            );
            assert_eq!(mmap_top(base), 0);
            let (base, _) = Areas::of(rank).stack(0, 0);
            let top = mmap_top(base);
            assert_eq!(top, base - STACK_GAP);
            assert_eq!(Areas::of(rank).heap(top, top), top);
        }
    }
}
