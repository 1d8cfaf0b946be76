//! How QEMU's q35 machine lays out RAM: computed here, once; all others are handed the list.
//!
//! ```text
//! guest-physical    0 ........ 2 GiB   (devices)   4 GiB ............... end
//! the two files     RAM file ........ , ........ RAM file | pool file .....
//! ```
//!
//! q35 leaves a hole for devices below 4 GiB (hw/i386/pc_q35.c): RAM of less than 0xb000_0000 bytes lies below it as a
//! whole; of more, 2 GiB lie below and the rest from 4 GiB on. The end of RAM is the pool's file.

use wire::ram::{Bad, Place, Ram, RamRange};

use crate::plan::Plan;

/// RAM of fewer bytes lies below 4 GiB as a whole.
const SPLIT_BYTES: u64 = 0xb000_0000;
/// Bytes below 4 GiB when RAM is split.
const LOW_BYTES: u64 = 0x8000_0000;
/// Guest-physical address of the part above the hole.
const HIGH_BASE: u64 = 1 << 32;

/// RAM for a plan.
///
/// # Errors
/// More than physical addresses reach.
pub fn of(plan: &Plan) -> Result<Ram, Bad> {
    let pool_bytes = plan.pool_file_bytes();
    let node_bytes = plan.node_bytes + pool_bytes;
    lay_out(
        bytes(node_bytes, plan.ranks as u64, plan.partition_bytes),
        pool_bytes,
    )
}

/// Bytes of RAM with room for every partition in one piece: low memory is filled first, the rest goes above 4 GiB. When RAM is
/// split, the kernel may take its own memory from either part.
fn bytes(node_bytes: u64, ranks: u64, partition_bytes: u64) -> u64 {
    let all = node_bytes + ranks * partition_bytes;
    if all < SPLIT_BYTES {
        return all;
    }
    let low_partitions = (LOW_BYTES.saturating_sub(node_bytes) / partition_bytes).min(ranks);
    let high_bytes = (ranks - low_partitions) * partition_bytes + node_bytes;
    LOW_BYTES + high_bytes.max(SPLIT_BYTES - LOW_BYTES)
}

/// RAM of `bytes`, the last `pool_bytes` of them in the pool's file.
fn lay_out(bytes: u64, pool_bytes: u64) -> Result<Ram, Bad> {
    let low_bytes = if bytes < SPLIT_BYTES {
        bytes
    } else {
        LOW_BYTES
    };
    let pool = bytes.saturating_sub(pool_bytes);
    let parts = [(0..low_bytes, 0), (low_bytes..bytes, HIGH_BASE)];
    let ranges = parts.into_iter().flat_map(|(part, base)| {
        let cut = pool.clamp(part.start, part.end);
        let range = |from, to, place| RamRange {
            gpa: base + (from - part.start),
            len_bytes: to - from,
            place,
        };
        [
            range(part.start, cut, Place::Ram(part.start)),
            range(cut, part.end, Place::Pool(cut.saturating_sub(pool))),
        ]
    });
    Ram::new(ranges.filter(|range| range.len_bytes > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = abi::map::PAGE;
    const GIB: u64 = 1 << 30;

    fn ranges(bytes: u64, pool_bytes: u64) -> Vec<(u64, u64, Place)> {
        let ram = lay_out(bytes, pool_bytes).expect("RAM");
        let ranges = ram.ranges().iter();
        let words = ranges.map(|range| (range.gpa, range.len_bytes, range.place));
        words.collect()
    }

    #[test]
    fn little_ram_lies_low() {
        let mib64 = 64 << 20;
        assert_eq!(ranges(mib64, 0), [(0, mib64, Place::Ram(0))]);
        let last = SPLIT_BYTES - PAGE;
        assert_eq!(ranges(last, 0), [(0, last, Place::Ram(0))]);
        assert_eq!(
            ranges(mib64, PAGE),
            [
                (0, mib64 - PAGE, Place::Ram(0)),
                (mib64 - PAGE, PAGE, Place::Pool(0))
            ]
        );
    }

    #[test]
    fn much_ram_is_split_at_two_gib() {
        let high = SPLIT_BYTES - LOW_BYTES;
        assert_eq!(
            ranges(SPLIT_BYTES, PAGE),
            [
                (0, LOW_BYTES, Place::Ram(0)),
                (HIGH_BASE, high - PAGE, Place::Ram(LOW_BYTES)),
                (HIGH_BASE + high - PAGE, PAGE, Place::Pool(0))
            ]
        );
    }

    /// As large a pool was requested: it begins below the hole and ends above.
    #[test]
    fn a_pool_may_be_on_both_sides_of_the_hole() {
        assert_eq!(
            ranges(4 * GIB, 3 * GIB),
            [
                (0, GIB, Place::Ram(0)),
                (GIB, GIB, Place::Pool(0)),
                (HIGH_BASE, 2 * GIB, Place::Pool(GIB))
            ]
        );
    }

    #[test]
    fn more_than_addresses_reach_is_refused() {
        assert_eq!(lay_out(1 << 52, 0), Err(Bad::Beyond));
        assert_eq!(lay_out(0, 0), Err(Bad::Empty));
    }

    proptest! {
        /// Both files are behind RAM from their first to their last byte.
        #[test]
        fn the_files_are_used_whole(pages in 1u64..1 << 22, pool in 0u64..1 << 22) {
            let pool = pool % pages;
            let ram = lay_out(pages * PAGE, pool * PAGE).expect("RAM");
            let (mut next, mut in_pool) = (0, 0);
            for range in ram.ranges() {
                match range.place {
                    Place::Ram(offset) => {
                        prop_assert_eq!((offset, in_pool), (next, 0));
                        next += range.len_bytes;
                    }
                    Place::Pool(offset) => {
                        prop_assert_eq!(offset, in_pool);
                        in_pool += range.len_bytes;
                    }
                }
            }
            prop_assert_eq!((next, in_pool), ((pages - pool) * PAGE, pool * PAGE));
        }
    }
}
