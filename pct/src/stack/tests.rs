//! The stack against what the ABI says a program reads off it.

extern crate std;

use std::format;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use abi::stack::{Contents, size_bytes};

use super::*;
use crate::fake::Pages;

const TOP: u64 = 0x7000_0000;

fn built(strings: &[String], argc: usize) -> (Pages, Plan) {
    let mut block = Vec::new();
    for string in strings {
        block.extend(string.as_bytes());
        block.push(0);
    }
    let contents = Contents {
        argc: argc as u64,
        envc: (strings.len() - 1 - argc) as u64,
        strings_bytes: block.len() as u64,
        aux_pairs: 3,
    };
    let plan = Plan::new(TOP, 8 << 20, contents).expect("fits");
    let mut pages = Pages::default();
    pages
        .write(plan.strings, &block)
        .expect("a fake writes all");
    write(&plan, &mut pages, [1, 2], |plan, path| {
        [(at::RANDOM, plan.random), (at::EXECFN, path), (at::NULL, 0)]
    })
    .expect("sound strings");
    (pages, plan)
}

/// Reads argc, argv and envp as a C library does, and compares.
fn check(strings: &[String], argc: usize) {
    let (mut pages, plan) = built(strings, argc);
    let sp = plan.stack_pointer;
    assert_eq!(sp % 16, 0);
    assert_eq!(pages.word(sp), argc as u64);
    let mut at = sp + 8;
    let (path, listed) = strings.split_last().expect("the path");
    for (i, string) in listed.iter().enumerate() {
        if i == argc {
            assert_eq!(pages.word(at), 0, "end of argv");
            at += 8;
        }
        let pointer = pages.word(at);
        assert_eq!(pages.string(pointer), *string);
        at += 8;
    }
    if argc == listed.len() {
        assert_eq!(pages.word(at), 0, "end of argv");
        at += 8;
    }
    assert_eq!(pages.word(at), 0, "end of envp");
    assert_eq!(pages.word(at + 8), at::RANDOM);
    assert_eq!(pages.word(at + 16), plan.random);
    assert_eq!(pages.word(at + 24), at::EXECFN);
    let execfn = pages.word(at + 32);
    assert_eq!(pages.string(execfn), *path);
    assert_eq!((pages.word(at + 40), pages.word(at + 48)), (at::NULL, 0));
    assert!(
        at + 56 <= plan.random,
        "the vector ends below the random bytes"
    );
    assert_eq!(
        (pages.word(plan.random), pages.word(plan.random + 8)),
        (1, 2)
    );
    assert_eq!(pages.string(plan.platform), "x86_64");
    assert_eq!(pages.word(TOP - 8), 0);
}

#[test]
fn a_program_finds_its_arguments() {
    let strings = ["a.out", "-v", "", "HOME=/root", "A=", "/tmp/a.out"].map(String::from);
    check(&strings, 3);
    check(&strings, 5);
    check(&strings[5..], 0);
}

#[test]
fn strings_may_be_longer_than_the_buffer() {
    let strings: Vec<String> = (0..300).map(|i| "x".repeat(i * 7 % 2500)).collect();
    check(&strings, 150);
}

#[test]
fn a_quarter_of_the_stack_is_the_limit() {
    let plan = |strings_bytes, argc| {
        let contents = Contents {
            argc,
            envc: 0,
            strings_bytes,
            aux_pairs: 21,
        };
        Plan::new(TOP, 8 << 20, contents)
    };
    assert!(plan((2 << 20) - 4096, 10).is_ok());
    assert_eq!(plan(2 << 20, 10), Err(Errno::E2BIG));
    assert_eq!(plan(1 << 20, 1 << 17), Err(Errno::E2BIG));
    assert_eq!(plan(u64::MAX, u64::MAX), Err(Errno::E2BIG));
}

#[test]
fn strings_that_are_too_few_or_unterminated_are_an_error() {
    for block in [&b"a\0b\0"[..], b"a\0b\0c", b""] {
        let contents = Contents {
            argc: 1,
            envc: 1,
            strings_bytes: block.len() as u64,
            aux_pairs: 1,
        };
        let plan = Plan::new(TOP, 8 << 20, contents).expect("fits");
        let mut pages = Pages::default();
        pages.write(plan.strings, block).expect("a fake writes all");
        let result = write(&plan, &mut pages, [0; 2], |_, _| [(at::NULL, 0)]);
        assert_eq!(result, Err(Errno::EINVAL), "{block:?}");
    }
}

#[test]
fn the_stack_is_bounded_by_limit_and_partition() {
    assert_eq!(size_bytes(8 << 20, 1 << 30), 8 << 20);
    assert_eq!(size_bytes(u64::MAX, 1 << 30), 128 << 20);
    assert_eq!(size_bytes(u64::MAX, 0), 128 << 10);
    assert_eq!(size_bytes(1, 1 << 30), 128 << 10);
    assert_eq!(size_bytes((8 << 20) + 5, 1 << 30), 8 << 20);
}

proptest! {
    #[test]
    fn any_strings_are_found(
        lens in prop::collection::vec(0usize..3000, 1..40),
        split in 0usize..40,
    ) {
        let strings: Vec<String> = lens
            .iter()
            .enumerate()
            .map(|(i, &len)| format!("{i}{}", "y".repeat(len)))
            .collect();
        check(&strings, split.min(strings.len() - 1));
    }

    #[test]
    fn any_counts_are_planned_within_the_stack_or_refused(
        argc: u64, envc in 0u64..1 << 20, strings_bytes in 0u64..1 << 24, stack in 0u64..1 << 26,
    ) {
        for argc in [argc, argc >> 48] {
            let contents = Contents { argc, envc, strings_bytes, aux_pairs: 21 };
            if let Ok(plan) = Plan::new(TOP, stack, contents) {
                prop_assert!(plan.stack_pointer >= TOP - stack / 4);
                prop_assert!(plan.strings + strings_bytes < TOP);
            }
        }
    }
}
