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
