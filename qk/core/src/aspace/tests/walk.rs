//! Walks over bytes, page by page.

use super::*;

/// Where each page of a walk lies in the partition, how far it is from the start, and how much of it.
fn walked(a: &mut Aspace<Node>, start: Va, len: u64, written: bool) -> Vec<[u64; 3]> {
    let mut pages = Vec::new();
    let walk = a.each_page(start, len, written, |pa, done, len| {
        pages.push([pa.0 - PARTITION, done, len]);
        Ok(())
    });
    assert_eq!(walk, Ok(()));
    pages
}

/// The pages are shown in pieces, of a large page too; what is written to is dirty, also where the program may not write.
#[test]
fn a_walk_shows_pages_and_notes_what_is_written() {
    let mut a = space(2048);
    a.mmap(A, 512, RW, FIXED).unwrap();
    a.mmap(A + M2, 1, READ_EXEC, FIXED).unwrap();
    let dirty = |a: &mut Aspace<Node>, va| {
        let (tables, root) = a.tables();
        paging::translate(&tables, root, va).unwrap().dirty
    };
    let last = (A + M2).before(P);
    let pages = walked(&mut a, last + 5, P, false);
    let large = pages[0][0] & !(M2 - 1);
    assert_eq!(pages[0], [large + M2 - P + 5, 0, P - 5]);
    assert_eq!(pages[1][1..], [P - 5, 5]);
    assert!(!dirty(&mut a, last) && !dirty(&mut a, A + M2));
    assert_eq!(walked(&mut a, last + 5, P, true), pages);
    assert!(dirty(&mut a, last) && dirty(&mut a, A + M2));
    assert_eq!(walked(&mut a, A, 0, true), [[0; 3]; 0]);
}

/// A walk ends where nothing is mapped, and none begins that leaves a program's addresses: 2^39 further on is the same entry.
#[test]
fn a_walk_stays_in_what_is_mapped() {
    let mut a = space(64);
    a.mmap(A, 2, RW, FIXED).unwrap();
    let mut walk = |start, len| {
        let mut pages = 0;
        let result = a.each_page(start, len, true, |_, _, _| {
            pages += 1;
            Ok(())
        });
        (result, pages)
    };
    assert_eq!(walk(A + P, 2 * P), (Err(Errno::EFAULT), 1));
    assert_eq!(walk(A + USER_TOP, P), (Err(Errno::EFAULT), 0));
    assert_eq!(walk(A, u64::MAX), (Err(Errno::EFAULT), 0));
}

/// What a call names is accessible as a whole or not at all: with a hole, a page without the access or one that no file has it is not.
#[test]
fn a_range_is_allowed_as_a_whole() {
    let mut a = space(64);
    a.mmap(A, 2, RW, FIXED).unwrap();
    a.mmap(A + 2 * P, 1, 1, FIXED).unwrap();
    a.mmap(A + 3 * P, 1, 0, FIXED).unwrap();
    let mut behind = Region::new(VaRange::new(A + 5 * P, P), Prot::READ, Kind::File);
    behind.flags |= RegionFlags::PAST_END;
    a.map_new(behind).unwrap();
    for (first, bytes, read, write) in [
        (0, 2 * P, true, true),
        (1, 2 * P, true, false),
        (1, 3 * P, false, false),
        (3, 1, false, false),
        (4, 1, false, false),
        (5, 1, false, false),
        (9, 0, true, true),
    ] {
        let range = VaRange::new(A + first * P, bytes);
        let allowed = [false, true].map(|written| a.allows(range, written));
        assert_eq!(allowed, [read, write], "{bytes} bytes of page {first}");
    }
    assert!(a.allows(VaRange::new((A + 2 * P).before(1), 2), false));
    assert!(!a.allows(VaRange::new(A.before(1), 2), false));
}
