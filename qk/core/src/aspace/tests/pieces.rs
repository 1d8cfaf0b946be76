//! How many mappings the proxy needs.

use super::*;
use crate::mman::RemapPlan;

/// Each page became a mapping of its own, and the proxy died of its 65,531st: two threads of glibc's malloc do this.
#[test]
fn reservations_that_grow_in_turns_do_not_scatter() {
    for growing in [2, 7] {
        let pages = 3000;
        let mut a = space(growing * pages + 2000);
        let at = |i: u64| A + i * 64 * M2;
        for i in 0..growing {
            a.mmap(at(i), pages, 0, FIXED).unwrap();
        }
        for page in 0..pages {
            for i in 0..growing {
                a.mprotect(at(i) + page * P, 1, RW).unwrap();
            }
        }
        let pieces = a.count_pieces() as u64;
        assert!(pieces < growing * pages / 100, "{pieces} of {growing}");
        a.check();
    }
}

/// Mappings follow each other downwards, and took frames upwards.
#[test]
fn mappings_that_follow_each_other_do_not_scatter() {
    let mut a = space(60_000);
    a.set_heap(A);
    let mut heap = A;
    for _ in 0..700 {
        a.mmap(Va(0), 33, RW, 0).unwrap();
        heap += 33 * P;
        assert_eq!(a.done(|a| a.brk(heap, u64::MAX)), Ok(heap));
    }
    assert!(a.count_pieces() < 150, "{}", a.count_pieces());
    a.check();
}

/// What would need too many is refused, with everything as it was, and can be had when others are gone.
#[test]
fn too_many_pieces_are_refused() {
    let mut a = space_with(8000, 1000, 200);
    a.mmap(A, 1000, RW, FIXED).unwrap();
    a.mmap(A + 4 * M2, 1000, RW, FIXED).unwrap();
    let mut refused = 0;
    for i in 0..1000 {
        let from = A + i * P;
        assert!(a.write(from, i + 1));
        let to = A + 4 * M2 + (i * 7 % 1000) * P;
        match a.mremap(from, 1, 1, Some(to)) {
            Ok(_) => assert_eq!((a.read(from), a.read(to)), (None, Some(i + 1))),
            Err(errno) => {
                assert_eq!(errno, Errno::ENOMEM);
                assert_eq!(a.read(from), Some(i + 1));
                refused += 1;
            }
        }
        a.check_pieces();
    }
    assert!(refused > 500, "{refused}");
    assert!(a.count_pieces() <= 200 + 4);
    let mut more = (20..24).map(|i| a.mmap(A + 2 * i * M2, 1, RW, FIXED));
    assert!(more.any(|mapped| mapped == Err(Errno::ENOMEM)));
    a.munmap(A + 4 * M2, 1000).unwrap();
    a.mmap(A + 60 * M2, 1, RW, FIXED).unwrap();
    a.check();
}

/// What moves is cut out of a piece, and lies between two holes: the proxy has four pieces and holes more.
#[test]
fn a_move_counts_all_pieces_that_it_makes() {
    let mut a = space_with(100, 1000, 200);
    a.mmap(A, 8, RW, FIXED).unwrap();
    // Refused after a new count, so the bound is what there is.
    assert_eq!(a.add_pieces(200), Err(OutOfMemory));
    let plan = RemapPlan::Move {
        to: A + M2,
        from: VaRange::new(A + 3 * P, 2 * P),
        more: None,
        replace: None,
        trim: None,
        keep_old: false,
    };
    let before = a.count_pieces();
    assert_eq!(a.done(|a| a.remap(&plan)), Ok(A + M2));
    assert_eq!(a.count_pieces(), before + 4);
    a.check();
}
