//! What changes owe the node pool. That they owe nothing more is in `model`.

use super::lender::{self, Pool};
use super::machine::with;
use super::*;
use crate::objects::{Lease, TextLease};

/// Counts what it gets.
#[derive(Default)]
struct Counts {
    left: Vec<u64>,
}

impl Lender for Counts {
    fn text_left(&mut self, text: impl Iterator<Item = TextLease>) {
        Pool.text_left(text);
    }
    fn object_left(&mut self, lease: Lease) {
        self.left.push(lease.len_bytes() / P);
        Pool.object_left(lease);
    }
}

/// Where the file is mapped without large pages.
const B: Va = Va(A.0 + P);

fn with_file(pages: u64) -> Aspace<Node> {
    let mut a = space(2048);
    a.show_file(B, [0, pages], pages).unwrap();
    a
}

/// A range is unmapped whatever it shows, in one call.
#[test]
fn all_kinds_of_memory_are_unmapped_at_once() {
    let mut a = space(2048);
    a.mmap(A, 4, RW, FIXED).unwrap();
    a.show_file(A + 4 * P, [0, 4], 2).unwrap();
    a.show_text(text::region(8, 4), text::pieces(8, 4)).unwrap();
    let clock = Region::new(VaRange::new(A + 12 * P, P), Prot::READ, Kind::Vvar);
    a.map_foreign(clock, CLOCK).unwrap();
    a.check();
    assert!(a.write(A + 5 * P, 7));
    a.munmap(A, 13).unwrap();
    assert!(a.regions().is_vacant(VaRange::new(A, 13 * P)));
    assert_eq!(lender::in_file(1), 7);
    a.check();
}

/// A mapping of an object goes as a whole, however much of it was written.
#[test]
fn each_mapping_of_an_object_is_one_receipt() {
    let mut a = with_file(600);
    (0..600)
        .step_by(2)
        .for_each(|page| assert!(a.write(B + page * P, page + 1)));
    let mut counts = Counts::default();
    for range in [VaRange::new(B + 5 * P, P), VaRange::new(B, 600 * P)] {
        a.complete(&mut counts, |a| a.unmap(range)).unwrap();
    }
    assert_eq!(counts.left, [1, 5, 594]);
    assert!(
        (0..600)
            .step_by(2)
            .all(|page| lender::in_file(page) == page + 1)
    );
}

/// B mapping in the place of shared ones once had to be preceded by two calls in the right order.
#[test]
fn a_mapping_takes_the_place_of_shared_ones() {
    let mut a = with_file(8);
    assert!(a.write(B + 2 * P, 9));
    a.mmap(B + P, 4, RW, FIXED).unwrap();
    assert_eq!((a.read(B + 2 * P), lender::in_file(2)), (Some(0), 9));
    assert_eq!(with(|s| s.lent_bytes), 4 * P);
    a.check();
}

/// So had the break, and a move.
#[test]
fn the_break_and_a_move_give_back_what_they_take_away() {
    let mut a = space(2048);
    a.set_heap(A);
    a.done(|a| a.brk(A + 16 * P, u64::MAX)).unwrap();
    a.munmap(A + 4 * P, 4).unwrap();
    a.show_file(A + 4 * P, [0, 4], 4).unwrap();
    assert_eq!(a.done(|a| a.brk(A + 2 * P, u64::MAX)), Ok(A + 2 * P));
    assert_eq!(with(|s| s.lent_bytes), 0);
    a.show_file(A + M2, [0, 4], 4).unwrap();
    a.check();
    a.mremap(A, 2, 2, Some(A + M2)).unwrap();
    assert_eq!(with(|s| s.lent_bytes), 2 * P);
    a.check();
}

/// Another program finds nothing mapped, and the pool has everything.
#[test]
fn a_space_that_is_cleared_owes_nothing() {
    let mut a = with_file(8);
    a.show_text(text::region(16, 40), text::pieces(16, 40))
        .unwrap();
    assert!(a.write(B, 5));
    a.done(Aspace::clear).unwrap();
    assert_eq!(lender::in_file(0), 5);
    a.check();
}

/// Objects go when a program ends, and its text stays to be read.
#[test]
fn objects_are_given_back_without_text() {
    let mut a = with_file(8);
    a.show_text(text::region(16, 40), text::pieces(16, 40))
        .unwrap();
    a.done(|a| a.evict_objects(Va(0).until(Va(USER_TOP))))
        .unwrap();
    assert_eq!(with(|s| s.lent_bytes), 0);
    assert_eq!(a.read(text::at(20)), Some(text::value(20)));
    a.check();
}

/// Memory behind the end of a file was unmapped and mapped anew when the file had grown.
#[test]
fn a_file_that_grows_keeps_its_lease() {
    let mut a = space(2048);
    a.show_file(A, [0, 8], 3).unwrap();
    assert_eq!((a.read(A + 2 * P), a.read(A + 3 * P)), (Some(5002), None));
    let region = *a.regions().lookup(A + 3 * P).unwrap();
    let there = region.clip((A + 3 * P).until(A + 5 * P));
    a.extend_object(there, &lender::frames(&there)).unwrap();
    assert_eq!((a.read(A + 4 * P), a.read(A + 5 * P)), (Some(5004), None));
    assert_eq!(with(|s| s.lent_bytes), 8 * P);
    a.check();
    a.munmap(A, 8).unwrap();
    a.check();
}

/// Zeros would be mapped where an object goes on: only who has it maps more of it.
#[test]
fn an_object_does_not_grow_by_itself() {
    let mut a = with_file(8);
    for to in [None, Some(B + M2)] {
        assert_eq!(a.mremap(B, 8, 9, to), Err(Errno::ENOMEM));
        assert!(a.write(B + 7 * P, 3) && a.regions().is_vacant(VaRange::new(B + 8 * P, P)));
        assert!(a.regions().is_vacant(VaRange::new(B + M2, 9 * P)));
        a.check();
    }
}

#[test]
#[should_panic(expected = "was not handed over")]
#[cfg(debug_assertions)]
fn a_receipt_that_is_lost_is_noticed() {
    let mut a = space(2048);
    a.show_text(text::region(0, 4), text::pieces(0, 4)).unwrap();
    let _ = a.unmap(VaRange::new(A, 4 * P));
}

/// Where debug assertions are off, no more text is let go of: what is counted stays mapped, or the other way round.
#[test]
fn after_a_receipt_was_lost_nothing_is_let_go_of() {
    let mut a = space(2048);
    a.show_text(text::region(0, 8), text::pieces(0, 8)).unwrap();
    let lost = a.unmap(VaRange::new(A, 4 * P));
    assert!(matches!(lost, Err(Unfinished::Owes(_))));
    core::mem::forget(lost);
    assert_eq!(a.munmap(A + 4 * P, 4), Err(Errno::ENOMEM));
    assert!(!a.regions().is_vacant((A + 4 * P).until(A + 8 * P)));
}
