//! The memory map, as firmware gives it, made into the RAM that can be used.
//!
//! Maps are not sorted, entries overlap and repeat, and the worst have a thousand. What two entries contradict each other about is not RAM, as in
//! Linux (arch/x86/kernel/e820.c). The map is swept from the lowest address up, with one pass over the entries for each border, so that
//! nothing is stored but what comes out: quadratic, which ten entries do not notice and a thousand take some milliseconds for.
//!
//! BOUND: at boot only, of entries squared, at most MAX_MAP_ENTRIES of them.

use super::remark::{Remark, Remarks, push};
use crate::addr::{Phys, PhysRange};
use crate::ranges::Ranges;

/// End of the first MiB: BIOS data, EBDA, option ROMs. Not for the kernel, whatever the map says.
pub const LOW_MEMORY_END: Phys = Phys(0x10_0000);

/// One entry of the map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub start: u64,
    pub len_bytes: u64,
    pub is_ram: bool,
}

/// RAM by the entries that `map` goes over: whole pages below `reach`.
pub(super) fn usable<I: Iterator<Item = Entry>>(
    map: impl Fn() -> I,
    reach: Phys,
    remarks: &mut Remarks,
) -> Ranges {
    let mut found = Found {
        reach,
        ram: Ranges::new(),
        too_high_bytes: 0,
        partial_bytes: 0,
    };
    let mut open = PhysRange::default();
    let mut at = 0;
    loop {
        let (is_ram, next) = piece(map(), at);
        if is_ram {
            if open.end != Phys(at) {
                found.add(open);
                open.start = Phys(at);
            }
            open.end = Phys(next);
        }
        if next == u64::MAX {
            break;
        }
        at = next;
    }
    found.add(open);
    found.say(remarks);
    found.ram
}

/// Whether the byte at `at` is RAM, and where the next entry begins or ends.
fn piece(map: impl Iterator<Item = Entry>, at: u64) -> (bool, u64) {
    let (mut ram, mut other, mut next) = (false, false, u64::MAX);
    for entry in map {
        let end = entry.start.saturating_add(entry.len_bytes);
        if entry.start > at {
            if end > entry.start {
                next = next.min(entry.start);
            }
        } else if end > at {
            *(if entry.is_ram { &mut ram } else { &mut other }) = true;
            next = next.min(end);
        }
    }
    (ram && !other, next)
}

/// What comes out.
struct Found {
    reach: Phys,
    ram: Ranges,
    too_high_bytes: u64,
    partial_bytes: u64,
}

impl Found {
    fn add(&mut self, range: PhysRange) {
        let low = PhysRange {
            start: range.start,
            end: range.end.min(self.reach),
        };
        let pages = low.whole_pages();
        self.too_high_bytes += range.len_bytes() - low.len_bytes();
        // Of the first MiB nothing is lost that would not be left out.
        let above = |range: PhysRange| {
            let start = range.start.max(LOW_MEMORY_END);
            PhysRange { start, ..range }.len_bytes()
        };
        self.partial_bytes += above(low) - above(pages);
        self.ram.insert(pages);
    }

    fn say(&self, remarks: &mut Remarks) {
        if self.too_high_bytes > 0 {
            push(remarks, Remark::TooHigh(self.too_high_bytes, self.reach));
        }
        if self.partial_bytes > 0 {
            push(remarks, Remark::PartialPages(self.partial_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::map::{DIRECT_MAP_BYTES, MAX_RAM_RANGES, PAGE};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn entry(start: u64, end: u64, is_ram: bool) -> Entry {
        let len_bytes = end - start;
        Entry {
            start,
            len_bytes,
            is_ram,
        }
    }

    fn usable_of(map: &[Entry]) -> (Ranges, Remarks) {
        let mut remarks = Remarks::new();
        let ram = usable(|| map.iter().copied(), Phys(DIRECT_MAP_BYTES), &mut remarks);
        (ram, remarks)
    }

    fn range(start: u64, end: u64) -> PhysRange {
        let (start, end) = (Phys(start), Phys(end));
        PhysRange { start, end }
    }

    #[test]
    fn order_overlaps_and_repetitions_do_not_matter() {
        let map = [
            entry(16 * MIB, 64 * MIB, true),
            entry(MIB, 16 * MIB, true),
            entry(16 * MIB, 64 * MIB, true),
            entry(60 * MIB, 80 * MIB, true),
            entry(32 * MIB, 33 * MIB, false),
            entry(5 * MIB, 5 * MIB, false),
        ];
        let (ram, remarks) = usable_of(&map);
        assert_eq!(*ram, [range(MIB, 32 * MIB), range(33 * MIB, 80 * MIB)]);
        assert!(remarks.is_empty(), "{remarks:?}");
    }

    #[test]
    fn parts_of_pages_and_what_is_too_high_are_said() {
        let map = [
            entry(0, 0x9fc00, true),
            entry(MIB + 1, 2 * MIB - 3, true),
            entry(DIRECT_MAP_BYTES - MIB, DIRECT_MAP_BYTES + 5 * MIB, true),
        ];
        let (ram, remarks) = usable_of(&map);
        let high = range(DIRECT_MAP_BYTES - MIB, DIRECT_MAP_BYTES);
        assert_eq!(
            *ram,
            [range(0, 0x9f000), range(MIB + PAGE, 2 * MIB - PAGE), high]
        );
        let lost = [
            Remark::TooHigh(5 * MIB, Phys(DIRECT_MAP_BYTES)),
            Remark::PartialPages(2 * PAGE - 4),
        ];
        assert_eq!(remarks[..], lost);
    }

    /// An entry that wraps around ended the boot once.
    #[test]
    fn an_entry_that_wraps_ends_at_the_end() {
        let mut map = [entry(MIB, 2 * MIB, true), entry(3 * MIB, 4 * MIB, true)];
        map[1].len_bytes = u64::MAX;
        let (ram, remarks) = usable_of(&map);
        assert_eq!(ram.len(), 2);
        assert!(
            matches!(remarks[..], [Remark::TooHigh(..), ..]),
            "{remarks:?}"
        );
    }

    #[test]
    fn nothing_usable_is_an_empty_list() {
        let (ram, remarks) = usable_of(&[entry(0, 1 << 32, false), entry(MIB, 9 * MIB, true)]);
        assert!(ram.is_empty() && remarks.is_empty());
    }

    #[test]
    fn a_thousand_entries_leave_the_largest() {
        let map: Vec<_> = (0..1000u64)
            .map(|i| entry(i * 4 * MIB, i * 4 * MIB + PAGE * (1 + i), true))
            .rev()
            .collect();
        let (mut ram, _) = usable_of(&map);
        ram.keep_largest(MAX_RAM_RANGES);
        let all: u64 = (1..=1000).map(|pages| pages * PAGE).sum();
        assert!(ram.iter().all(|range| range.len_bytes() > 936 * PAGE));
        assert_eq!(ram.bytes() + ram.lost().bytes, all);
    }

    proptest! {
        /// Against one answer for each quarter of a page.
        #[test]
        fn a_page_is_ram_when_all_of_it_is(
            map in prop::collection::vec((0u64..400, 0u64..60, prop::bool::weighted(0.7)), 0..40),
        ) {
            const UNIT: u64 = PAGE / 4;
            // Above the first MiB, so that parts of pages count.
            let base = 2 * MIB;
            let entries: Vec<_> = map
                .iter()
                .map(|&(start, len, is_ram)| entry(base + start * UNIT, base + (start + len) * UNIT, is_ram))
                .collect();
            let covers = |unit: u64, ram: bool| {
                map.iter().any(|&(start, len, is_ram)| is_ram == ram && (start..start + len).contains(&unit))
            };
            let is_ram = |unit| covers(unit, true) && !covers(unit, false);
            let (ram, remarks) = usable_of(&entries);
            let mut there = 0;
            for page in 0..116 {
                let units = (page * 4..page * 4 + 4).filter(|&unit| is_ram(unit)).count() as u64;
                there += units * UNIT;
                let at = Phys(base + page * PAGE);
                prop_assert_eq!(ram.iter().any(|range| range.holds(at, PAGE)), units == 4);
            }
            let said = remarks.iter().map(|remark| match remark {
                Remark::PartialPages(bytes) => *bytes,
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(ram.bytes() + said.sum::<u64>(), there);
        }
    }
}
