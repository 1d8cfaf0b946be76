//! What each rank gets: memory and cores, divided evenly.
//!
//! Pure: ranges in, partitions out. Every rank gets one physically contiguous partition of the same length, aligned to 2 MiB
//! so that its regions can use large pages, and consecutive cores ([`Cores::of`]). Memory that cannot be divided evenly
//! stays unused: ranks of a parallel program that differ in memory would fail one by one.

use core::fmt;

use abi::cores::Cores;
use abi::map::{MAX_RAM_RANGES, MAX_RANKS, PAGE_2M};

use crate::qk::Range;

/// Why a job does not fit its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// No ranks, or more than a node can have.
    Ranks(u64),
    /// No ranks or no cores.
    Cores {
        /// Ranks of the job.
        ranks: u64,
        /// Cores of the node.
        cpus: u64,
    },
    /// The partitions do not fit into the node's memory.
    Memory {
        /// Ranks of the job.
        ranks: u64,
        /// Bytes that each was to get; the smallest possible when none were given.
        partition_bytes: u64,
        /// Ranks that the memory is enough for.
        fit: u64,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Misfit::Ranks(ranks) => write!(f, "a node runs 1 to {MAX_RANKS} ranks, not {ranks}"),
            Misfit::Cores { ranks, cpus } => {
                write!(f, "{ranks} ranks cannot share {cpus} cores")
            }
            Misfit::Memory {
                ranks,
                partition_bytes,
                fit,
            } => {
                let mib = partition_bytes >> 20;
                write!(
                    f,
                    "{ranks} ranks of {mib} MiB do not fit the node's memory, only {fit} do"
                )
            }
        }
    }
}

/// The memory of a node, divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partitions {
    /// The usable part of each range, starting at a multiple of 2 MiB.
    ranges: [Range; MAX_RAM_RANGES],
    /// Bytes of each partition.
    pub partition_bytes: u64,
}

impl Partitions {
    /// The partition of a rank. Ranks fill the ranges one after the other, in order.
    #[must_use]
    pub fn get(&self, rank: u32) -> Option<Range> {
        let mut index = u64::from(rank);
        for range in self.ranges {
            let here = range.len_bytes / self.partition_bytes;
            if index < here {
                return Some(Range {
                    base: range.base + index * self.partition_bytes,
                    len_bytes: self.partition_bytes,
                });
            }
            index -= here;
        }
        None
    }
}

/// Divides memory into `ranks` equal partitions, each contiguous, aligned to 2 MiB and within one range.
///
/// `partition_bytes` is what each rank is to get, rounded up to 2 MiB; 0 for as much as possible. Ranges must not overlap.
///
/// # Errors
/// [`Misfit`] when there are not enough partitions.
pub fn divide(ranges: &[Range], ranks: u64, partition_bytes: u64) -> Result<Partitions, Misfit> {
    if ranks == 0 || ranks > MAX_RANKS as u64 {
        return Err(Misfit::Ranks(ranks));
    }
    let usable = whole_pages(ranges);
    let fitting =
        |partition: u64| -> u64 { usable.iter().map(|range| range.len_bytes / partition).sum() };
    let partition_bytes = match partition_bytes {
        0 => {
            // The largest number of 2 MiB units that still fits often enough: fitting() never grows with the partition.
            let (mut fits, mut beyond) = (0, (1 << 44) / PAGE_2M);
            while beyond - fits > 1 {
                let middle = fits + (beyond - fits) / 2;
                if fitting(middle * PAGE_2M) >= ranks {
                    fits = middle;
                } else {
                    beyond = middle;
                }
            }
            fits.max(1) * PAGE_2M
        }
        asked => asked
            .checked_next_multiple_of(PAGE_2M)
            .unwrap_or(!(PAGE_2M - 1)),
    };
    let fit = fitting(partition_bytes);
    if fit < ranks {
        return Err(Misfit::Memory {
            ranks,
            partition_bytes,
            fit,
        });
    }
    Ok(Partitions {
        ranges: usable,
        partition_bytes,
    })
}

/// The ranges cut to whole 2 MiB pages, in their order. The kernel names no more than [`MAX_RAM_RANGES`].
fn whole_pages(ranges: &[Range]) -> [Range; MAX_RAM_RANGES] {
    let mut kept = [Range::default(); MAX_RAM_RANGES];
    for (to, range) in kept.iter_mut().zip(ranges.iter().filter_map(aligned)) {
        *to = range;
    }
    kept
}

/// The part of a range that whole 2 MiB pages cover, if any.
fn aligned(range: &Range) -> Option<Range> {
    let end = range.base.checked_add(range.len_bytes)? & !(PAGE_2M - 1);
    let base = range.base.checked_next_multiple_of(PAGE_2M)?;
    (base < end).then(|| Range {
        base,
        len_bytes: end - base,
    })
}

/// The cores of a rank.
///
/// # Errors
/// [`Misfit::Cores`] when there are none.
pub fn cores(rank: u32, ranks: u64, cpus: u64) -> Result<Cores, Misfit> {
    Cores::of(rank.into(), ranks, cpus).ok_or(Misfit::Cores { ranks, cpus })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn range(base_mib: u64, len_mib: u64) -> Range {
        Range {
            base: base_mib * MIB,
            len_bytes: len_mib * MIB,
        }
    }

    #[test]
    fn memory_is_divided_evenly_and_in_order() {
        let partitions = divide(&[range(16, 1000), range(4096, 3000)], 4, 0).expect("fits");
        // 3000/1000 = 3 in the upper range, one in the lower.
        assert_eq!(partitions.partition_bytes, 1000 * MIB);
        assert_eq!(partitions.get(0), Some(range(16, 1000)));
        assert_eq!(partitions.get(1), Some(range(4096, 1000)));
        assert_eq!(partitions.get(3), Some(range(6096, 1000)));
        assert_eq!(partitions.get(4), None);
    }

    #[test]
    fn a_partition_that_was_asked_for_is_rounded_up() {
        let partitions = divide(&[range(16, 1000)], 2, 100 * MIB + 1).expect("fits");
        assert_eq!(partitions.partition_bytes, 102 * MIB);
        assert_eq!(
            divide(&[range(16, 1000)], 2, 600 * MIB)
                .expect_err("too much")
                .to_string(),
            "2 ranks of 600 MiB do not fit the node's memory, only 1 do"
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(divide(&[range(0, 100)], 0, 0), Err(Misfit::Ranks(0)));
        assert_eq!(divide(&[range(0, 1000)], 256, 0), Err(Misfit::Ranks(256)));
        assert!(matches!(
            divide(&[], 1, 0),
            Err(Misfit::Memory { fit: 0, .. })
        ));
        assert!(
            divide(&[range(1, 2)], 1, 0).is_err(),
            "2 MiB that are not aligned"
        );
        assert!(divide(&[range(0, 64)], 1, u64::MAX).is_err());
        assert_eq!(cores(0, 3, 0), Err(Misfit::Cores { ranks: 3, cpus: 0 }));
        assert!(cores(0, 0, 2).is_err());
    }

    #[test]
    fn as_many_ranges_as_the_kernel_names_are_all_used() {
        let many: Vec<Range> = (0..MAX_RAM_RANGES as u64)
            .map(|i| range(i * 100, 2))
            .collect();
        let partitions = divide(&many, MAX_RAM_RANGES as u64, 2 * MIB).expect("fits");
        assert_eq!(
            partitions.get(MAX_RAM_RANGES as u32 - 1),
            many.last().copied()
        );
    }

    proptest! {
        #[test]
        fn partitions_are_equal_apart_and_inside(
            pieces in prop::collection::vec((0u64..64 * MIB, 0u64..2048 * MIB), 0..40),
            ranks in 1u64..=255,
            asked in prop_oneof![Just(0u64), 0u64..512 * MIB],
        ) {
            let mut ranges = Vec::new();
            let mut base = 0;
            for (gap, len_bytes) in pieces {
                base += gap;
                ranges.push(Range { base, len_bytes });
                base += len_bytes;
            }
            let Ok(partitions) = divide(&ranges, ranks, asked) else { return Ok(()) };
            prop_assert!(partitions.partition_bytes >= asked);
            let mut end = 0;
            for rank in 0..ranks as u32 {
                let partition = partitions.get(rank).expect("every rank has one");
                prop_assert_eq!(partition.len_bytes, partitions.partition_bytes);
                prop_assert_eq!(partition.base % PAGE_2M, 0);
                prop_assert!(partition.base >= end);
                end = partition.base + partition.len_bytes;
                prop_assert!(ranges.iter().any(|r| r.base <= partition.base && end <= r.base + r.len_bytes));
            }
            if asked == 0 {
                prop_assert!(divide(&ranges, ranks, partitions.partition_bytes + PAGE_2M).is_err(), "not the largest");
            }
        }

        #[test]
        fn any_ranges_are_divided_or_refused(
            ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..8), ranks: u64, asked: u64,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(base, len_bytes)| Range { base, len_bytes }).collect();
            if let Ok(partitions) = divide(&ranges, ranks, asked) {
                let _ = partitions.get(0);
            }
        }
    }
}
