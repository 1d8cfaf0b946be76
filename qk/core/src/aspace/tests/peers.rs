//! What a peer finds through its window.

use super::*;

/// A peer's core keeps translations of its window. Memory that was unmapped and mapped anew at the same address had another
/// frame, and the peer went on to read the old one.
#[test]
fn a_peer_sees_what_is_mapped_anew_at_an_address() {
    let mut a = space(2048);
    let own = a.mmap(A, 4, RW, FIXED).unwrap();
    assert!(a.write(own, 1));
    let before = a.seen_by_peer(own);
    a.munmap(own, 4).unwrap();
    a.mmap(own, 4, RW, FIXED).unwrap();
    assert!(a.write(own, 2));
    let after = a.seen_by_peer(own).unwrap();
    assert_ne!(before, Some(after));
    assert_eq!(Node::load(after.0), 2);
}

/// The same of a neighbour that was never mapped: the core had kept where the page table was that both would use, and that
/// table had become one of other addresses.
#[test]
fn a_peer_finds_a_page_whose_table_was_another_one() {
    let mut a = space(2048);
    let small = FIXED | 0x20000;
    // Enough tables for what follows, which are used again.
    for i in 0..6 {
        a.mmap(A + i * M2, 1, RW, small).unwrap();
    }
    a.seen_by_peer(A);
    a.munmap(A + M2, 5 * M2 / P).unwrap();
    a.munmap(A, 1).unwrap();
    a.mmap(A + 8 * M2, 1, RW, small).unwrap();
    a.mmap(A + P, 1, RW, small).unwrap();
    assert!(a.write(A + P, 3));
    let found = a.seen_by_peer(A + P).expect("it is mapped");
    assert_eq!(Node::load(found.0), 3);
}

/// A mapping at a fixed address took away what was there, also where nothing was: the peers' cores were flushed for addresses
/// that they could not have seen, by an interrupt each time.
#[test]
fn peers_are_not_flushed_for_addresses_that_were_vacant() {
    let mut a = space(2048);
    a.mmap(A, 1, RW, FIXED).unwrap();
    a.seen_by_peer(A);
    a.mmap(A + 8 * M2, 1, RW, FIXED).unwrap();
    a.mmap(A + P, 1, RW, FIXED).unwrap();
    assert_eq!(Node::peer_flushes(), 0);
    a.mmap(A, 1, RW, FIXED).unwrap();
    assert_eq!(Node::peer_flushes(), 1);
}

/// What a rank protects is protected from its peers when mprotect returns.
#[test]
fn a_peer_loses_the_rights_that_mprotect_takes() {
    let mut a = space(2048);
    let own = a.mmap(A, 1, RW, FIXED).unwrap();
    for (prot, shown) in [(1, Prot::READ), (RW, Prot::READ | Prot::WRITE)] {
        a.seen_by_peer(own);
        a.mprotect(own, 1, prot).unwrap();
        assert_eq!(a.seen_by_peer(own).map(|(_, prot)| prot), Some(shown));
    }
    a.mprotect(own, 1, 0).unwrap();
    assert_eq!(a.seen_by_peer(own), None);
}
