//! The list of RAM, against a table that has every page.

use std::collections::HashMap;

use abi::map::PAGE;
use margay_wire::ram::{Bad, MAX_RANGES, Place, Ram, RamRange};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn range(gpa: u64, len_bytes: u64, place: Place) -> RamRange {
    RamRange {
        gpa,
        len_bytes,
        place,
    }
}

/// A PC with 5 GiB and a hole below 4 GiB; the last page is the pool's.
fn split() -> Ram {
    Ram::new([
        range(0, 2 * GIB, Place::Ram(0)),
        range(4 * GIB, 3 * GIB - PAGE, Place::Ram(2 * GIB)),
        range(7 * GIB - PAGE, PAGE, Place::Pool(0)),
    ])
    .expect("sorted")
}

#[test]
fn the_hole_is_no_memory() {
    let ram = split();
    assert_eq!(ram.bytes(), 5 * GIB);
    assert_eq!(ram.place(0x10_0000, PAGE), Some(Place::Ram(0x10_0000)));
    assert_eq!(ram.place(2 * GIB - 1, 1), Some(Place::Ram(2 * GIB - 1)));
    assert_eq!(ram.place(2 * GIB - 1, 2), None, "into the hole");
    assert_eq!(ram.place(3 * GIB, 1), None, "in the hole");
    assert_eq!(ram.place(0, 5 * GIB), None, "not in one piece");
    assert_eq!(ram.place(4 * GIB, PAGE), Some(Place::Ram(2 * GIB)));
    assert_eq!(ram.place(7 * GIB, 1), None);
    assert_eq!(ram.place(u64::MAX, 1), None);
    assert_eq!(ram.place(u64::MAX, u64::MAX), None);
    assert_eq!(ram.place(4 * GIB, u64::MAX), None);
}

#[test]
fn the_pool_is_another_file() {
    let ram = split();
    let pool = 7 * GIB - PAGE;
    assert_eq!(ram.place(pool, PAGE), Some(Place::Pool(0)));
    assert_eq!(ram.place(pool - 1, 1), Some(Place::Ram(5 * GIB - PAGE - 1)));
    assert_eq!(ram.place(pool - 1, 2), None);
    assert_eq!(ram.gpa(Place::Pool(1), PAGE - 1), Some(pool + 1));
    assert_eq!(ram.gpa(Place::Pool(1), PAGE), None);
    assert_eq!(ram.gpa(Place::Ram(2 * GIB), 1), Some(4 * GIB));
}

/// Nothing of memory is left out without a word: neither what is behind the last place, nor what makes no sense.
#[test]
fn a_bad_list_is_refused() {
    let page = |i: u64| range(2 * i * PAGE, PAGE, Place::Ram(i * PAGE));
    let most = MAX_RANGES as u64;
    let ram = Ram::new((0..most).map(page)).expect("room");
    assert_eq!(ram.ranges().len(), MAX_RANGES);
    assert_eq!(Ram::new((0..=most).map(page)), Err(Bad::TooMany));
    let line = Bad::TooMany.to_string();
    assert!(line.contains("more than 64 pieces"), "{line}");

    let list = |ranges: &[RamRange]| Ram::new(ranges.iter().copied()).map(|ram| ram.bytes());
    assert_eq!(list(&[]), Err(Bad::Empty));
    assert_eq!(list(&[range(0, 0, Place::Ram(0))]), Err(Bad::Unaligned));
    assert_eq!(list(&[range(1, PAGE, Place::Ram(0))]), Err(Bad::Unaligned));
    assert_eq!(list(&[range(0, 1, Place::Ram(0))]), Err(Bad::Unaligned));
    assert_eq!(list(&[range(0, PAGE, Place::Ram(1))]), Err(Bad::Unaligned));
    let last = u64::MAX - PAGE + 1;
    assert_eq!(list(&[range(last, PAGE, Place::Ram(0))]), Err(Bad::Beyond));
    assert_eq!(list(&[range(0, PAGE, Place::Ram(last))]), Err(Bad::Beyond));
    let top = 1 << 52;
    assert_eq!(list(&[range(top, PAGE, Place::Ram(0))]), Err(Bad::Beyond));
    assert_eq!(list(&[page(1), page(0)]), Err(Bad::Order));
    let wide = range(0, 3 * PAGE, Place::Ram(0));
    assert_eq!(list(&[wide, page(1)]), Err(Bad::Order));
    let again = range(8 * PAGE, PAGE, Place::Ram(2 * PAGE));
    assert_eq!(list(&[wide, again]), Err(Bad::Shared));
    let around = range(8 * PAGE, 3 * PAGE, Place::Ram(PAGE));
    assert_eq!(list(&[page(2), around]), Err(Bad::Shared));
    let other_file = range(8 * PAGE, PAGE, Place::Pool(2 * PAGE));
    assert_eq!(list(&[wide, other_file]), Ok(4 * PAGE));
}

#[test]
fn ranges_that_continue_each_other_are_one() {
    let ram = Ram::new((0..1000).map(|i| range(i * PAGE, PAGE, Place::Ram(i * PAGE))));
    let ram = ram.expect("one piece");
    assert_eq!(ram.ranges(), [range(0, 1000 * PAGE, Place::Ram(0))]);
}

/// Pages of a small memory.
const PAGES: u64 = 48;

/// What page of which file each page of memory is.
type Model = HashMap<u64, Place>;

/// Ranges as pages of a gap before it, pages, and pages by which its file is further than it must be; a pool's if that is odd.
fn layouts() -> impl Strategy<Value = (Vec<RamRange>, Model)> {
    prop::collection::vec((0u64..3, 1u64..5, 0u64..4), 1..9).prop_map(|pieces| {
        let (mut ranges, mut model) = (Vec::new(), Model::new());
        let (mut gpa, mut ends) = (0, [0, 0]);
        for (gap, pages, file) in pieces {
            let end = &mut ends[(file % 2) as usize];
            let (first, offset) = (gpa + gap, *end + file / 2);
            let place = |page| match file % 2 {
                0 => Place::Ram(page * PAGE),
                _ => Place::Pool(page * PAGE),
            };
            ranges.push(range(first * PAGE, pages * PAGE, place(offset)));
            model.extend((0..pages).map(|page| (first + page, place(offset + page))));
            (gpa, *end) = (first + pages, offset + pages);
        }
        (ranges, model)
    })
}

/// Bytes from the start of something, on a page's edge as often as not.
fn bytes(pages: u64) -> impl Strategy<Value = u64> {
    let in_page = prop_oneof![Just(0), Just(0), Just(1), Just(PAGE - 1), 0..PAGE];
    (0..pages, in_page).prop_map(|(page, byte)| page * PAGE + byte)
}

/// Where the bytes lie, one after the other.
fn slowly(model: &Model, gpa: u64, len_bytes: u64) -> Option<Place> {
    let byte = |gpa: u64| match *model.get(&(gpa / PAGE))? {
        Place::Ram(offset) => Some(Place::Ram(offset + gpa % PAGE)),
        Place::Pool(offset) => Some(Place::Pool(offset + gpa % PAGE)),
    };
    let first = byte(gpa)?;
    let next = |far| match first {
        Place::Ram(offset) => Place::Ram(offset + far),
        Place::Pool(offset) => Place::Pool(offset + far),
    };
    // Within a page nothing changes: its first and last bytes are enough.
    let mut far = 0;
    while far < len_bytes {
        let last = (far + PAGE - 1 - (gpa + far) % PAGE).min(len_bytes - 1);
        for far in [far, last] {
            if byte(gpa + far) != Some(next(far)) {
                return None;
            }
        }
        far = last + 1;
    }
    Some(first)
}

proptest! {
    #[test]
    fn places_are_those_of_every_byte(
        (ranges, model) in layouts(), gpa in bytes(PAGES), len_bytes in bytes(8),
    ) {
        let ram = Ram::new(ranges).expect("sorted");
        prop_assert_eq!(ram.bytes(), model.len() as u64 * PAGE);
        let place = ram.place(gpa, len_bytes);
        prop_assert_eq!(place, slowly(&model, gpa, len_bytes));
        if let Some(place) = place {
            prop_assert_eq!(ram.gpa(place, len_bytes), Some(gpa));
        }
    }

    #[test]
    fn addresses_are_where_the_bytes_lie(
        (ranges, model) in layouts(), offset in bytes(PAGES), len_bytes in bytes(8), pool: bool,
    ) {
        let ram = Ram::new(ranges).expect("sorted");
        let place = if pool { Place::Pool(offset) } else { Place::Ram(offset) };
        match ram.gpa(place, len_bytes) {
            Some(gpa) => prop_assert_eq!(slowly(&model, gpa, len_bytes), Some(place)),
            None => {
                let found = |page: &u64| slowly(&model, page * PAGE + offset % PAGE, len_bytes);
                prop_assert!(model.keys().all(|page| found(page) != Some(place)));
            }
        }
    }

    /// Whatever a machine says of its memory: the list is refused, or no two addresses share a byte.
    #[test]
    fn any_list_is_sound_or_refused(
        words in prop::collection::vec((0u64..40, 0u64..6, 0u64..40, any::<bool>()), 1..6),
    ) {
        let ranges: Vec<RamRange> = words.iter().map(|&(gpa, len, offset, pool)| {
            let offset = offset * PAGE;
            let place = if pool { Place::Pool(offset) } else { Place::Ram(offset) };
            range(gpa * PAGE, len * PAGE, place)
        }).collect();
        let mut seen = HashMap::new();
        let mut last = None;
        let sound = ranges.iter().all(|range| {
            let sorted = range.len_bytes > 0 && last.is_none_or(|last| range.gpa >= last);
            last = Some(range.gpa + range.len_bytes);
            let pages = (0..range.len_bytes / PAGE).map(|page| match range.place {
                Place::Ram(offset) => (false, offset / PAGE + page),
                Place::Pool(offset) => (true, offset / PAGE + page),
            });
            let mut fresh = true;
            for page in pages {
                fresh &= seen.insert(page, ()).is_none();
            }
            sorted && fresh
        });
        prop_assert_eq!(Ram::new(ranges).is_ok(), sound);
    }
}
