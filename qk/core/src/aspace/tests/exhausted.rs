//! Changes that find no frame, table or room for a region when they are half done.

use super::text::{pieces, region, value};
use super::*;
use crate::mman::RemapPlan;

/// Pages below the border of two tables, and above it.
const LARGE: u64 = 3 * 512;
const SMALL: u64 = 511;

/// Leaves one page table, and none of those that are set aside for borders.
fn leave_one(a: &mut Aspace<Node>) {
    let own = A + (2 << 30);
    a.mmap(own, 2 * 512, RW, FIXED).unwrap();
    a.pool.leave(0);
    // Two splits take the tables that are set aside.
    a.mprotect(own, 1, 1).unwrap();
    a.mprotect(own + M2, 1, 1).unwrap();
    a.pool.leave(1);
}

/// Undoing it split a large page for which no table was set aside: the kernel panicked.
#[test]
fn an_mprotect_that_finds_no_table_half_way_changes_nothing() {
    let mut a = space(6000);
    // Below the border one table is enough for large pages; above it there is none.
    let border = A;
    let reserved = border.before(LARGE * P);
    a.mmap(reserved, LARGE + SMALL, 0, FIXED).unwrap();
    let used = a.usage().used;
    leave_one(&mut a);
    let changed = a.mprotect(reserved, LARGE + SMALL, RW);
    assert_eq!(changed, Err(Errno::ENOMEM));
    assert_eq!((a.read(reserved), a.read(border)), (None, None));
    a.check();
    // What was taken is there again.
    Node.sync();
    a.reclaim();
    assert_eq!(a.usage().used, used + 2 * 512 * P);
    a.check();
}

/// What a page holds, whether it may be read or not.
fn held(a: &mut Aspace<Node>, va: Va) -> Option<u64> {
    let (tables, root) = a.tables();
    paging::translate(&tables, root, va).map(|t| Node::load(t.pa.align_down(P)))
}

/// Nothing but what was added is taken back: not text and files that ranks share, nor what the program has stored, all of
/// which look like reservations while they may not be read.
#[test]
fn what_was_there_survives_an_mprotect_that_fails() {
    let mut a = space(6000);
    a.show_text(region(0, 4), pieces(0, 4)).unwrap();
    let file = A + 4 * P;
    a.show_file(file, [0, 4], 4).unwrap();
    let stored = A + 8 * P;
    a.mmap(stored, 1, RW, FIXED).unwrap();
    assert!(a.write(file, 5) && a.write(stored, 6));
    a.mprotect(A, 9, 0).unwrap();
    let below = A.before(LARGE * P);
    a.mmap(below, LARGE, 0, FIXED).unwrap();
    a.mmap(A + 9 * P, LARGE, 0, FIXED).unwrap();
    leave_one(&mut a);
    let before = [0, 3, 4, 7, 8].map(|page| held(&mut a, A + page * P));
    assert_eq!(
        before,
        [
            Some(value(0)),
            Some(value(3)),
            Some(5),
            Some(super::lender::in_file(3)),
            Some(6)
        ]
    );
    assert_eq!(a.mprotect(below, 2 * LARGE, 1), Err(Errno::ENOMEM));
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
    let to = (A + M2).before(2 * P);
    a.mmap(to.before(P), 1, RW, FIXED).unwrap();
    let from = a.mmap(Va(0), 4, RW, 0).unwrap();
    assert!(a.write(from, 1));
    a.pool.leave(0);
    assert_eq!(a.mremap(from, 4, 4, Some(to)), Err(Errno::ENOMEM));
    // Nothing was there but what was shown half way.
    assert_eq!(Node::flushes_of(VaRange::new(to, 4 * P)), 1);
    assert_eq!((a.read(from), a.read(to)), (Some(1), None));
    a.check();
}

/// The same of shared frames, a run of them that two tables translate: that it is not dropped no test had noticed.
#[test]
fn shared_frames_that_find_no_table_half_way_leave_no_translation() {
    const PAGES: u64 = 512;
    let mut a = space(3000);
    let start = (A + M2).before(4 * P);
    // Of the two tables there is the first.
    a.mmap(start.before(P), 1, RW, FIXED).unwrap();
    a.pool.leave(0);
    let text = Region {
        start,
        end: start + PAGES * P,
        ..region(0, PAGES)
    };
    let shown = a.show_text(text, pieces(0, PAGES));
    assert_eq!(shown, Err(Errno::ENOMEM));
    assert_eq!(Node::flushes_of((start + P).until(text.end)), 1);
    assert_eq!((a.read(start), a.read(A + M2)), (None, None));
    a.check();
}

/// A mapping that moves and leaves its addresses mapped (MREMAP_DONTUNMAP) had moved when there was no table for what is left,
/// which had no large page any more.
#[test]
fn a_move_that_leaves_its_place_mapped_has_tables_for_both() {
    let mut a = space(3 * 512);
    let from = A + (4 << 30);
    a.mmap(from, 512, RW, FIXED).unwrap();
    assert!(a.write(from, 1));
    // No large page is left.
    let apart = a.mmap(Va(0), 1024, RW, 0x20000).unwrap();
    a.munmap(apart + P, 1022).unwrap();
    Node.sync();
    let to = A + P;
    let plan = RemapPlan::Move {
        to,
        from: VaRange::new(from, M2),
        more: None,
        replace: None,
        trim: None,
        keep_old: true,
    };
    for left in 0..16 {
        a.pool.leave(left);
        let moved = a.remap(&plan).is_ok();
        let expected = match moved {
            true => (Some(0), Some(1)),
            false => (Some(1), None),
        };
        assert_eq!((a.read(from), a.read(to)), expected, "{left} left");
        a.check();
        if moved {
            return;
        }
    }
    panic!("sixteen tables are more than it takes");
}

/// A move cuts what it replaces, what it leaves and what it drops. With room for one region more, what lay at the destination would be
/// gone before it fails.
#[test]
fn a_move_has_room_for_all_that_it_cuts_or_changes_nothing() {
    for capacity in 3..9 {
        Node::reset();
        let memory = Memory {
            partition: PhysRange::new(Phys(PARTITION), 64 * P),
            tables: PhysRange::new(Phys(TABLES), 1000 * P),
            zeroed: true,
        };
        let mut a = Aspace::new(Node, memory, capacity, 1000).unwrap();
        let there = A + 8 * M2;
        a.mmap(A, 8, RW, FIXED).unwrap();
        a.mmap(there, 8, RW, FIXED).unwrap();
        assert!(a.write(A + 2 * P, 1) && a.write(there + 3 * P, 2));
        let seen = |a: &mut Aspace<Node>| {
            let pages = [A + 2 * P, A + 4 * P, there + 3 * P];
            (a.regions().iter().count(), pages.map(|page| a.read(page)))
        };
        let before = seen(&mut a);
        let moved = a.mremap(A + 2 * P, 3, 2, Some(there + 3 * P));
        match moved {
            Ok(_) => assert_eq!(seen(&mut a), (3, [None, None, Some(1)])),
            Err(errno) => assert_eq!((errno, seen(&mut a)), (Errno::ENOMEM, before)),
        }
        assert!(moved.is_ok() || capacity < 6, "room for {capacity}");
        a.check();
    }
}
