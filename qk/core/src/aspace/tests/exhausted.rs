//! Changes that find neither frame nor table when they are half done.

use super::text::{pieces, region, value};
use super::*;

/// Pages below the border of two tables, which need tables of their own, and above it, which have one.
const LARGE: u64 = 3 * 512;
const SMALL: u64 = 511;

/// Takes every frame that is left.
fn fill(a: &mut Aspace<Node>) {
    for pages in [512, 64, 8, 1] {
        while a.mmap(0, pages, RW, 0).is_ok() {}
    }
    Node.sync();
    a.reclaim();
    while a.mmap(0, 1, RW, 0).is_ok() {}
}

/// Leaves so many pages free and none that a table could be made of: what was set aside for tables is taken as well.
fn leave(a: &mut Aspace<Node>, pages: u64) {
    let own = A + (2 << 30);
    a.mmap(own, 2 * 512 + LARGE, RW, FIXED).unwrap();
    let small = own + (2 * 512 + LARGE) * P;
    a.mmap(small, 256, RW, FIXED).unwrap();
    a.mmap(small + 256 * P, 256, RW, FIXED).unwrap();
    fill(a);
    // Two splits take the tables that are set aside.
    a.mprotect(own, 1, 1).unwrap();
    a.mprotect(own + M2, 1, 1).unwrap();
    a.munmap(own + 2 * M2, pages).unwrap();
}

/// Undoing it split a large page for which no table was set aside: the kernel panicked.
#[test]
fn an_mprotect_that_finds_no_table_half_way_changes_nothing() {
    let mut a = space(6000);
    // Below the border there are no tables yet, above it there are all.
    let border = A;
    let reserved = border - LARGE * P;
    a.mmap(border + SMALL * P, 1, RW, FIXED).unwrap();
    a.mmap(reserved, LARGE + SMALL, 0, FIXED).unwrap();
    leave(&mut a, LARGE + SMALL);
    let changed = a.mprotect(reserved, LARGE + SMALL, RW);
    assert_eq!(changed, Err(Errno::ENOMEM));
    assert_eq!((a.read(reserved), a.read(border)), (None, None));
    a.check();
    // What was freed is there again.
    Node.sync();
    a.reclaim();
    a.mmap(0, LARGE + SMALL - 8, RW, 0).unwrap();
    a.check();
}

/// What a page holds, whether it may be read or not.
fn held(a: &mut Aspace<Node>, va: u64) -> Option<u64> {
    let (tables, root) = a.tables();
    paging::translate(&tables, root, va).map(|t| Node::load(page_floor(t.pa)))
}

/// Nothing but what was added is taken back: not text and files that ranks share, nor what the program has stored, all of
/// which look like reservations while they may not be read.
#[test]
fn what_was_there_survives_an_mprotect_that_fails() {
    let mut a = space(6000);
    a.map_text(region(0, 4), &pieces(0, 4)).unwrap();
    let file = A + 4 * P;
    let shared = Region {
        object: crate::objects::FIRST,
        flags: RegionFlags::SHARED,
        ..Region::new(file, file + 4 * P, Prot::READ | Prot::WRITE, Kind::File)
    };
    let piece = crate::objects::Piece {
        offset: 0,
        len_bytes: 4 * P,
        pa: CLOCK + P,
        zero: false,
        slot: crate::objects::MOST_PIECES,
    };
    a.map_shared(shared, &[piece]).unwrap();
    let stored = A + 8 * P;
    a.mmap(stored, 1, RW, FIXED).unwrap();
    assert!(a.write(file, 5) && a.write(stored, 6));
    a.mprotect(A, 9, 0).unwrap();
    let below = A - LARGE * P;
    a.mmap(below, LARGE, 0, FIXED).unwrap();
    a.mmap(A + 9 * P, SMALL - 9, 0, FIXED).unwrap();
    a.mmap(A + SMALL * P, 1, RW, FIXED).unwrap();
    leave(&mut a, LARGE + SMALL - 9);
    let before = [0, 3, 4, 7, 8].map(|page| held(&mut a, A + page * P));
    assert_eq!(
        before,
        [Some(value(0)), Some(value(3)), Some(5), Some(0), Some(6)]
    );
    assert_eq!(a.mprotect(below, LARGE + SMALL, 1), Err(Errno::ENOMEM));
    assert_eq!(
        before,
        [0, 3, 4, 7, 8].map(|page| held(&mut a, A + page * P))
    );
    assert_eq!((held(&mut a, below), held(&mut a, A + 9 * P)), (None, None));
    a.check();
}

/// The frames were shown at the new place until a table was missing. A thread that had used them there went on to, when they
/// had long been others'.
#[test]
fn a_move_that_finds_no_table_half_way_leaves_no_translation() {
    let mut a = space(3000);
    // Of the new place's two tables there is the first.
    let to = A + M2 - 2 * P;
    a.mmap(to - P, 1, RW, FIXED).unwrap();
    let from = a.mmap(0, 4, RW, 0).unwrap();
    assert!(a.write(from, 1));
    fill(&mut a);
    assert_eq!(a.mremap(from, 4, 4, Some(to)), Err(Errno::ENOMEM));
    // When what was there went, and when what was shown there did.
    assert_eq!(Node::flushes_of(to, to + 4 * P), 2);
    assert_eq!((a.read(from), a.read(to)), (Some(1), None));
    a.check();
}
