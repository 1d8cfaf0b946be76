//! The region map against a model with one entry per page.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const P: u64 = 4096;

/// Pages `start .. end`.
fn pages(start: u64, end: u64) -> VaRange {
    Va(start * P).until(Va(end * P))
}

fn anon(start: u64, end: u64, prot: Prot) -> Region {
    Region::new(pages(start, end), prot, Kind::Anon)
}

fn bounds(r: &Regions) -> Vec<(u64, u64, u8)> {
    r.iter()
        .map(|r| (r.start.0 / P, r.end.0 / P, r.prot.bits()))
        .collect()
}

fn rw() -> Prot {
    Prot::READ | Prot::WRITE
}

#[test]
fn neighbours_that_are_alike_become_one() {
    let mut r = Regions::new(8, |_| ()).unwrap();
    r.insert(anon(10, 20, rw())).unwrap();
    r.insert(anon(30, 40, rw())).unwrap();
    r.insert(anon(20, 30, rw())).unwrap();
    assert_eq!(bounds(&r), [(10, 40, 3)]);
    assert_eq!(r.insert(anon(39, 41, rw())), Err(RegionError::Overlap));
    r.protect(pages(20, 30), Prot::READ).unwrap();
    assert_eq!(bounds(&r), [(10, 20, 3), (20, 30, 1), (30, 40, 3)]);
    r.protect(pages(20, 30), rw()).unwrap();
    assert_eq!(bounds(&r), [(10, 40, 3)]);
}

#[test]
fn file_mappings_join_only_when_their_offsets_follow() {
    let mut r = Regions::new(8, |_| ()).unwrap();
    let file = |start: u64, offset: u64| Region {
        object: 7,
        offset: offset * P,
        ..Region::new(pages(start, start + 10), Prot::READ, Kind::File)
    };
    r.insert(file(0, 5)).unwrap();
    r.insert(file(10, 15)).unwrap();
    assert_eq!(r.iter().count(), 1);
    r.insert(file(20, 0)).unwrap();
    assert_eq!(r.iter().count(), 2);
    r.remove(pages(3, 4)).unwrap();
    assert_eq!(r.iter().nth(1).unwrap().offset, 9 * P);
    r.remove(pages(0, 1)).unwrap();
    assert_eq!(r.iter().next().unwrap().offset, 6 * P);
}

#[test]
fn mprotect_stops_at_a_hole_but_keeps_what_it_did() {
    let mut r = Regions::new(8, |_| ()).unwrap();
    r.insert(anon(0, 4, rw())).unwrap();
    r.insert(anon(6, 8, rw())).unwrap();
    assert_eq!(
        r.protect(pages(2, 8), Prot::READ),
        Err(RegionError::Hole { at: Va(4 * P) })
    );
    assert_eq!(bounds(&r), [(0, 2, 3), (2, 4, 1), (6, 8, 3)]);
    assert_eq!(
        r.protect(pages(4, 8), Prot::READ),
        Err(RegionError::Hole { at: Va(4 * P) })
    );
    assert_eq!(bounds(&r), [(0, 2, 3), (2, 4, 1), (6, 8, 3)]);
}

#[test]
fn a_full_map_refuses_and_stays_as_it_was() {
    let mut r = Regions::new(2, |_| ()).unwrap();
    r.insert(anon(0, 10, rw())).unwrap();
    r.insert(anon(20, 30, rw())).unwrap();
    let before = bounds(&r);
    assert_eq!(r.insert(anon(40, 41, rw())), Err(RegionError::Full));
    assert_eq!(r.remove(pages(2, 3)), Err(RegionError::Full));
    assert_eq!(r.protect(pages(2, 10), Prot::READ), Err(RegionError::Full));
    assert_eq!(
        r.move_range(pages(0, 1), pages(50, 51)),
        Err(RegionError::Full)
    );
    assert_eq!(bounds(&r), before);
    // These need no room: one joins, the others only shorten.
    r.insert(anon(10, 11, rw())).unwrap();
    r.remove(pages(5, 25)).unwrap();
    r.move_range(pages(0, 5), pages(50, 55)).unwrap();
    assert_eq!(bounds(&r), [(25, 30, 3), (50, 55, 3)]);
}

/// Once room for the region was looked for when its pages had moved already.
#[test]
fn a_move_that_is_prepared_needs_nothing_more() {
    let mut r = Regions::new(200, |_| ()).unwrap();
    for i in 0..60 {
        r.insert(anon(10 * i, 10 * i + 3, rw())).unwrap();
    }
    for i in 0..60 {
        r.list.forget_spare();
        r.prepare_move(pages(10 * i + 1, 10 * i + 2), Va((1000 + 5 * i) * P))
            .unwrap();
        assert_eq!(r.list.spare(), list::SPARE);
        r.move_range(
            pages(10 * i + 1, 10 * i + 2),
            pages(1000 + 5 * i, 1003 + 5 * i),
        )
        .unwrap();
        assert!(r.list.spare() > 0, "used up: {i}");
    }
}

#[test]
fn holes_are_found_from_the_top() {
    let mut r = Regions::new(8, |_| ()).unwrap();
    r.insert(anon(90, 110, rw())).unwrap();
    r.insert(anon(70, 80, rw())).unwrap();
    let hole = |len: u64, align: u64, low: u64| {
        r.find_hole(len * P, align * P, 0, pages(low, 100))
            .map(|a| a.0 / P)
    };
    assert_eq!(hole(10, 1, 0), Some(80));
    assert_eq!(hole(11, 1, 0), Some(59));
    assert_eq!(hole(4, 16, 0), Some(80));
    assert_eq!(hole(11, 16, 0), Some(48));
    assert_eq!(hole(11, 1, 60), None);
    assert_eq!(hole(10, 1, 60), Some(80));
    assert_eq!(hole(70, 1, 0), Some(0));
    assert_eq!(hole(71, 1, 0), None);
    assert_eq!(r.find_hole(P, P, 0, pages(92, 100)), None);
    assert_eq!(r.find_hole(u64::MAX - P + 1, P, 0, pages(0, 100)), None);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64, u8),
    Remove(u64, u64),
    Protect(u64, u64, u8),
    Lock(u64, u64, bool),
    Move(u64, u64, u64),
    Hole(u64, u32, u64, u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    const N: u64 = 64;
    prop_oneof![
        4 => (0..N, 1..20u64, 0..4u8).prop_map(|(s, n, p)| Op::Insert(s, n, p)),
        2 => (0..N, 1..20u64, any::<bool>()).prop_map(|(s, n, locked)| Op::Lock(s, n, locked)),
        2 => (0..N, 1..20u64).prop_map(|(s, n)| Op::Remove(s, n)),
        3 => (0..N, 1..30u64, 0..4u8).prop_map(|(s, n, p)| Op::Protect(s, n, p)),
        2 => (0..N, 1..10u64, 0..N).prop_map(|(s, n, t)| Op::Move(s, n, t)),
        1 => (1..20u64, 0..5u32, 0..40u64, 0..N, 0..100u64)
            .prop_map(|(n, a, phase, l, h)| Op::Hole(n, a, phase, l, h)),
    ]
}

/// One entry per page: None = hole.
type Model = [Option<Prot>; 128];

fn apply(r: &mut Regions, m: &mut Model, op: Op) -> Result<(), TestCaseError> {
    let cells = |s: u64, n: u64| s as usize..(s + n) as usize;
    match op {
        Op::Insert(s, n, p) => {
            let vacant = m[cells(s, n)].iter().all(Option::is_none);
            let prot = Prot::from_bits_truncate(p);
            match r.insert(anon(s, s + n, prot)) {
                Ok(()) => {
                    prop_assert!(vacant);
                    m[cells(s, n)].fill(Some(prot));
                }
                Err(RegionError::Overlap) => prop_assert!(!vacant),
                Err(e) => prop_assert_eq!(e, RegionError::Full),
            }
        }
        Op::Remove(s, n) => match r.remove(pages(s, s + n)) {
            Ok(()) => m[cells(s, n)].fill(None),
            Err(e) => prop_assert_eq!(e, RegionError::Full),
        },
        Op::Protect(s, n, p) => {
            let prot = Prot::from_bits_truncate(p);
            let hole = cells(s, n).find(|i| m[*i].is_none());
            match r.protect(pages(s, s + n), prot) {
                Ok(()) => {
                    prop_assert_eq!(hole, None);
                    m[cells(s, n)].fill(Some(prot));
                }
                Err(RegionError::Hole { at }) => {
                    prop_assert_eq!(Some((at.0 / P) as usize), hole);
                    m[s as usize..(at.0 / P) as usize].fill(Some(prot));
                }
                Err(e) => prop_assert_eq!(e, RegionError::Full),
            }
        }
        Op::Lock(s, n, locked) => {
            let lock = |region: &mut Region| region.flags.set(RegionFlags::LOCKED, locked);
            // What lies below a hole is locked.
            let _ = r.update(pages(s, s + n), lock);
        }
        Op::Move(s, n, t) => {
            let before = *m;
            if r.move_range(pages(s, s + n), pages(t, t + n)).is_ok() {
                prop_assert!(before[cells(t, n)].iter().all(Option::is_none));
                m[cells(t, n)].fill(before[s as usize]);
                m[cells(s, n)].fill(None);
                prop_assert!(
                    before[cells(s, n)]
                        .iter()
                        .all(|c| c.is_some() && *c == before[s as usize])
                );
            }
        }
        Op::Hole(n, a, phase, low, high) => {
            let align = 1u64 << a;
            let free =
                |s: u64| s >= low && s + n <= high && m[cells(s, n)].iter().all(Option::is_none);
            let best = (0..100)
                .rev()
                .find(|s| s % align == phase % align && free(*s));
            prop_assert_eq!(
                r.find_hole(n * P, align * P, phase * P, pages(low, high))
                    .map(|a| a.0 / P),
                best
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_the_model(ops in proptest::collection::vec(op(), 1..200), capacity in 3usize..40) {
        let mut r = Regions::new(capacity, |_| ()).unwrap();
        let mut m: Model = [None; 128];
        for op in ops {
            apply(&mut r, &mut m, op)?;
            prop_assert!(r.iter().count() <= capacity);
            // Sorted, disjoint, fully merged, and the same as the model page by page.
            let all: Vec<_> = r.iter().copied().collect();
            let locked = all.iter().filter(|r| r.flags.contains(RegionFlags::LOCKED));
            prop_assert_eq!(r.locked_bytes(), locked.map(Region::len_bytes).sum::<u64>());
            prop_assert!(all.windows(2).all(|w| w[0].end <= w[1].start && !w[0].joins(&w[1])));
            for (i, cell) in m.iter().enumerate() {
                prop_assert_eq!(r.lookup(Va(i as u64 * P)).map(|x| x.prot), *cell);
            }
            prop_assert_eq!(r.first_hole(pages(8, 40)), (8..40).find(|i| m[*i].is_none()).map(|i| Va(i as u64 * P)));
        }
    }
}

/// What a loader maps again in place is there already, unless it was writable meanwhile, or is another file or part of it.
#[test]
fn a_mapping_of_a_file_shows_its_parts() {
    let mut map = Regions::new(16, |_| ()).unwrap();
    let file = |start: u64, end: u64, object, offset| Region {
        object,
        offset,
        flags: RegionFlags::UNWRITTEN,
        ..Region::new(Va(start).until(Va(end)), Prot::READ, Kind::File)
    };
    map.insert(file(0x1_0000, 0x1_8000, 7, 0x3000))
        .expect("free");
    let mut behind = file(0x1_8000, 0x1_a000, 7, 0xb000);
    behind.flags |= RegionFlags::PAST_END;
    map.insert(behind).expect("free");
    assert!(map.shows(&file(0x1_0000, 0x1_a000, 7, 0x3000)));
    assert!(map.shows(&file(0x1_2000, 0x1_3000, 7, 0x5000)));
    assert!(!map.shows(&file(0x1_2000, 0x1_3000, 7, 0x6000)));
    assert!(!map.shows(&file(0x1_2000, 0x1_3000, 8, 0x5000)));
    assert!(!map.shows(&file(0x1_2000, 0x1_b000, 7, 0x5000)));
    let access = |map: &mut Regions, prot| map.protect(pages(0x12, 0x13), prot).expect("mapped");
    access(&mut map, Prot::READ | Prot::EXEC);
    assert!(map.shows(&file(0x1_0000, 0x1_a000, 7, 0x3000)));
    access(&mut map, Prot::READ | Prot::WRITE);
    access(&mut map, Prot::READ);
    assert!(!map.shows(&file(0x1_0000, 0x1_a000, 7, 0x3000)));
    assert!(map.shows(&file(0x1_3000, 0x1_a000, 7, 0x6000)));
}
