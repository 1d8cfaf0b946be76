//! Objects against a model: a map from pages of files to frames.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread_local;

use proptest::prelude::*;

use super::*;

const BASE: Phys = Phys(0x4000_0000);
const MIB: u64 = 1 << 20;

fn objects(len_bytes: u64) -> Objects {
    Objects::new(PhysRange::new(BASE, len_bytes), true, |_| ()).expect("memory for its records")
}

fn give_back(objects: &mut Objects, pieces: &[Piece]) {
    objects.retire(pieces);
    objects.release(pieces);
}

impl Objects {
    /// Lends `len_bytes` to a mapping that is made; returns the object's number.
    fn lend(&mut self, file: File, len_bytes: u64) -> Result<u32, Errno> {
        let mut lease = self.attach(file, len_bytes)?;
        lease.pass_on(len_bytes);
        Ok(lease.object())
    }

    /// So much of what was lent is mapped no more.
    fn end(&mut self, id: u32, len_bytes: u64) -> Option<Vec<Piece>> {
        self.detach(Lease::new(id, len_bytes))
    }
}

#[test]
fn one_file_is_one_object() {
    let mut objects = objects(16 * MIB);
    let first = objects.lend([1, 2], PAGE_BYTES).expect("room");
    assert_eq!(objects.lend([1, 2], PAGE_BYTES), Ok(first));
    assert_ne!(objects.lend([1, 3], PAGE_BYTES), Ok(first));
    assert_ne!(objects.lend([2, 2], PAGE_BYTES), Ok(first));
    assert_eq!(objects.file(first), Some([1, 2]));
}

#[test]
fn frames_stay_until_the_last_mapping_is_gone() {
    let mut objects = objects(16 * MIB);
    let id = objects.lend([1, 2], 4 * PAGE_BYTES).expect("room");
    objects.lend([1, 2], 2 * PAGE_BYTES).expect("room");
    let fresh = objects.extend(id, 0, 4 * PAGE_BYTES).expect("frames");
    assert_eq!(fresh.len(), 1, "adjacent frames are one piece");
    assert_eq!(objects.extend(id, 0, 2 * PAGE_BYTES), Ok(Vec::new()));
    assert_eq!(objects.end(id, 4 * PAGE_BYTES), None);
    assert_eq!(objects.pieces(id, 0, 4 * PAGE_BYTES), Ok(fresh.clone()));
    let dead = objects.end(id, 2 * PAGE_BYTES).expect("the last one");
    assert_eq!((&dead, objects.file(id)), (&fresh, None));
    assert_eq!(objects.used_bytes(), 4 * PAGE_BYTES, "until they are free");
    objects.retire(&dead);
    assert_eq!(
        (objects.retired(), objects.used_bytes()),
        (&dead[..], 4 * PAGE_BYTES)
    );
    objects.release(&dead);
    assert_eq!((objects.retired(), objects.used_bytes()), (&[][..], 0));
    let again = objects.lend([1, 2], PAGE_BYTES).expect("room");
    let fresh = objects.extend(again, 0, PAGE_BYTES).expect("frames");
    assert!(!fresh[0].zero, "what was used holds something");
}

/// What is shared without need leaves room for files, which have to be.
#[test]
fn half_of_the_pool_and_of_the_directory_can_be_left() {
    let mut objects = objects(16 * MIB);
    assert!(objects.leaves_half(8 * MIB) && !objects.leaves_half(8 * MIB + PAGE_BYTES));
    assert!(!objects.leaves_half(u64::MAX));
    let id = objects.lend([1, 2], 6 * MIB).expect("room");
    objects.extend(id, 0, 6 * MIB).expect("frames");
    assert!(objects.leaves_half(2 * MIB) && !objects.leaves_half(3 * MIB));
    for file in 0..MOST_PIECES as u64 / 2 - 1 {
        assert!(objects.leaves_half(PAGE_BYTES), "{file}");
        let id = objects.lend([2, file], PAGE_BYTES).expect("room");
        objects.extend(id, 0, PAGE_BYTES).expect("frames");
    }
    assert!(!objects.leaves_half(PAGE_BYTES));
}

#[test]
fn large_pages_are_used_where_they_fit() {
    let mut objects = objects(16 * MIB);
    let id = objects.lend([1, 2], 8 * MIB).expect("room");
    let fresh = objects.extend(id, MIB, 7 * MIB).expect("frames");
    let of_large = |piece: &Piece| {
        let lead = piece.offset.next_multiple_of(2 * MIB) - piece.offset;
        piece.len_bytes >= lead + 2 * MIB && (piece.pa + lead).is_aligned(2 * MIB)
    };
    assert!(fresh.iter().any(of_large), "{fresh:x?}");
}

#[test]
fn a_full_pool_changes_nothing() {
    let mut objects = objects(2 * MIB);
    let id = objects.lend([1, 2], 4 * MIB).expect("room");
    objects.extend(id, 0, MIB).expect("frames");
    assert_eq!(objects.extend(id, 0, 4 * MIB), Err(Errno::ENOMEM));
    assert_eq!(objects.used_bytes(), MIB);
    assert_eq!(objects.pieces(id, 0, 4 * MIB).expect("room").len(), 1);
}

#[test]
fn there_are_as_many_pieces_as_the_directory_has_places() {
    let mut objects = objects(64 * MIB);
    let id = objects.lend([1, 2], 4 * MIB).expect("room");
    let page = |n: usize| (n as u64 * 2 * PAGE_BYTES, (n as u64 * 2 + 1) * PAGE_BYTES);
    let mut slots = BTreeSet::new();
    for n in 0..MOST_PIECES {
        let (from, to) = page(n);
        let fresh = objects.extend(id, from, to).expect("a piece");
        slots.insert(fresh[0].slot);
    }
    assert_eq!(slots, (0..MOST_PIECES).collect());
    let used = objects.used_bytes();
    let (from, to) = page(MOST_PIECES);
    assert_eq!(objects.extend(id, from, to), Err(Errno::ENOMEM));
    assert_eq!(objects.used_bytes(), used);
}

#[test]
fn what_could_not_be_loaded_is_taken_back() {
    let mut objects = objects(16 * MIB);
    let id = objects.lend([1, 2], 4 * MIB).expect("room");
    objects.extend(id, 0, PAGE_BYTES).expect("frames");
    let fresh = objects.extend(id, 0, MIB).expect("frames");
    objects.retract(id, &fresh);
    give_back(&mut objects, &fresh);
    assert_eq!(objects.used_bytes(), PAGE_BYTES);
    assert_eq!(objects.pieces(id, 0, MIB).expect("room").len(), 1);
}

#[test]
fn numbers_that_are_no_objects_are_none() {
    let mut objects = objects(2 * MIB);
    for id in [0, 1, FIRST, FIRST + 9, u32::MAX] {
        assert_eq!((objects.file(id), objects.end(id, 1)), (None, None));
        assert_eq!(objects.extend(id, 0, PAGE_BYTES), Err(Errno::ENOMEM));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Map { file: u64, from: u64, pages: u64 },
    Unmap { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let map = (0..3u64, 0..700u64, 1..600u64);
    prop_oneof![
        3 => map.prop_map(|(file, from, pages)| Step::Map { file, from, pages }),
        2 => any::<usize>().prop_map(|which| Step::Unmap { which }),
    ]
}

proptest! {
    /// A page of a file has one frame, the same for all, as long as any of the file is mapped; no frame is two pages'.
    #[test]
    fn pages_have_frames_of_their_own(steps in prop::collection::vec(step(), 1..60)) {
        let mut objects = objects(4 * MIB);
        let mut mapped: Vec<(u64, u32, u64)> = Vec::new();
        let mut frames: BTreeMap<(u64, u64), Phys> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Map { file, from, pages } => {
                    let (from, to) = (from * PAGE_BYTES, (from + pages) * PAGE_BYTES);
                    let id = objects.lend([9, file], to - from).expect("room");
                    if objects.extend(id, from, to).is_err() {
                        if let Some(dead) = objects.end(id, to - from) {
                            give_back(&mut objects, &dead);
                        }
                        continue;
                    }
                    mapped.push((file, id, to - from));
                    let mut at = from;
                    for piece in objects.pieces(id, from, to).expect("room") {
                        prop_assert_eq!(piece.offset, at);
                        for page in (0..piece.len_bytes).step_by(PAGE_BYTES as usize) {
                            let frame = *frames.entry((file, at + page)).or_insert(piece.pa + page);
                            prop_assert_eq!(frame, piece.pa + page);
                        }
                        at = piece.end();
                    }
                    prop_assert_eq!(at, to);
                }
                Step::Unmap { which } => {
                    if mapped.is_empty() {
                        continue;
                    }
                    let (file, id, len) = mapped.swap_remove(which % mapped.len());
                    let last = !mapped.iter().any(|(other, ..)| *other == file);
                    let dead = objects.end(id, len);
                    prop_assert_eq!(dead.is_some(), last);
                    if let Some(dead) = dead {
                        give_back(&mut objects, &dead);
                        frames.retain(|(of, _), _| *of != file);
                    }
                }
            }
            let distinct: BTreeSet<Phys> = frames.values().copied().collect();
            prop_assert_eq!(distinct.len(), frames.len());
            prop_assert!(distinct.iter().all(|pa| (BASE..BASE + 4 * MIB).contains(pa)));
            prop_assert_eq!(objects.used_bytes(), frames.len() as u64 * PAGE_BYTES);
        }
    }
}

/// Text against a model: which rank maps which pages of which file.
mod text {
    use super::*;

    fn key(inode: u64, changed_ns: u64) -> TextKey {
        TextKey {
            file: [1, inode],
            changed_ns,
        }
    }

    /// As the kernel does it, with frames that hold the text at once.
    fn map(objects: &mut Objects, key: TextKey, from: u64, to: u64) -> Result<Vec<Piece>, Errno> {
        let fresh = objects.extend_text(key, from, to)?;
        objects.enter_text(key, &fresh)?;
        let text = objects.attach_text(key, from, to)?;
        let pieces = text.pieces().to_vec();
        text.pass_on();
        Ok(pieces)
    }

    fn unmap(objects: &mut Objects, pieces: &[Piece]) {
        for piece in pieces {
            objects.detach_text(TextLease::of(piece.run()));
        }
    }

    #[test]
    fn a_file_that_was_changed_is_another() {
        let mut objects = objects(16 * MIB);
        let first = map(&mut objects, key(2, 7), 0, MIB).expect("room");
        assert_eq!(map(&mut objects, key(2, 7), 0, MIB), Ok(first.clone()));
        let changed = map(&mut objects, key(2, 8), 0, MIB).expect("room");
        assert_ne!(changed, first);
        // Nor is it ever what ranks write to.
        let id = objects.lend([1, 2], MIB).expect("room");
        let written = objects.extend(id, 0, MIB).expect("room");
        assert!(written.iter().all(|piece| piece.pa != first[0].pa));
        assert_eq!(objects.used_bytes(), 3 * MIB);
    }

    #[test]
    fn it_stays_for_the_next_until_the_pool_is_short() {
        let mut objects = objects(16 * MIB);
        let first = map(&mut objects, key(2, 7), 0, MIB).expect("room");
        unmap(&mut objects, &first);
        assert_eq!(map(&mut objects, key(2, 7), 0, MIB), Ok(first.clone()));
        assert_eq!(objects.take_idle_text(), [], "it is mapped");
        unmap(&mut objects, &first);
        let idle = objects.take_idle_text();
        assert_eq!(idle, first);
        assert_eq!(objects.used_bytes(), MIB, "until no window reaches it");
        objects.free_text(&idle);
        assert_eq!(objects.used_bytes(), 0);
    }

    #[test]
    fn half_of_the_pool_is_for_what_ranks_write() {
        let mut objects = objects(16 * MIB);
        assert_eq!(
            objects.extend_text(key(2, 7), 0, 8 * MIB + PAGE_BYTES),
            Err(Errno::ENOMEM)
        );
        map(&mut objects, key(2, 7), 0, 8 * MIB).expect("room");
        assert_eq!(
            objects.extend_text(key(3, 7), 0, PAGE_BYTES),
            Err(Errno::ENOMEM)
        );
        let id = objects.lend([1, 2], 8 * MIB).expect("room");
        objects.extend(id, 0, 8 * MIB).expect("the other half");
    }

    #[test]
    fn text_needs_no_place_in_the_directory() {
        let mut objects = objects(16 * MIB);
        for i in 0..MOST_PIECES as u64 + 10 {
            map(&mut objects, key(i, 7), 0, PAGE_BYTES).expect("room");
        }
        let id = objects.lend([1, 2], PAGE_BYTES).expect("room");
        let fresh = objects.extend(id, 0, PAGE_BYTES).expect("a place");
        assert_eq!(fresh[0].slot, 0);
    }

    /// For each piece all pieces were looked at.
    #[test]
    fn pieces_are_found_without_a_search_through_the_others() {
        thread_local!(static WORK: Cell<u64> = const { Cell::new(0) });
        const PAGES: u64 = MOST_PIECES as u64 / 2;
        let point = |work: u32| WORK.set(WORK.get() + u64::from(work));
        let mut objects = Objects::new(PhysRange::new(BASE, 2 * PAGES * PAGE_BYTES), true, point)
            .expect("memory");
        // All frames go in turn to two files, of which one is let go.
        let files = [[1, 2], [1, 3]].map(|file| objects.lend(file, PAGE_BYTES).expect("room"));
        for from in (0..PAGES).map(|page| page * PAGE_BYTES) {
            for file in files {
                let end = from + PAGE_BYTES;
                objects.extend(file, from, end).expect("a frame");
            }
        }
        let pieces = objects.end(files[0], PAGE_BYTES).expect("the last one");
        give_back(&mut objects, &pieces);
        WORK.set(0);
        let pieces = map(&mut objects, key(2, 7), 0, PAGES * PAGE_BYTES).expect("room");
        assert_eq!(pieces.len() as u64, PAGES);
        unmap(&mut objects, &pieces);
        assert_eq!(objects.take_idle_text().len() as u64, PAGES);
        assert!(WORK.get() < 500 * PAGES, "{} instructions", WORK.get());
    }

    proptest! {
        #[test]
        fn agrees_with_a_model(
            ops in proptest::collection::vec((0..3u64, 0..40u64, 1..20u64, any::<bool>()), 1..60),
        ) {
            let mut objects = objects(2 * MIB);
            // What is mapped: file, range and frames; and where each page lies as long as it is mapped.
            let mut mapped: Vec<(u64, u64, Vec<Piece>)> = Vec::new();
            for (inode, first, pages, maps) in ops {
                if maps {
                    let (from, to) = (first * PAGE_BYTES, (first + pages) * PAGE_BYTES);
                    if let Ok(pieces) = map(&mut objects, key(inode, 0), from, to) {
                        let len: u64 = pieces.iter().map(|piece| piece.len_bytes).sum();
                        prop_assert_eq!((pieces[0].offset, len), (from, to - from));
                        mapped.push((inode, from, pieces));
                    }
                } else if let Some(index) = (first as usize).checked_rem(mapped.len()) {
                    let (_, _, pieces) = mapped.swap_remove(index);
                    unmap(&mut objects, &pieces);
                } else {
                    let idle = objects.take_idle_text();
                    objects.free_text(&idle);
                    prop_assert_eq!(objects.used_bytes(), 0);
                }
                let mut frames = BTreeMap::new();
                for (inode, _, pieces) in &mapped {
                    for piece in pieces {
                        for at in (0..piece.len_bytes).step_by(PAGE_BYTES as usize) {
                            let page = (*inode, piece.offset + at);
                            let other = frames.insert(piece.pa + at, page);
                            prop_assert!(other.is_none_or(|other| other == page));
                        }
                    }
                }
                let pages: BTreeSet<_> = frames.values().collect();
                prop_assert_eq!(pages.len(), frames.len(), "a page lies in one frame");
                let idle = objects.take_idle_text();
                let reached = |piece: &Piece| frames.range(piece.pa..piece.pa + piece.len_bytes).count();
                prop_assert!(idle.iter().all(|piece| reached(piece) == 0));
                objects.free_text(&idle);
            }
        }
    }
}

thread_local! {
    static POINTS: Cell<u32> = const { Cell::new(0) };
}

/// With interrupts off each of many objects was looked at, and each piece that became free was sought among all.
#[test]
fn going_over_all_of_them_takes_the_preemption_point() {
    const FILES: u64 = 500;
    let points = |work: &mut dyn FnMut()| {
        POINTS.set(0);
        work();
        POINTS.get()
    };
    let mut objects = Objects::new(PhysRange::new(BASE, 16 * MIB), true, |_| {
        POINTS.set(POINTS.get() + 1)
    })
    .expect("memory for its records");
    let mut dead = Vec::new();
    for file in 0..FILES {
        let id = objects.lend([1, file], PAGE_BYTES).expect("room");
        objects.extend(id, 0, PAGE_BYTES).expect("frames");
    }
    let look = points(&mut || _ = objects.lend([2, 0], 0).expect("room"));
    assert!(look >= 2 * FILES as u32, "{look}");
    for id in FIRST..FIRST + FILES as u32 {
        dead.extend(objects.end(id, PAGE_BYTES).expect("the last"));
    }
    assert_eq!(dead.len(), FILES as usize);
    objects.retire(&dead);
    dead.retain(|piece| piece.offset == 0 && piece.slot % 3 != 0);
    let release = points(&mut || objects.release(&dead));
    assert!(release >= FILES as u32, "{release}");
    assert_eq!(objects.retired().len(), FILES as usize - dead.len());
    assert_eq!(
        objects.used_bytes(),
        objects.retired().len() as u64 * PAGE_BYTES
    );
}

#[test]
#[should_panic(expected = "another order")]
fn what_was_not_retired_does_not_become_free() {
    let mut objects = objects(16 * MIB);
    let id = objects.lend([1, 2], PAGE_BYTES).expect("room");
    let fresh = objects.extend(id, 0, PAGE_BYTES).expect("frames");
    objects.release(&fresh);
}

/// What is lent and not mapped would stay for ever.
#[test]
#[should_panic(expected = "was not given back")]
#[cfg(debug_assertions)]
fn a_lease_that_is_lost_is_noticed() {
    let mut objects = objects(16 * MIB);
    let _ = objects.attach([1, 2], PAGE_BYTES);
}
