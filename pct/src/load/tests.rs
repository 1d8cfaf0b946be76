//! Loading against a kernel made of vectors: what is where, and what is refused how.

extern crate std;

mod areas;

use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use super::*;
use crate::fake::{Fake, Rank, Region, elf, program};

const R: u32 = 4;
const RW: u32 = 6;
const RX: u32 = 5;

const SEGMENTS: [(u32, u64, u64, u64, u64); 3] = [
    (R, 0, 0x40_0000, 0x300, 0x300),
    (RX, 0x1000, 0x40_1000, 0x1800, 0x1800),
    (RW, 0x2f00, 0x40_3f00, 0x180, 0x2000),
];

fn typical() -> Fake {
    Fake::new(
        program(0x40_1000, &SEGMENTS, 0x3080),
        &["a.out", "x"],
        &["A=1"],
    )
}

fn load_into(fake: &mut Fake, rank: u32) -> Result<(), String> {
    let place = Place {
        rank,
        partition: fake.memory[0],
        cores: Cores { first: 3, count: 2 },
    };
    let job = fake.job;
    load(fake, &job, place).map_err(|line| line.as_str().to_string())
}

fn loaded(mut fake: Fake) -> Rank {
    load_into(&mut fake, 0).expect("a sound program");
    fake.ranks.remove(&0).expect("the rank")
}

fn refusal(mut fake: Fake) -> String {
    let why = load_into(&mut fake, 0).expect_err("must be refused");
    assert!(fake.ranks.values().all(|rank| rank.started.is_none()));
    why
}

fn region(rank: &Rank, base: u64) -> Region {
    *rank
        .regions
        .iter()
        .find(|r| r.place.base == base)
        .expect("a region there")
}

#[test]
fn a_program_is_laid_out_and_started() {
    let mut rank = loaded(typical());
    let start = rank.started.expect("started");
    assert_eq!(
        (start.cores, start.entry, start.heap_start),
        ([0b11000, 0, 0, 0], 0x40_1000, 0x40_6000)
    );
    for (base, len_bytes, prot) in [
        (0x40_0000, 0x1000, PROT_READ),
        (0x40_1000, 0x2000, PROT_READ | PROT_EXEC),
        (0x40_3000, 0x3000, PROT_READ | PROT_WRITE),
    ] {
        let expected = Region {
            place: Range { base, len_bytes },
            prot,
            kind: RegionKind::Image,
        };
        assert_eq!(region(&rank, base), expected);
    }
    let file = program(0x40_1000, &SEGMENTS, 0x3080);
    for (_, offset, vaddr, file_bytes, mem_bytes) in SEGMENTS {
        let mut bytes = vec![1; mem_bytes as usize];
        rank.pages.read(vaddr, &mut bytes).expect("mapped");
        let (filled, zero) = bytes.split_at(file_bytes as usize);
        assert_eq!(filled, &file[offset as usize..][..filled.len()]);
        assert!(zero.iter().all(|&byte| byte == 0));
    }
}

/// What can be shared is not read: its pages hold what the file holds, also behind the end of the segment. The rest is as ever.
#[test]
fn text_is_shared_where_that_can_be() {
    let mut fake = typical();
    fake.shares_text = true;
    let mut rank = loaded(fake);
    assert_eq!(region(&rank, 0x40_1000).prot, PROT_READ | PROT_EXEC);
    assert_eq!(region(&rank, 0x40_3000).prot, PROT_READ | PROT_WRITE);
    let file = program(0x40_1000, &SEGMENTS, 0x3080);
    let mut bytes = vec![0; 0x2000];
    rank.pages.read(0x40_1000, &mut bytes).expect("mapped");
    assert_eq!(bytes, file[0x1000..0x3000]);
    rank.pages
        .read(0x40_4080, &mut bytes[..0x100])
        .expect("mapped");
    assert!(bytes[..0x100].iter().all(|&byte| byte == 0), "zeroes stay");
}

const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;

/// A position-independent program, and an interpreter of three pages.
fn dynamic() -> Fake {
    let shift = |(flags, offset, vaddr, file_bytes, mem_bytes)| {
        (flags, offset, vaddr - 0x40_0000, file_bytes, mem_bytes)
    };
    let mut headers = SEGMENTS.map(|s| (PT_LOAD, shift(s))).to_vec();
    headers.insert(0, (PT_INTERP, (R, 0x280, 0x280, 8, 8)));
    let program = elf(ET_DYN, 0x1000, &headers, 0x3080);
    let mut fake = Fake::new(program, &["a.out", "x"], &["A=1"]);
    let headers = [
        (PT_LOAD, (RX, 0, 0, 0x1800, 0x1800)),
        (PT_LOAD, (RW, 0x1800, 0x2800, 0x80, 0x100)),
    ];
    fake.interpreter = elf(ET_DYN, 0x200, &headers, 0x1880);
    fake.info.interpreter_bytes = 0x1880;
    fake
}

/// Where its interpreter is loaded: at the end of the mmap area.
const INTERPRETER: u64 = map::STACK_TOP - (8 << 20) - map::STACK_GAP - 3 * map::PAGE;

#[test]
fn a_dynamic_program_begins_in_its_interpreter() {
    let mut rank = loaded(dynamic());
    let start = rank.started.expect("started");
    assert_eq!(start.entry, INTERPRETER + 0x200);
    assert_eq!(start.heap_start, map::PIE_BASE + 0x6000);
    let aux = vectors(&mut rank);
    assert_eq!(aux(at::BASE), INTERPRETER);
    assert_eq!(aux(at::ENTRY), map::PIE_BASE + 0x1000);
    assert_eq!(aux(at::PHDR), map::PIE_BASE + 0x40);
    assert_eq!(aux(at::PHNUM), 4);
    for (base, len_bytes, prot) in [
        (map::PIE_BASE, 0x1000, PROT_READ),
        (INTERPRETER, 0x2000, PROT_READ | PROT_EXEC),
        (INTERPRETER + 0x2000, 0x1000, PROT_READ | PROT_WRITE),
    ] {
        let region = region(&rank, base);
        assert_eq!((region.place.len_bytes, region.prot), (len_bytes, prot));
    }
    let mut bytes = vec![1; 0x100];
    rank.pages
        .read(INTERPRETER + 0x2800, &mut bytes)
        .expect("mapped");
    let file = dynamic().interpreter;
    assert_eq!(
        (&bytes[..0x80], &bytes[0x80..]),
        (&file[0x1800..], &[0; 0x80][..])
    );
}

#[test]
fn an_interpreter_that_does_not_serve_is_blamed() {
    let mut none = dynamic();
    none.info.interpreter_bytes = 0;
    assert_eq!(
        refusal(none),
        "it needs an interpreter, but its proxy has none"
    );
    let mut text = dynamic();
    text.interpreter = b"#!/bin/sh".to_vec();
    text.info.interpreter_bytes = 9;
    assert_eq!(refusal(text), "its interpreter: not an ELF program");
    let mut shrunk = dynamic();
    shrunk.interpreter.truncate(0x1000);
    assert_eq!(
        refusal(shrunk),
        "its interpreter: cannot be read: it ended at byte 4096; was it changed meanwhile?"
    );
}

/// What a rank finds on its stack: checks its arguments and environment, and gives its auxiliary vector.
fn vectors(rank: &mut Rank) -> impl Fn(u64) -> u64 + use<> {
    let sp = rank.started.expect("started").stack_pointer;
    let words: Vec<u64> = (0..7 + 2 * AUX_PAIRS as u64)
        .map(|i| rank.pages.word(sp + 8 * i))
        .collect();
    assert_eq!((words[0], words[3], words[5]), (2, 0, 0));
    assert_eq!(rank.pages.string(words[2]), "x");
    assert_eq!(rank.pages.string(words[4]), "A=1");
    move |kind| {
        let pair = words[6..].chunks(2).find(|pair| pair[0] == kind);
        pair.expect("every entry")[1]
    }
}

#[test]
fn the_stack_holds_what_linux_puts_there() {
    let mut rank = loaded(typical());
    let aux = vectors(&mut rank);
    for (kind, value) in [
        (at::PHDR, 0x40_0040),
        (at::PHENT, 56),
        (at::PHNUM, 3),
        (at::ENTRY, 0x40_1000),
        (at::PAGESZ, 4096),
        (at::CLKTCK, 100),
        (at::BASE, 0),
        (at::FLAGS, 0),
        (at::UID, 1000),
        (at::EUID, 1001),
        (at::GID, 1002),
        (at::EGID, 1003),
        (at::SECURE, 0),
        (at::HWCAP, 0x1234),
        (at::HWCAP2, 2),
        (at::MINSIGSTKSZ, 3632),
        (at::SYSINFO_EHDR, map::VDSO_AREA + map::PAGE),
        (map::AT_MARGAY, map::INFO_PAGE),
        (at::NULL, 0),
    ] {
        assert_eq!(aux(kind), value, "entry {kind}");
    }
    let (path, platform, random) = (aux(at::EXECFN), aux(at::PLATFORM), aux(at::RANDOM));
    assert_eq!(rank.pages.string(path), "/bin/program");
    assert_eq!(rank.pages.string(platform), "x86_64");
    assert_eq!(rank.pages.word(random), 0x0123_4567_89ab_cdef);
    let stack = region(&rank, map::STACK_TOP - (8 << 20));
    assert_eq!(
        (stack.kind, stack.prot),
        (RegionKind::Stack, PROT_READ | PROT_WRITE)
    );
    // Nothing is left of the headers that went through its low end.
    let mut low = [1; HEAD_BYTES];
    rank.pages.read(stack.place.base, &mut low).expect("mapped");
    assert_eq!(low, [0; HEAD_BYTES]);
}

#[test]
fn the_vdso_lies_above_the_clock_page() {
    let mut rank = loaded(typical());
    let vvar = region(&rank, map::VDSO_AREA);
    assert_eq!((vvar.kind, vvar.prot), (RegionKind::Vvar, PROT_READ));
    let info = region(&rank, map::INFO_PAGE);
    assert_eq!((info.kind, info.prot), (RegionKind::Info, PROT_READ));
    let code = region(&rank, map::VDSO_AREA + map::PAGE);
    assert_eq!(
        (code.kind, code.prot),
        (RegionKind::Vdso, PROT_READ | PROT_EXEC)
    );
    let mut bytes = vec![0; vdso::IMAGE.len()];
    rank.pages
        .read(code.place.base, &mut bytes)
        .expect("mapped");
    assert_eq!(bytes, vdso::IMAGE);
}

#[test]
fn a_page_that_segments_share_has_the_rights_of_both() {
    // Old linkers end the text and start the data in one page; here three segments meet in it.
    let segments = [
        (RX, 0, 0x40_0000, 0x1800, 0x1800),
        (R, 0x1800, 0x40_1800, 0x100, 0x100),
        (RW, 0x1900, 0x40_1900, 0x100, 0x1000),
    ];
    let file = program(0x40_0100, &segments, 0x1a00);
    let mut rank = loaded(Fake::new(file.clone(), &["a"], &[]));
    assert_eq!(region(&rank, 0x40_0000).prot, PROT_READ | PROT_EXEC);
    assert_eq!(
        region(&rank, 0x40_1000).prot,
        PROT_READ | PROT_WRITE | PROT_EXEC
    );
    assert_eq!(region(&rank, 0x40_2000).prot, PROT_READ | PROT_WRITE);
    let mut bytes = vec![0; 0x1a00];
    rank.pages.read(0x40_0000, &mut bytes).expect("mapped");
    assert_eq!(bytes, file);
}

#[test]
fn short_reads_are_continued_and_a_shrinking_file_is_noticed() {
    let mut fake = typical();
    fake.read_bytes = 0x1400;
    loaded(fake);
    let mut fake = typical();
    fake.program.truncate(0x2000);
    assert_eq!(
        refusal(fake),
        "cannot be read: it ended at byte 8192; was it changed meanwhile?"
    );
}

/// A proxy that gives a few bytes at a time, for ever, does not keep the PCT from its other ranks.
#[test]
fn crumbs_are_not_taken_for_progress() {
    let segments = [(RX, 0, 0x40_0000, 0x1_0000, 0x1_0000)];
    let mut fake = Fake::new(program(0x40_0100, &segments, 0x1_0000), &["a"], &[]);
    fake.read_bytes = 200;
    assert!(refusal(fake).starts_with("cannot be read: it ended at byte 12800"));
}

#[test]
fn what_is_no_program_is_refused_in_one_line() {
    let text = Fake::new(b"#!/bin/sh\necho hello\n".to_vec(), &["a"], &[]);
    assert_eq!(refusal(text), "not an ELF program");
    assert_eq!(
        refusal(Fake::new(Vec::new(), &["a"], &[])),
        "not an ELF program"
    );
    let mut cut = typical();
    cut.program.truncate(0x3000);
    cut.info.file_bytes = 0x3000;
    assert!(refusal(cut).starts_with("truncated: 12288 bytes long"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut many = typical();
    many.info.strings_bytes = 3 << 20;
    assert_eq!(
        refusal(many),
        "arguments and environment of 3145728 bytes do not fit a quarter of its stack of 8192 KiB: E2BIG"
    );
    let big = [
        SEGMENTS[0],
        SEGMENTS[1],
        (RW, 0x2f00, 0x40_3f00, 0x180, 1 << 30),
    ];
    let big = Fake::new(program(0x40_1000, &big, 0x3080), &["a"], &[]);
    assert_eq!(
        refusal(big),
        "its image does not fit: 1048580 KiB at 0x403000: ENOMEM"
    );
    let high = map::STACK_TOP - (4 << 20);
    let high = Fake::new(
        program(high, &[(RX, 0, high, 0x300, 0x300)], 0x300),
        &["a"],
        &[],
    );
    assert_eq!(
        refusal(high),
        "its segments end at 0x7fffa01000, within its stack"
    );
}

/// Every control call in turn fails, or a host call returns nonsense: always a line, never a start or a hang.
#[test]
fn every_mishap_ends_in_one_line() {
    let mut sound = dynamic();
    load_into(&mut sound, 0).expect("a sound program");
    for call in 0..sound.calls {
        let mut fake = dynamic();
        fake.mishaps.insert(call, Err(Errno::EIO));
        let why = refusal(fake);
        assert!(why.ends_with(": EIO"), "call {call}: {why}");
        for nonsense in [0, 1, 100, u64::MAX] {
            let mut fake = dynamic();
            fake.mishaps.insert(call, Ok(nonsense));
            if let Err(why) = load_into(&mut fake, 0) {
                assert!(!why.is_empty() && !why.contains('\n'));
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn garbage_is_loaded_or_refused(
        edits in proptest::collection::vec((16usize..64 + 4 * 56, proptest::num::u8::ANY), 0..8),
        info in proptest::array::uniform13(proptest::prop_oneof![0u64..5000, proptest::num::u64::ANY]),
        keep: [bool; 13],
        strings: Vec<u8>,
    ) {
        let mut fake = dynamic();
        for (at, byte) in edits {
            fake.program[at] = byte;
        }
        let mut words = fake.info.to_words();
        for (i, word) in words.iter_mut().enumerate() {
            if !keep[i] {
                *word = info[i];
            }
        }
        fake.info = RankInfo::from_words(&words);
        if !keep[2] {
            fake.strings = strings;
        }
        let result = load_into(&mut fake, 0);
        let started = fake.ranks.get(&0).is_some_and(|rank| rank.started.is_some());
        proptest::prop_assert_eq!(result.is_ok(), started, "{}", format!("{result:?}"));
    }
}
