//! What an entry of a program's page tables may be. Pure, so that the host tests each refusal.

use crate::addr::Phys;
use abi::pte::{
    A, ADDRESS, COUNT, D, ENTRIES, Level, NX, P, PROT_NONE, PS, TABLE, U, W, shift, span,
};

/// Level of a root table.
pub(crate) const ROOT: Level = 4;
/// First slot of a root that is the kernel's.
pub(crate) const KERNEL_SLOT: usize = ENTRIES / 2;

/// What a leaf and a link may have or not.
const LEAF_MAY: u64 = P | W | A | D | NX | PROT_NONE | ADDRESS;
const LINK_MAY: u64 = A | NX | COUNT | ADDRESS;
/// What a link must have: access is the leaves' to decide.
const LINK_MUST: u64 = P | W | U | TABLE;
/// What may change in an entry that has U, whatever it is, and leave it one that is allowed: it leads where it did.
const OPEN: u64 = P | W | A | D | NX | PROT_NONE | COUNT;

/// The memory that entries lead to.
pub(crate) trait Memory {
    /// Whether `[at, at + len_bytes)` is pool memory.
    fn in_pool(&self, at: Phys, len_bytes: u64) -> bool;
    /// The level of the table at `at`; 0: it is none.
    fn level(&self, at: Phys) -> Level;
}

/// Leaves of a level.
struct Leaves {
    /// What each has besides what it may have.
    must: u64,
    /// Bits of an address that is not a multiple of its size.
    askew: u64,
    shift: u32,
}

/// By level; there are none of levels 0 and 4, which no word can be.
const LEAVES: [Leaves; 1 << 3] = {
    const NONE: Leaves = Leaves {
        must: u64::MAX,
        askew: 0,
        shift: 0,
    };
    const fn of(level: Level, size: u64) -> Leaves {
        Leaves {
            must: U | size,
            askew: ADDRESS & (span(level) - 1),
            shift: shift(level),
        }
    }
    [NONE, of(1, 0), of(2, PS), of(3, PS), NONE, NONE, NONE, NONE]
};

/// Whether a table of `level` may have `count` leaves that begin with `word`, each of the next frame.
#[inline]
pub(crate) fn allow_leaves(memory: &impl Memory, level: Level, count: usize, word: u64) -> bool {
    let leaves = &LEAVES[level as usize & 7];
    let len_bytes = (count as u64) << leaves.shift;
    word & !LEAF_MAY == leaves.must
        && word & leaves.askew == 0
        && memory.in_pool(Phys(word & ADDRESS), len_bytes)
}

/// Whether entry `index` of a table of `level` may be `word`.
#[inline(always)] // What is known of the word decides what is left.
pub(crate) fn allow(memory: &impl Memory, level: Level, index: usize, word: u64) -> bool {
    if level == ROOT && index >= KERNEL_SLOT {
        return false;
    }
    if word & TABLE == 0 {
        return word == 0 || allow_leaves(memory, level, 1, word);
    }
    level > 1 && word & !LINK_MAY == LINK_MUST && memory.level(Phys(word & ADDRESS)) == level - 1
}

/// Whether what may replace `old`, which is allowed, is `new` without any question.
#[inline]
pub(crate) fn alike(old: u64, new: u64) -> bool {
    (old ^ new) & !OPEN == 0 && new & U != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::map::{PAGE, PAGE_1G, PAGE_2M};

    /// Pool memory from 1 GiB to 4 GiB; below, a table of each level at so many pages.
    struct Machine;

    impl Memory for Machine {
        fn in_pool(&self, at: Phys, len_bytes: u64) -> bool {
            at.0 >= PAGE_1G
                && at
                    .0
                    .checked_add(len_bytes)
                    .is_some_and(|end| end <= 4 * PAGE_1G)
        }

        fn level(&self, at: Phys) -> Level {
            match at.0 / PAGE {
                level @ 1..=4 => level as Level,
                _ => 0,
            }
        }
    }

    fn one(level: Level, word: u64) -> bool {
        allow(&Machine, level, 7, word)
    }

    const LEAF: u64 = PAGE_1G | P | W | U | A | NX;

    #[test]
    fn a_leaf_shows_pool_memory() {
        assert!(one(1, LEAF) && one(2, LEAF | PS) && one(3, LEAF | PS));
        assert!(one(1, LEAF & !(P | W) | PROT_NONE | D));
        assert!(allow_leaves(
            &Machine,
            1,
            512,
            4 * PAGE_1G - PAGE_2M | U | P
        ));
    }

    #[test]
    fn a_leaf_shows_nothing_else() {
        let word = |at: u64| at | P | U;
        assert!(!one(1, word(PAGE)), "a table");
        assert!(!one(1, word(PAGE_1G - PAGE)) && !one(1, word(4 * PAGE_1G)));
        assert!(!one(2, word(0) | PS) && !one(3, word(4 * PAGE_1G) | PS));
        let last = 4 * PAGE_1G - PAGE_2M + PAGE;
        assert!(
            !allow_leaves(&Machine, 1, 512, word(last)),
            "a run that leaves the pool"
        );
    }

    #[test]
    fn a_large_leaf_is_aligned() {
        let word = |at: u64| at | P | U | PS;
        assert!(!one(2, word(PAGE_1G + PAGE)) && !one(3, word(PAGE_1G + PAGE_2M)));
    }

    #[test]
    fn a_leaf_is_a_programs_and_plain() {
        assert!(!one(1, LEAF & !U));
        for bit in (0..12).chain(52..64) {
            let more = LEAF | 1 << bit;
            let may = (1 << bit) & (LEAF_MAY | U) != 0;
            assert_eq!(one(1, more), may, "bit {bit}");
        }
    }

    #[test]
    fn a_leaf_has_the_size_of_its_level() {
        assert!(!one(1, LEAF | PS), "PAT, here");
        assert!(!one(2, LEAF), "a page taken for a table");
        assert!(!one(4, LEAF | PS) && !one(0, LEAF) && !one(0, LEAF | PS));
    }

    #[test]
    fn a_link_leads_to_a_table_of_the_next_level() {
        let link = |at: u64| at * PAGE | LINK_MUST | A;
        for level in 0..=4 {
            for table in 0..6 {
                let allowed = one(level, link(table));
                assert_eq!(
                    allowed,
                    level > 1 && table == u64::from(level) - 1,
                    "{level} to {table}"
                );
            }
        }
        assert!(one(3, link(2) | COUNT) && one(4, link(3) & !A | NX));
        assert!(!allow_leaves(&Machine, 3, 2, link(2)), "a run of them");
    }

    #[test]
    fn a_link_says_nothing_else() {
        let link = 2 * PAGE | LINK_MUST;
        for bit in (0..12).chain(52..64) {
            let may = (1 << bit) & (LINK_MAY | LINK_MUST) != 0;
            assert_eq!(one(3, link | 1 << bit), may, "bit {bit}");
        }
        assert!(
            !one(3, link & !P)
                && !one(3, link & !W)
                && !one(3, link & !U)
                && !one(3, link & !TABLE)
        );
    }

    #[test]
    fn what_is_alike_leads_where_it_did() {
        let link = 2 * PAGE | LINK_MUST;
        assert!(alike(LEAF, LEAF & !(P | W) | PROT_NONE) && alike(link, link | COUNT));
        for bit in [2, 7, 10, 12, 30, 51] {
            assert!(!alike(LEAF, LEAF ^ 1 << bit), "bit {bit}");
        }
        assert!(
            !alike(0, P) && !alike(PAGE, PAGE | P | W),
            "nothing, and a note"
        );
    }

    #[test]
    fn the_kernels_slots_stay_as_they_are() {
        let link = 3 * PAGE | LINK_MUST;
        for slot in 0..ENTRIES {
            assert_eq!(allow(&Machine, 4, slot, link), slot < 256);
            assert_eq!(allow(&Machine, 4, slot, 0), slot < 256);
            assert!(allow(&Machine, 3, slot, 0));
        }
    }
}
