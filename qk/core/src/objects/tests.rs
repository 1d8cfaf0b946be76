//! Objects against a model: a map from pages of files to frames.

mod text;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread_local;

use proptest::prelude::*;

use super::*;
use crate::page::PAGE_BYTES;
use abi::addr::Phys;

const BASE: Phys = Phys(0x4000_0000);
const MIB: u64 = 1 << 20;
const RANK: usize = 3;

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
        let mut lease = self.attach(file, RANK, len_bytes)?;
        lease.pass_on(len_bytes);
        Ok(lease.object())
    }

    /// So much of what was lent is mapped no more.
    fn end(&mut self, id: u32, len_bytes: u64) -> Option<Vec<Piece>> {
        self.detach(Lease::new(id, len_bytes), RANK)?.dead
    }

    /// The number of a file's object.
    pub fn id_of(&self, file: File) -> Option<u32> {
        self.objects.number_of(file).map(|number| FIRST + number)
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
        (objects.retired().expect("memory"), objects.used_bytes()),
        (dead.clone(), 4 * PAGE_BYTES)
    );
    objects.release(&dead);
    assert_eq!(
        (objects.retired().expect("memory"), objects.used_bytes()),
        (Vec::new(), 0)
    );
    let again = objects.lend([1, 2], PAGE_BYTES).expect("room");
    let fresh = objects.extend(again, 0, PAGE_BYTES).expect("frames");
    assert!(!fresh[0].zero, "what was used holds something");
}

/// A piece of frames of which only some are known to hold zeros is not known to: taken for zeros it would show a mapping the bytes of
/// another, which no test had noticed.
#[test]
fn joined_frames_hold_zeros_only_if_all_of_them_do() {
    for used in 0..3 {
        let mut objects = objects(2 * MIB);
        let frames = [0, 1, 2].map(|file| {
            let id = objects.lend([1, file], PAGE_BYTES).expect("room");
            let frame = objects.extend(id, 0, PAGE_BYTES).expect("a frame");
            objects.end(id, PAGE_BYTES).expect("the last one")[0].clip(0, frame[0].len_bytes)
        });
        for (file, frame) in frames.iter().enumerate() {
            let is_zero = file != used;
            let freed = objects.frames.free_range(frame.pa, PAGE_BYTES, is_zero);
            freed.expect("in use");
        }
        let id = objects.lend([2, 1], 8 * PAGE_BYTES).expect("room");
        let fresh = objects.extend(id, 0, 8 * PAGE_BYTES).expect("frames");
        let used = frames[used].pa;
        let is_of = |piece: &&Piece| piece.pa <= used && used < piece.pa + piece.len_bytes;
        let again = fresh.iter().find(is_of);
        assert!(!again.expect("it is used again").zero, "{fresh:x?}");
    }
}

/// What is shared without need leaves room for files, which have to be.
#[test]
fn half_of_the_pool_can_be_left() {
    let mut objects = objects(16 * MIB);
    assert!(objects.leaves_half(8 * MIB) && !objects.leaves_half(8 * MIB + PAGE_BYTES));
    assert!(!objects.leaves_half(u64::MAX));
    let id = objects.lend([1, 2], 6 * MIB).expect("room");
    objects.extend(id, 0, 6 * MIB).expect("frames");
    assert!(objects.leaves_half(2 * MIB) && !objects.leaves_half(3 * MIB));
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

/// However many pieces there are, and whatever has become of others before: there is room for all of them when they are retired, where
/// no error could be returned.
#[test]
fn all_pieces_can_be_retired() {
    const PAGES: u64 = 1000;
    let mut objects = objects(16 * MIB);
    for _ in 0..3 {
        let ids = [1, 2].map(|file| objects.lend([1, file], PAGE_BYTES).expect("room"));
        for page in 0..PAGES {
            for id in ids {
                let fresh = objects.extend(id, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
                fresh.expect("a piece");
            }
        }
        let dead = ids.map(|id| objects.end(id, PAGE_BYTES).expect("the last one"));
        let count: usize = dead.iter().map(Vec::len).sum();
        assert_eq!(count as u64, 2 * PAGES);
        assert!(objects.retired.capacity() >= count);
        dead.iter().for_each(|dead| objects.retire(dead));
        assert_eq!(objects.retired().expect("memory").len(), count);
        dead.iter().for_each(|dead| objects.release(dead));
        assert_eq!((objects.live, objects.used_bytes()), (0, 0));
    }
}

/// What is laid to be read has to be laid anew to be written to.
#[test]
fn it_is_known_how_a_file_is_laid() {
    let mut objects = objects(16 * MIB);
    let id = objects.lend([1, 2], MIB).expect("room");
    let laid = |objects: &Objects| {
        let pieces = objects.pieces(id, 0, MIB).expect("room");
        pieces.iter().map(|piece| piece.laid).collect::<Vec<_>>()
    };
    objects.extend(id, 0, PAGE_BYTES).expect("frames");
    objects.note_laid(id, 0, PAGE_BYTES, Laid::ToWrite);
    objects.extend(id, 2 * PAGE_BYTES, MIB).expect("frames");
    objects.extend(id, 0, MIB).expect("frames");
    assert_eq!(laid(&objects), [Laid::ToWrite, Laid::No, Laid::No]);
    objects.note_laid(id, 0, 2 * PAGE_BYTES, Laid::ToRead);
    assert_eq!(laid(&objects), [Laid::ToWrite, Laid::ToRead, Laid::No]);
    objects.note_laid(id + 1, 0, MIB, Laid::ToWrite);
    assert_eq!(laid(&objects)[2], Laid::No);
}

#[test]
fn what_could_not_be_laid_is_taken_back() {
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
                        let piece = piece.clip(from, to);
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

thread_local! {
    static POINTS: Cell<u32> = const { Cell::new(0) };
}

/// With interrupts off each piece that became free was sought among all.
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
    for id in FIRST..FIRST + FILES as u32 {
        dead.extend(objects.end(id, PAGE_BYTES).expect("the last"));
    }
    assert_eq!(dead.len(), FILES as usize);
    objects.retire(&dead);
    dead.retain(|piece| !(piece.pa.0 / PAGE_BYTES).is_multiple_of(3));
    let release = points(&mut || objects.release(&dead));
    assert!(release >= FILES as u32, "{release}");
    assert_eq!(
        objects.retired().expect("memory").len(),
        FILES as usize - dead.len()
    );
    assert_eq!(
        objects.used_bytes(),
        objects.retired().expect("memory").len() as u64 * PAGE_BYTES
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

/// Its proxy closes the file with it, and the frames come back with the last of all.
#[test]
fn each_rank_has_a_last_mapping() {
    let mut objects = objects(16 * MIB);
    let mut lend = |rank, pages| {
        let mut lease = objects
            .attach([1, 2], rank, pages * PAGE_BYTES)
            .expect("room");
        lease.pass_on(pages * PAGE_BYTES);
        lease.object()
    };
    let id = lend(1, 2);
    assert_eq!([lend(2, 3), lend(1, 1)], [id; 2]);
    objects.extend(id, 0, 3 * PAGE_BYTES).expect("frames");
    assert_eq!(objects.attachments([1, 2]), 2 + 1);
    let mut end = |rank, pages| {
        let left = objects.detach(Lease::new(id, pages * PAGE_BYTES), rank);
        let left = left.expect("it is there");
        let held = objects.is_held(left.file, rank);
        (left.last, held, left.dead.is_some())
    };
    assert_eq!(end(1, 1), (false, true, false));
    assert_eq!(end(1, 2), (true, false, false));
    assert_eq!(end(2, 1), (false, true, false));
    assert_eq!(end(2, 2), (true, false, true));
    assert_eq!(objects.attachments([1, 2]), 0);
}

/// What is lent and not mapped would stay for ever.
#[test]
#[should_panic(expected = "was not given back")]
#[cfg(debug_assertions)]
fn a_lease_that_is_lost_is_noticed() {
    let mut objects = objects(16 * MIB);
    let _ = objects.attach([1, 2], RANK, PAGE_BYTES);
}
