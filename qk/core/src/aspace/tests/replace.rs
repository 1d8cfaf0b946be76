//! Mapping over something is one step, as the proxy sees it.

use super::*;

/// How many of `pages` pages the proxy shows.
fn shown_pages(at: Va, pages: u64) -> u64 {
    let there = (0..pages).filter(|page| Node::shown().contains_key(&(at + page * P)));
    there.count() as u64
}

/// What the proxy shows at each of `pages` pages once it has carried out one record more of the log, for each of the log's.
fn shown_meanwhile(at: Va, pages: u64, mut visit: impl FnMut(usize, u64)) {
    let mut step = 0;
    while Node::apply_one() {
        visit(step, shown_pages(at, pages));
        step += 1;
    }
}

/// A call that used the pages while another thread mapped something over them failed with EFAULT: the log said first that they had gone.
#[test]
fn there_is_no_hole_meanwhile() {
    let mut a = space(64);
    a.mmap(A, 8, RW, FIXED).unwrap();
    shown_meanwhile(A, 8, |_, _| ());
    for prot in [RW, 1, RW] {
        a.mmap(A, 8, prot, FIXED).unwrap();
        a.check();
        shown_meanwhile(A, 8, |step, there| {
            assert_eq!(there, 8, "after {step} records")
        });
        a.check();
    }
    a.mmap(A, 8, 0, FIXED).unwrap();
    Node.sync();
    assert_eq!(shown_pages(A, 8), 0, "a reservation");
}

/// So did one while other memory was moved there: with what it grows by, and where some of it is reserved only.
#[test]
fn there_is_no_hole_where_memory_moves_to() {
    let other = A + 64 * P;
    for (old, new, kept) in [(8, 8, 8), (4, 8, 8), (8, 4, 8)] {
        let mut a = space(64);
        a.mmap(A, 8, RW, FIXED).unwrap();
        a.mmap(other, old, RW, FIXED).unwrap();
        assert!(a.write(other, 7));
        shown_meanwhile(A, 8, |_, _| ());
        a.check();
        a.mremap(other, old, new, Some(A)).unwrap();
        a.check();
        shown_meanwhile(A, new, |step, there| {
            assert_eq!(there, kept.min(new), "{old} to {new}, after {step} records")
        });
        assert_eq!(a.read(A), Some(7));
        assert_eq!(shown_pages(other, old), 0, "what has moved has left a hole");
        a.check();
    }
}

/// A reservation that moves takes away what was there, for the proxy as well.
#[test]
fn where_a_reservation_moves_to_there_is_nothing() {
    let other = A + 64 * P;
    let mut a = space(64);
    a.mmap(A, 8, RW, FIXED).unwrap();
    a.mmap(other, 8, 0, FIXED).unwrap();
    a.mprotect(other + 3 * P, 2, RW).unwrap();
    a.mprotect(other + 3 * P, 2, 0).unwrap();
    a.mremap(other, 8, 8, Some(A)).unwrap();
    Node.sync();
    assert_eq!(shown_pages(A, 8), 0);
    a.check();
}

/// Text that came was told, and then that nothing was there: calls that read it failed from then on.
#[test]
fn text_that_comes_is_there_at_once() {
    let mut a = space(64);
    let range = VaRange::new(A, 8 * P);
    a.mmap(A, 10, RW, FIXED).unwrap();
    shown_meanwhile(A, 8, |_, _| ());
    a.done(|a| a.vacate(range)).unwrap();
    a.show_text(super::text::region(0, 8), super::text::pieces(0, 8))
        .unwrap();
    a.end_replacing();
    a.check();
    shown_meanwhile(A, 10, |step, there| {
        assert_eq!(there, 10, "after {step} records")
    });
    assert_eq!(Node::shown()[&A], (super::lender::POOL, false));
}

/// Frames that were replaced would be used anew while the proxy still had them, if the record of their going were taken for an
/// earlier one.
#[test]
fn what_was_replaced_waits_for_the_record_of_what_came() {
    let mut a = space(20);
    a.mmap(A, 8, RW, FIXED).unwrap();
    shown_meanwhile(A, 8, |_, _| ());
    a.mmap(A, 8, RW, FIXED).unwrap();
    assert_eq!(a.frames.retired_bytes(), 8 * P);
    a.reclaim();
    assert_eq!(a.frames.retired_bytes(), 8 * P, "the proxy has them");
    shown_meanwhile(A, 8, |_, _| ());
    a.reclaim();
    assert_eq!(a.frames.retired_bytes(), 0);
    a.check();
    // The proxy may be quick: before what comes is mapped it has all of the log so far.
    a.done(|a| a.vacate(VaRange::new(A, 8 * P))).unwrap();
    Node.sync();
    a.reclaim();
    let shown = (a.frames.retired_bytes(), shown_pages(A, 8));
    assert_eq!(shown, (8 * P, 8), "it shows them");
    a.end_replacing();
    Node.sync();
    a.reclaim();
    assert_eq!((a.frames.retired_bytes(), shown_pages(A, 8)), (0, 0));
    a.check();
}

/// Where memory is short the proxy lets go first, and what takes the place is there all the same.
#[test]
fn without_frames_for_both_the_proxy_lets_go_first() {
    let mut a = space(12);
    a.mmap(A, 8, RW, FIXED).unwrap();
    assert!(a.write(A, 1));
    a.mmap(A, 8, RW, FIXED).unwrap();
    assert_eq!(a.read(A), Some(0));
    a.check();
    shown_meanwhile(A, 8, |_, _| ());
    assert_eq!(Node::shown().len(), 8);
}

/// Another thread read zeros of a file that was being read: while the proxy fills memory the program cannot access it.
#[test]
fn what_the_proxy_fills_is_its_alone() {
    let mut a = space(64);
    let range = VaRange::new(A, 4 * P);
    a.map_to_fill(Region::new(range, Prot::READ | Prot::WRITE, Kind::File))
        .unwrap();
    assert_eq!(a.read(A), None);
    Node.sync();
    assert!(Node::shown()[&A].1, "the proxy can write");
    a.mprotect(A, 4, 1).unwrap();
    assert_eq!(a.read(A), Some(0));
    Node.sync();
    assert!(!Node::shown()[&A].1);
    a.check();
}

/// Whether an access that faulted is to be made again.
#[test]
fn an_access_is_settled_when_it_is_allowed_and_there_is_a_frame() {
    const USER_READ: u64 = 4;
    const USER_WRITE: u64 = 6;
    let mut a = space(64);
    a.mmap(A, 1, 1, FIXED).unwrap();
    a.mmap(A + P, 1, 0, FIXED).unwrap();
    assert!(a.is_settled(A, USER_READ) && !a.is_settled(A, USER_WRITE));
    assert!(!a.is_settled(A + P, USER_READ), "reserved");
    assert!(!a.is_settled(A + 2 * P, USER_READ), "nothing");
    assert!(!a.is_settled(Va(USER_TOP), USER_READ), "a window");
    assert!(!a.is_settled(A, 0), "of the CPU itself");
    a.mprotect(A, 1, RW).unwrap();
    assert!(a.is_settled(A, USER_WRITE));
    a.munmap(A, 1).unwrap();
    assert!(!a.is_settled(A, USER_READ));
}
