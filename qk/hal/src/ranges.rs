//! Lists of physical ranges, small enough to live on a stack: what boot does with the memory map.
//!
//! BOUND: at boot only, of MAX_RANGES at most.

use crate::addr::{Phys, PhysRange};
use arrayvec::ArrayVec;

/// Ranges that boot can keep; a PVH map under QEMU has about ten, UEFI machines fold to a few dozen.
pub const MAX_RANGES: usize = 64;

/// A sorted list of disjoint ranges.
pub type Ranges = ArrayVec<PhysRange, MAX_RANGES>;

/// Adds `range` to the sorted list, joining neighbours. What does not fit any more is dropped: less memory, never wrong memory.
pub fn insert(list: &mut Ranges, mut range: PhysRange) {
    if range.is_empty() {
        return;
    }
    list.retain(|other| {
        let joins = other.start <= range.end && range.start <= other.end;
        if joins {
            range.start = range.start.min(other.start);
            range.end = range.end.max(other.end);
        }
        !joins
    });
    let at = list
        .iter()
        .position(|other| other.start > range.start)
        .unwrap_or(list.len());
    let _ = list.try_insert(at, range);
}

/// Removes `hole` from every range of the list.
pub fn subtract(list: &mut Ranges, hole: PhysRange) {
    if hole.is_empty() {
        return;
    }
    let before = core::mem::take(list);
    for range in before {
        let below = PhysRange {
            start: range.start,
            end: range.end.min(hole.start),
        };
        let above = PhysRange {
            start: range.start.max(hole.end),
            end: range.end,
        };
        for part in [below, above] {
            if !part.is_empty() {
                insert(list, part);
            }
        }
    }
}

/// The first range with `len_bytes` that lies in `[low, high)`, cut to it.
#[must_use]
pub fn first_fit(list: &Ranges, low: Phys, high: Phys, len_bytes: u64) -> Option<PhysRange> {
    list.iter()
        .map(|range| {
            PhysRange {
                start: range.start.max(low),
                end: range.end.min(high),
            }
            .whole_pages()
        })
        .find(|range| range.len_bytes() >= len_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> PhysRange {
        PhysRange {
            start: Phys(start),
            end: Phys(end),
        }
    }

    #[test]
    fn inserting_joins_neighbours_and_sorts() {
        let mut list = Ranges::new();
        for part in [
            range(30, 40),
            range(0, 10),
            range(10, 20),
            range(35, 50),
            range(7, 7),
        ] {
            insert(&mut list, part);
        }
        assert_eq!(list.as_slice(), [range(0, 20), range(30, 50)]);
    }

    #[test]
    fn subtracting_splits() {
        let mut list = Ranges::new();
        insert(&mut list, range(0, 100));
        subtract(&mut list, range(20, 30));
        subtract(&mut list, range(90, 200));
        subtract(&mut list, range(0, 5));
        assert_eq!(list.as_slice(), [range(5, 20), range(30, 90)]);
    }

    #[test]
    fn first_fit_respects_the_window_and_whole_pages() {
        let mut list = Ranges::new();
        insert(&mut list, range(0x100, 0x3000));
        insert(&mut list, range(0x10_0000, 0x20_0000));
        assert_eq!(
            first_fit(&list, Phys(0), Phys(u64::MAX), 0x2000),
            Some(range(0x1000, 0x3000))
        );
        assert_eq!(first_fit(&list, Phys(0), Phys(0x2800), 0x2000), None);
        assert_eq!(
            first_fit(&list, Phys(0x18_0000), Phys(u64::MAX), 0x1000),
            Some(range(0x18_0000, 0x20_0000))
        );
    }
}
