//! The walk over what arguments lead to, with memories made up.

extern crate std;

use core::ops::ControlFlow::{Break, Continue};
use std::cell::Cell;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::{ALL, by_name};
use super::*;

/// Where made-up memory begins, and ends after the last word.
const START: u64 = 0x1000;

/// Words of memory; how often they were read.
struct Words {
    words: Vec<u64>,
    reads: Cell<usize>,
}

impl Words {
    fn new(words: &[u64]) -> Words {
        Words {
            words: words.to_vec(),
            reads: Cell::new(0),
        }
    }
}

impl Reader for Words {
    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        self.reads.set(self.reads.get() + 1);
        let first = usize::try_from(at.checked_sub(START)? / 8).ok()?;
        let found = self.words.get(first..)?.first_chunk().copied();
        found.filter(|_| at.is_multiple_of(8))
    }

    fn int(&self, at: u64) -> Option<u32> {
        let [word] = self.words(at & !7)?;
        Some((word >> (at % 8 * 8)) as u32)
    }
}

fn all(name: &str, args: &[u64], memory: &Words) -> Vec<Piece> {
    let mut given = [0; 6];
    given[..args.len()].copy_from_slice(args);
    let mut pieces = Vec::new();
    let walk = by_name(name).unwrap().pieces(&given, memory, &mut |piece| {
        pieces.push(piece);
        Continue(())
    });
    assert!(walk.is_continue());
    pieces
}

#[test]
fn lengths_are_as_in_the_row() {
    use Dir::{In, InOut, Out};
    use Kind::{Buffer, Counted, String, Structure};
    // fd_set: words of 8 bytes for as many bits; of counts the lower half. An unsigned int behind a pointer.
    let memory = Words::new(&[7, 16 << 32 | 5]);
    let int = START + 12;
    for (name, args, expected) in [
        ("read", &[0, 64, 10][..], &[(Counted, Out, 64, 10)][..]),
        ("fstat", &[0, 64], &[(Structure, Out, 64, 144)]),
        ("poll", &[64, 1 << 40 | 3, 0], &[(Structure, InOut, 64, 24)]),
        ("select", &[1 << 32 | 65, 64], &[(Structure, InOut, 64, 16)]),
        ("chdir", &[64], &[(String, In, 64, 4096)]),
        ("unlinkat", &[64, 0, 64], &[]),                    // no path
        ("fcntl", &[0, 3, 64], &[]),                        // F_GETFL
        ("fcntl", &[0, 8, 64], &[]),                        // F_SETOWN
        ("fcntl", &[0, 15, 64], &[(Structure, In, 64, 8)]), // F_SETOWN_EX
        ("ioctl", &[0, 0x541b, 64], &[(Structure, Out, 64, 4)]), // FIONREAD
        ("ioctl", &[0, 0xdead, 64], &[]),
        ("ppoll", &[0, 0, 0, 64, 99], &[(Structure, In, 64, 8)]),
        (
            "accept",
            &[0, 64, int],
            &[(Buffer, Out, 64, 16), (Structure, InOut, int, 4)],
        ),
        (
            "accept",
            &[0, 64, 8],
            &[(Buffer, Out, 64, 0), (Structure, InOut, 8, 4)],
        ),
    ] {
        let found = all(name, args, &memory);
        let found: Vec<_> = found
            .iter()
            .map(|p| (p.kind, p.dir, p.at, p.len_bytes))
            .collect();
        assert_eq!(found, expected, "{name} {args:x?}");
    }
}

/// A socklen_t at the end of a page, behind which there is nothing, was read as eight bytes: the address had no length.
#[test]
fn a_length_may_be_the_last_that_there_is() {
    struct Int;
    impl Reader for Int {
        fn words<const N: usize>(&self, _: u64) -> Option<[u64; N]> {
            None
        }
        fn int(&self, _: u64) -> Option<u32> {
            Some(16)
        }
    }
    assert_eq!(Size::At(4092).bytes(&Int), 16);
}

#[test]
fn vectors_are_followed_as_far_as_linux_does() {
    let array = |count: u64| Piece::new(Kind::Vectors, Dir::In, START, count * 16);
    let vector = |at, len_bytes| Piece::new(Kind::Vector, Dir::Out, at, len_bytes);
    // A sum beyond what one call moves is cut, not the pieces; a null pointer counts.
    let memory = Words::new(&[0x40, 8, 0, MAX_RW_BYTES, 0x80, 1]);
    let three = [
        array(3),
        vector(0x40, 8),
        vector(0, MAX_RW_BYTES - 8),
        vector(0x80, 0),
    ];
    assert_eq!(all("readv", &[0, START, 3], &memory), three);
    // The count is an unsigned int.
    assert_eq!(all("readv", &[0, START, 1 << 32 | 3], &memory), three);
    // What cannot be read ends them.
    let mut four = three;
    four[0] = array(4);
    assert_eq!(all("readv", &[0, START, 4], &memory), four);
    assert_eq!(all("readv", &[0, 0, 3], &memory), []);
    assert_eq!(memory.reads.get(), 3 + 3 + 4);
    assert_eq!(
        all("readv", &[0, START, 5000], &Words::new(&[1; 4096])).len(),
        1 + 1024
    );
}

#[test]
fn messages_are_taken_apart() {
    let header = [0x40, 1 << 32 | 16, START + 128, 1, 0x50, 24, 77];
    let mut memory = [0; 18];
    memory[..7].copy_from_slice(&header);
    memory[8..15].copy_from_slice(&header);
    memory[16..].copy_from_slice(&[0x60, 5]);
    let memory = Words::new(&memory);
    let one = |of_header, dir, at| {
        [
            Piece::new(Kind::Message, of_header, at, 56),
            Piece::new(Kind::Buffer, dir, 0x40, 16),
            Piece::new(Kind::Control, dir, 0x50, 24),
            Piece::new(Kind::Vectors, Dir::In, START + 128, 16),
            Piece::new(Kind::Vector, dir, 0x60, 5),
        ]
    };
    let sent = one(Dir::In, Dir::In, START);
    assert_eq!(all("sendmsg", &[0, START], &memory), sent);
    let received = one(Dir::InOut, Dir::Out, START);
    assert_eq!(all("recvmsg", &[0, START], &memory), received);
    // Whichever way they go, Linux says in each how much it was. The third cannot be read: there are no more.
    let array = Piece::new(Kind::Messages, Dir::InOut, START, 4 * 64);
    let third = Piece::new(Kind::Message, Dir::In, START + 128, 56);
    let second = one(Dir::In, Dir::In, START + 64);
    let expected = [&[array][..], &sent, &second, &[third]].concat();
    assert_eq!(all("sendmmsg", &[0, START, 4], &memory), expected);
    assert_eq!(all("recvmsg", &[0, 8], &memory).len(), 1);
}

#[test]
fn structures_with_a_pointer_lead_on() {
    let memory = Words::new(&[u64::from(u32::MAX), 0x40, 0x50, 0, 0, 80]);
    let structure = |dir, bytes| Piece::new(Kind::Structure, dir, START, bytes);
    let buffer = |dir, at, bytes| Piece::new(Kind::Buffer, dir, at, bytes);
    // No list has a negative length.
    let expected = [structure(Dir::InOut, 16), buffer(Dir::Out, 0x40, 0)];
    assert_eq!(all("ioctl", &[0, 0x8912, START], &memory), expected);
    assert_eq!(interfaces_bytes(1 << 32 | 80), 80);
    let expected = [structure(Dir::In, 40), buffer(Dir::InOut, 0x50, 1 << 20)];
    assert_eq!(all("ioctl", &[0, 0x8946, START], &memory), expected);
    let mut query = [0; 13];
    (query[0], query[10], query[11]) = (104, 7 << 32 | 9, 0x70);
    let expected = [structure(Dir::InOut, 104), buffer(Dir::Out, 0x70, 9)];
    assert_eq!(
        all("ioctl", &[0, 0xc068_6611, START], &Words::new(&query)),
        expected
    );
    let mask = Piece::new(Kind::Structure, Dir::In, u64::from(u32::MAX), 8);
    let expected = [structure(Dir::In, 16), mask];
    assert_eq!(all("pselect6", &[0, 0, 0, 0, 0, START], &memory), expected);
    assert_eq!(all("pselect6", &[0, 0, 0, 0, 0, 8], &memory).len(), 1);
}

#[test]
fn masks_are_found_with_their_lengths() {
    let memory = Words::new(&[0x40, 8]);
    let mask = |name, args| by_name(name).unwrap().mask(&args, &memory);
    assert_eq!(mask("ppoll", [1, 2, 3, 64, 9, 6]), Some((64, 9)));
    assert_eq!(mask("epoll_pwait", [1, 2, 3, 4, 64, 8]), Some((64, 8)));
    assert_eq!(mask("epoll_pwait2", [1, 2, 3, 4, 64, 8]), Some((64, 8)));
    assert_eq!(mask("pselect6", [1, 2, 3, 4, 5, START]), Some((0x40, 8)));
    assert_eq!(mask("pselect6", [1, 2, 3, 4, 5, 0]), None);
    assert_eq!(mask("poll", [64, 8, 64, 8, 64, 8]), None);
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..40u64).prop_map(|i| START + 8 * i),
        2 => 0..2000u64,
        1 => prop::sample::select(std::vec![0x8912, 0x8946, 0x5401, 15, 8, 37]),
        1 => any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Whatever a program passes: the walk ends, says of no memory that the row denies, and stops where it is told to.
    #[test]
    fn any_call_is_walked_over(
        call in prop::sample::select(ALL),
        args in prop::array::uniform6(word()),
        words in prop::collection::vec(word(), 0..40),
        stop in 0..20usize,
    ) {
        let memory = Words::new(&words);
        let mut pieces = Vec::new();
        let _ = call.pieces(&args, &memory, &mut |piece| {
            pieces.push(piece);
            Continue(())
        });
        let counts: u64 = 1 + call.args.len() as u64 * 2 + 1024 * 1030;
        prop_assert!(pieces.len() as u64 <= counts);
        prop_assert!(call.writes || pieces.iter().all(|piece| piece.dir == Dir::In));
        prop_assert!(call.nests || pieces.iter().all(|piece| args.contains(&piece.at)));
        let of_ints = |len| matches!(len, Arg::Mem(_, Len::AtPtr(_)));
        prop_assert!(call.nests || memory.reads.get() == 0 || call.args.iter().any(|arg| of_ints(*arg)));
        // Each array of vectors ends the sum of the one before.
        for of_one in pieces.split(|piece| piece.kind == Kind::Vectors) {
            let vectors = of_one.iter().filter(|piece| piece.kind == Kind::Vector);
            prop_assert!(vectors.map(|piece| piece.len_bytes).sum::<u64>() <= MAX_RW_BYTES);
        }
        let mut seen = 0;
        let walk = call.pieces(&args, &memory, &mut |_| {
            seen += 1;
            if seen == stop { Break(()) } else { Continue(()) }
        });
        let stops = (1..=pieces.len()).contains(&stop);
        prop_assert_eq!(walk.is_break(), stops);
        prop_assert_eq!(seen, if stops { stop } else { pieces.len() });
    }
}
