//! What of RAM the host's processes map: a short list, by which proxies check what the kernel tells them, and by which a device that
//! guards RAM is to check proxies. All else is the kernel's alone: page tables, its heap, its image, the PCT.
//!
//! | what | who maps it |
//! |---|---|
//! | the communication area | the keeper, every proxy, every yod; of it a rank is shown the clock and its information page |
//! | a rank's partition | its proxy |
//! | the node pool | every proxy; children of ranks |

use crate::layout::Layout;
use crate::rank::FromNode;
use crate::word::Word;

/// Guest-physical memory that the proxy of a rank may map, as base and length in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Mappable {
    /// The communication area.
    pub area: (u64, u64),
    /// The page of it with the clock, which the rank is shown.
    pub clock_gpa: u64,
    /// The rank's partition.
    pub partition: (u64, u64),
    /// The node pool, which ranks share.
    pub pool: (u64, u64),
}

impl Mappable {
    /// What the records of a node whose area lies at `area_gpa` say.
    #[must_use]
    pub fn of(area_gpa: u64, layout: &Layout, node: &FromNode) -> Mappable {
        let range = |words: &[Word; 2]| (words[0].load(), words[1].load());
        Mappable {
            area: (area_gpa, layout.total_bytes as u64),
            clock_gpa: area_gpa + layout.clock as u64,
            partition: range(&node.partition),
            pool: range(&node.pool),
        }
    }

    /// All of it.
    #[must_use]
    pub const fn ranges(&self) -> [(u64, u64); 3] {
        [self.area, self.partition, self.pool]
    }

    /// Whether memory that the rank may be shown is the pool's.
    #[must_use]
    pub fn is_shared(&self, gpa: u64) -> bool {
        let (base, len_bytes) = self.pool;
        gpa.checked_sub(base)
            .is_some_and(|offset| offset < len_bytes)
    }

    /// Whether the rank may be shown `gpa .. gpa + len_bytes`, also to `write` to it.
    #[must_use]
    pub fn allows(&self, gpa: u64, len_bytes: u64, write: bool) -> bool {
        let inside = |(base, len): (u64, u64)| {
            let ends = gpa.checked_add(len_bytes).zip(base.checked_add(len));
            gpa >= base && ends.is_some_and(|(end, limit)| end <= limit)
        };
        inside(self.partition)
            || inside(self.pool)
            || (!write && inside((self.clock_gpa, abi::map::PAGE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPABLE: Mappable = Mappable {
        area: (0x10_0000, 0x10_0000),
        clock_gpa: 0x10_1000,
        partition: (0x20_0000, 0x10_0000),
        pool: (0x80_0000, 0x10_0000),
    };

    #[test]
    fn only_the_partition_the_pool_and_the_clock_may_be_shown() {
        assert!(MAPPABLE.allows(0x20_0000, 0x10_0000, true));
        assert!(MAPPABLE.allows(0x2f_f000, 0x1000, false));
        assert!(!MAPPABLE.allows(0x2f_f000, 0x2000, false));
        assert!(!MAPPABLE.allows(0x1f_f000, 0x2000, false));
        assert!(MAPPABLE.allows(0x10_1000, 0x1000, false));
        assert!(!MAPPABLE.allows(0x10_1000, 0x1000, true));
        assert!(!MAPPABLE.allows(0x10_0000, 0x1000, false));
        assert!(MAPPABLE.allows(0x80_0000, 0x10_0000, true));
        assert!(!MAPPABLE.allows(0x8f_f000, 0x2000, true));
        assert!(!MAPPABLE.allows(u64::MAX - 0xfff, 0x2000, false));
    }

    #[test]
    fn the_pool_is_shared_and_the_partition_is_not() {
        assert!(MAPPABLE.is_shared(0x80_0000) && MAPPABLE.is_shared(0x8f_ffff));
        assert!(!MAPPABLE.is_shared(0x90_0000) && !MAPPABLE.is_shared(0x20_0000));
    }
}
