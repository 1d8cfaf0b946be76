//! Lists of physical ranges, small enough to live on a stack: what boot and the kernel do with RAM.
//!
//! A list has room for [`MAX_RAM_RANGES`] and for the cuts that are made into them ([`CUTS`]). When it is full the smallest range goes,
//! and the list counts its bytes: less memory, never wrong memory, and never without a word.
//!
//! BOUND: at boot only, of the ranges that a list has room for.

use crate::addr::{Phys, PhysRange};
use abi::map::MAX_RAM_RANGES;
use arrayvec::ArrayVec;
use core::fmt;
use core::ops::Deref;

/// Cuts that boot and the kernel make into RAM, each of which may split a range: image, page tables, communication area, initrd, node
/// pool, heap, PCT and as many again.
pub const CUTS: usize = 16;
/// Ranges a list has room for.
pub const ROOM: usize = MAX_RAM_RANGES + CUTS;

/// A sorted list of disjoint ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    list: ArrayVec<PhysRange, ROOM>,
    lost: Lost,
}

/// What a list had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Ranges.
    pub ranges: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Ranges {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        let lost = Lost {
            ranges: 0,
            bytes: 0,
        };
        Self {
            list: ArrayVec::new_const(),
            lost,
        }
    }

    /// What the list had no room for.
    #[must_use]
    pub const fn lost(&self) -> Lost {
        self.lost
    }

    /// Adds `range`, joining neighbours.
    pub fn insert(&mut self, mut range: PhysRange) {
        if range.is_empty() {
            return;
        }
        self.list.retain(|other| {
            let joins = other.start <= range.end && range.start <= other.end;
            if joins {
                range.start = range.start.min(other.start);
                range.end = range.end.max(other.end);
            }
            !joins
        });
        if self.list.is_full() {
            match self.smallest() {
                Some(at) if self.list[at].len_bytes() < range.len_bytes() => self.lose(at),
                _ => return self.lost.add(range),
            }
        }
        let at = self.list.partition_point(|other| other.start < range.start);
        self.list.insert(at, range);
    }

    /// Removes `hole` from every range.
    pub fn subtract(&mut self, hole: PhysRange) {
        if hole.is_empty() {
            return;
        }
        // BOUND: the list; what is left of the range at `at` may be two, of which the upper is passed over.
        let mut at = self.list.partition_point(|range| range.end <= hole.start);
        while let Some(&range) = self.list.get(at)
            && range.start < hole.end
        {
            let (below, above) = (range.start < hole.start, hole.end < range.end);
            match (below, above) {
                (false, false) => {
                    self.list.remove(at);
                }
                (true, false) => {
                    self.list[at].end = hole.start;
                    at += 1;
                }
                (_, true) => {
                    self.list[at].start = hole.end;
                    let end = hole.start;
                    return self.insert(PhysRange { end, ..range });
                }
            }
        }
    }

    /// Leaves the `count` largest.
    pub fn keep_largest(&mut self, count: usize) {
        while self.list.len() > count
            && let Some(at) = self.smallest()
        {
            self.lose(at);
        }
    }

    /// Cuts every range to its whole pages.
    pub fn keep_whole_pages(&mut self) {
        self.list
            .iter_mut()
            .for_each(|range| *range = range.whole_pages());
        self.list.retain(|range| !range.is_empty());
    }

    /// The first range with `len_bytes` that lies in `[low, high)`, cut to it.
    #[must_use]
    pub fn first_fit(&self, low: Phys, high: Phys, len_bytes: u64) -> Option<PhysRange> {
        self.list
            .iter()
            .map(|range| {
                PhysRange {
                    start: range.start.max(low),
                    end: range.end.min(high),
                }
                .whole_pages()
            })
            .find(|range| range.len_bytes() >= len_bytes)
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|range| range.len_bytes()).sum()
    }

    fn smallest(&self) -> Option<usize> {
        (0..self.list.len()).min_by_key(|&at| self.list[at].len_bytes())
    }

    fn lose(&mut self, at: usize) {
        let range = self.list.remove(at);
        self.lost.add(range);
    }
}

impl Lost {
    fn add(&mut self, range: PhysRange) {
        self.ranges += 1;
        self.bytes += range.len_bytes();
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ranges, bytes } = self;
        write!(
            f,
            "{bytes} bytes of RAM are not used: {ranges} ranges beyond the {MAX_RAM_RANGES} largest"
        )
    }
}

impl Deref for Ranges {
    type Target = [PhysRange];
    fn deref(&self) -> &[PhysRange] {
        &self.list
    }
}

impl Extend<PhysRange> for Ranges {
    fn extend<I: IntoIterator<Item = PhysRange>>(&mut self, ranges: I) {
        ranges.into_iter().for_each(|range| self.insert(range));
    }
}

impl FromIterator<PhysRange> for Ranges {
    fn from_iter<I: IntoIterator<Item = PhysRange>>(ranges: I) -> Self {
        let mut list = Self::new();
        list.extend(ranges);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: u64, end: u64) -> PhysRange {
        PhysRange {
            start: Phys(start),
            end: Phys(end),
        }
    }

    fn list(parts: &[PhysRange]) -> Ranges {
        parts.iter().copied().collect()
    }

    #[test]
    fn inserting_joins_neighbours_and_sorts() {
        let list = list(&[
            range(30, 40),
            range(0, 10),
            range(10, 20),
            range(35, 50),
            range(7, 7),
        ]);
        assert_eq!(*list, [range(0, 20), range(30, 50)]);
    }

    #[test]
    fn subtracting_splits() {
        let mut list = list(&[range(0, 100)]);
        list.subtract(range(20, 30));
        list.subtract(range(90, 200));
        list.subtract(range(0, 5));
        assert_eq!(*list, [range(5, 20), range(30, 90)]);
    }

    #[test]
    fn first_fit_respects_the_window_and_whole_pages() {
        let list = list(&[range(0x100, 0x3000), range(0x10_0000, 0x20_0000)]);
        assert_eq!(
            list.first_fit(Phys(0), Phys(u64::MAX), 0x2000),
            Some(range(0x1000, 0x3000))
        );
        assert_eq!(list.first_fit(Phys(0), Phys(0x2800), 0x2000), None);
        assert_eq!(
            list.first_fit(Phys(0x18_0000), Phys(u64::MAX), 0x1000),
            Some(range(0x18_0000, 0x20_0000))
        );
    }

    /// Ranges beyond the limit were dropped without a word once, whatever their size: a small one before a large one cost the large one.
    #[test]
    fn what_does_not_fit_is_the_smallest_and_counted() {
        let many = (0..100u64).map(|i| range(i << 20, (i << 20) + 10 + i));
        let mut list: Ranges = many.collect();
        assert_eq!(list.len(), ROOM);
        assert!(list.iter().all(|range| range.len_bytes() >= 30));
        let lost = Lost {
            ranges: 20,
            bytes: (10..30).sum(),
        };
        assert_eq!(list.lost(), lost);
        list.keep_largest(MAX_RAM_RANGES);
        assert_eq!((list.len(), list.lost().ranges), (MAX_RAM_RANGES, 36));
        assert_eq!(list.bytes() + list.lost().bytes, (10..110).sum());
    }

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn a_list_is_a_set_of_bytes(
            steps in prop::collection::vec((any::<bool>(), 0u64..400, 0u64..40), 0..300),
        ) {
            let (mut list, mut model) = (Ranges::new(), [false; 440]);
            for (add, start, len) in steps {
                let part = range(start, start + len);
                if add { list.insert(part) } else { list.subtract(part) }
                model[start as usize..(start + len) as usize].fill(add);
            }
            prop_assert!(list.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(list.iter().all(|range| !range.is_empty()));
            if list.lost() == Lost::default() {
                for (at, &there) in model.iter().enumerate() {
                    prop_assert_eq!(list.iter().any(|range| range.holds(Phys(at as u64), 1)), there);
                }
            }
        }
    }
}
