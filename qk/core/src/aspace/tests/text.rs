//! Text that ranks share. [`Node::store`] asserts that its frames are never written to.

use super::lender::POOL;
use super::*;
use crate::objects::Piece;
use abi::addr::Phys;

pub fn at(page: u64) -> Va {
    A + page * P
}

/// What page `page` of the file holds.
pub fn value(page: u64) -> u64 {
    page + 1000
}

/// Pages `first .. first + pages` of the file, mapped as far behind [`A`] as they lie in it.
pub fn region(first: u64, pages: u64) -> Region {
    Region {
        offset: first * P,
        object: 1,
        flags: RegionFlags::UNWRITTEN,
        ..Region::new(at(first).until(at(first + pages)), Prot::READ, Kind::File)
    }
}

/// Its frames, in two pieces.
pub fn pieces(first: u64, pages: u64) -> Vec<Piece> {
    let piece = |first: u64, pages: u64| {
        for page in first..first + pages {
            Node::make_text(POOL + page * P, value(page));
        }
        Piece {
            offset: first * P,
            len_bytes: pages * P,
            pa: Phys(POOL + first * P),
            zero: false,
            laid: crate::objects::Laid::No,
            is_lost: false,
        }
    };
    match pages {
        1 => std::vec![piece(first, 1)],
        _ => std::vec![piece(first, 1), piece(first + 1, pages - 1)],
    }
}

impl Aspace<Node> {
    /// Gives a range frames of the rank's own; how many bytes of text it had.
    pub fn own_all(&mut self, addr: Va, pages: u64) -> Result<u64, Errno> {
        let before = lent_bytes();
        self.done(|a| a.own(VaRange::new(addr, pages * P)))?;
        Ok(before - lent_bytes())
    }
}

/// Bytes of text that are lent.
fn lent_bytes() -> u64 {
    machine::with(|s| s.lent_text.len()) as u64 * P
}

fn with_text(pages: u64) -> Aspace<Node> {
    let mut a = space(2048);
    a.show_text(region(0, pages), pieces(0, pages)).unwrap();
    a
}

#[test]
fn text_takes_nothing_of_the_partition_but_tables() {
    let mut a = space(2048);
    a.mmap(A.before(M2), 1, RW, FIXED).unwrap();
    let before = a.usage().used;
    a.show_text(region(0, 600), pieces(0, 600)).unwrap();
    assert!(a.usage().used < before + 10 * P);
    assert_eq!(a.read(at(599)), Some(value(599)));
    assert!(!a.write(at(599), 7));
    Node.sync();
    assert_eq!(Node::shown()[&at(1)], (POOL + P, false));
    a.check();
}

/// Write access to a part of it copies that part; the rest, and the frames, stay what they are.
#[test]
fn what_is_to_be_written_is_copied_before() {
    let mut a = with_text(600);
    a.mprotect(at(3), 2, RW).unwrap();
    assert_eq!(lent_bytes(), 598 * P);
    assert!(a.write(at(3), 7) && !a.write(at(2), 7));
    let all = [2, 3, 4, 5].map(|page| a.read(at(page)));
    assert_eq!(all, [value(2), 7, value(4), value(5)].map(Some));
    assert_eq!(Node::load(Phys(POOL + 3 * P)), value(3));
    Node.sync();
    assert_eq!(Node::shown()[&at(2)], (POOL + 2 * P, false));
    assert!((PARTITION..PARTITION + 2048 * P).contains(&Node::shown()[&at(3)].0));
    a.check();
}

/// In the lower half of the addresses, where programs lie, in the upper half, as their libraries, and across the middle.
#[test]
fn text_is_found_wherever_it_lies() {
    let (middle, top) = (Va(USER_TOP / 2), Va(USER_TOP));
    for starts in [
        [A, top.before(64 * P)],
        [middle.before(P), middle + 64 * P],
        [top.before(64 * P), top.before(128 * P)],
        [A + 64 * P, A],
    ] {
        let mut a = space(2048);
        for (start, first) in starts.into_iter().zip([0, 8]) {
            let there = Region {
                start,
                end: start + 4 * P,
                ..region(first, 4)
            };
            a.show_text(there, pieces(first, 4)).unwrap();
        }
        for start in starts {
            assert_eq!(
                a.text(start.before(P).until(start + P)).unwrap().start,
                start
            );
            assert_eq!(a.text(VaRange::new(start + 4 * P, P)), None);
            assert_eq!(a.own_all(start + 2 * P, 8), Ok(2 * P));
            a.mprotect(start + 3 * P, 1, RW).unwrap();
        }
        a.check();
    }
}

/// A peer that has used a window on the rank finds what the rank has written in its copy.
#[test]
fn peers_see_the_copy() {
    let mut a = with_text(4);
    assert_eq!(a.seen_by_peer(at(1)), Some((Phys(POOL + P), Prot::READ)));
    a.own_all(at(1), 1).unwrap();
    let (copy, prot) = a.seen_by_peer(at(1)).unwrap();
    assert_ne!(copy, Phys(POOL + P));
    assert_eq!((Node::load(copy), prot), (value(1), Prot::READ));
    a.mprotect(at(1), 1, RW).unwrap();
    assert_eq!(
        a.seen_by_peer(at(1)),
        Some((copy, Prot::READ | Prot::WRITE))
    );
    assert!(a.write(at(1), 7));
    assert_eq!(Node::load(copy), 7);
}

#[test]
fn without_memory_for_the_copy_nothing_changes() {
    let mut a = space(24);
    a.show_text(region(0, 64), pieces(0, 64)).unwrap();
    let used = a.usage().used;
    assert_eq!(a.own_all(at(0), 64), Err(Errno::ENOMEM));
    assert_eq!(a.usage().used, used);
    let all: Vec<_> = (0..64).map(|page| a.read(at(page))).collect();
    assert_eq!(
        all,
        (0..64).map(|page| Some(value(page))).collect::<Vec<_>>()
    );
    a.check();
    a.munmap(at(0), 64).unwrap();
    a.check();
}

/// Text comes out in runs of adjacent frames, each with a lease of its own; what is not text any more is the partition's.
#[test]
fn text_is_taken_out_in_runs() {
    let mut a = with_text(8);
    a.mprotect(at(5), 1, 0).unwrap();
    assert_eq!(a.own_all(at(6), 1), Ok(P));
    assert_eq!(a.read(at(6)), Some(value(6)));
    a.check();
    a.munmap(at(0), 8).unwrap();
    assert_eq!(lent_bytes(), 0);
    assert!(a.regions().is_vacant(at(0).until(at(8))));
    a.check();
}

/// For each piece all of the text behind it was walked, too: for 1,024 pieces half a million entries were looked at.
#[test]
fn pieces_are_found_without_a_walk_over_the_others() {
    const PIECES: u64 = 1024;
    // Of one page each, and apart from each other.
    let scattered: Vec<Piece> = (0..PIECES)
        .map(|page| Piece {
            pa: Phys(POOL + 2 * page * P),
            ..pieces(page, 1)[0]
        })
        .collect();
    for is_copied in [false, true] {
        let mut a = space(4096);
        a.show_text(region(0, PIECES), scattered.clone()).unwrap();
        let before = Node::all_entries();
        match is_copied {
            true => assert_eq!(a.own_all(at(0), PIECES), Ok(PIECES * P)),
            false => a.munmap(at(0), PIECES).unwrap(),
        }
        assert_eq!(lent_bytes(), 0);
        let entries = Node::all_entries() - before;
        assert!(entries < 100 * PIECES, "{entries} entries");
    }
}

/// A debugger gets a copy without the program having write access to it.
#[test]
fn a_copy_keeps_its_access() {
    let mut a = with_text(600);
    assert_eq!(a.own_all(at(3), 2), Ok(2 * P));
    assert_eq!(a.own_all(at(3), 2), Ok(0));
    assert!(!a.write(at(3), 7));
    assert_eq!(a.read(at(3)), Some(value(3)));
    a.check();
}

/// What moves is copied, too: where it goes text is not looked for.
#[test]
fn what_moves_is_copied_before() {
    let mut a = with_text(8);
    assert_eq!(a.mremap(at(2), 4, 4, Some(at(100))), Ok(at(100)));
    assert_eq!(lent_bytes(), 4 * P);
    assert_eq!(a.read(at(103)), Some(value(5)));
    assert!(a.text(at(100).until(at(104))).is_none() && a.text(at(0).until(at(8))).is_some());
}

/// A program that has ended leaves its text to be read, for a report; the pool has it back.
#[test]
fn text_that_is_ended_can_be_read() {
    let mut a = with_text(600);
    a.own_all(at(3), 1).unwrap();
    let mut bytes = 0;
    a.end_text(|lease| bytes += lease.end().1);
    assert_eq!((bytes, a.read(at(599))), (599 * P, Some(value(599))));
    a.end_text(|lease| panic!("{lease:?} is given back twice"));
}

#[test]
fn text_is_never_mapped_to_be_written() {
    let mut a = space(64);
    let mut writable = region(0, 1);
    writable.prot |= Prot::WRITE;
    assert_eq!(a.show_text(writable, pieces(0, 1)), Err(Errno::EACCES));
}

/// The proxy is told which frames are other ranks', too, whatever access they have: children get copies of those.
#[test]
fn the_proxy_is_told_what_is_text() {
    use wire::region_log::prot::{EXEC, READ, TEXT};
    let mut a = with_text(4);
    a.mprotect(at(1), 1, 5).unwrap();
    a.own_all(at(2), 1).unwrap();
    let last = |va| Node::last_told(va).unwrap();
    assert_eq!(last(at(0)), READ | TEXT);
    assert_eq!(last(at(1)), READ | EXEC | TEXT);
    assert_eq!(last(at(2)), READ);
}
