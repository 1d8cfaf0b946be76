//! Mapping over something is one step, as the proxy sees it.

use super::*;

/// What the proxy shows at each of `pages` pages once it has carried out one record more of the log, for each of the log's.
fn shown_meanwhile(at: Va, pages: u64, mut visit: impl FnMut(usize, u64)) {
    let mut step = 0;
    while Node::apply_one() {
        let there = (0..pages).filter(|page| Node::shown().contains_key(&(at + page * P)));
        visit(step, there.count() as u64);
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
    shown_meanwhile(A, 8, |_, there| assert_eq!(there, 0, "a reservation"));
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
