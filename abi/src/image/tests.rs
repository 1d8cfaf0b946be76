//! The parser against programs that linkers make, and against bytes that no linker should make.

extern crate std;

use std::string::{String, ToString};
use std::vec::Vec;

use super::*;

mod random;

#[derive(Clone, Copy, Debug)]
struct Ph {
    kind: u32,
    flags: u32,
    offset: u64,
    vaddr: u64,
    file_bytes: u64,
    mem_bytes: u64,
}

const fn load(flags: u32, offset: u64, vaddr: u64, file_bytes: u64, mem_bytes: u64) -> Ph {
    Ph {
        kind: gabi::PT_LOAD,
        flags,
        offset,
        vaddr,
        file_bytes,
        mem_bytes,
    }
}

const R: u32 = gabi::PF_R;
const RW: u32 = gabi::PF_R | gabi::PF_W;
const RX: u32 = gabi::PF_R | gabi::PF_X;

/// What `ld -static` makes: headers, text, constants, data with bss.
const TYPICAL: [Ph; 4] = [
    load(R, 0, 0x40_0000, 0x300, 0x300),
    load(RX, 0x1000, 0x40_1000, 0x800, 0x800),
    load(R, 0x2000, 0x40_2000, 0x100, 0x100),
    load(RW, 0x2f00, 0x40_3f00, 0x100, 0x2000),
];
const FILE_BYTES: u64 = 0x3000;

/// The file's beginning with these program headers.
fn elf(kind: u16, entry: u64, headers: &[Ph]) -> Vec<u8> {
    let mut out = Vec::from([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(kind.to_le_bytes());
    out.extend(gabi::EM_X86_64.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    for word in [entry, 64, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0u32.to_le_bytes());
    for half in [64, 56, headers.len() as u16, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    for ph in headers {
        out.extend(ph.kind.to_le_bytes());
        out.extend(ph.flags.to_le_bytes());
        for word in [
            ph.offset,
            ph.vaddr,
            ph.vaddr,
            ph.file_bytes,
            ph.mem_bytes,
            4096,
        ] {
            out.extend(word.to_le_bytes());
        }
    }
    out
}

fn parse_loads(headers: &[Ph]) -> Result<Image, String> {
    let file = elf(gabi::ET_EXEC, 0x40_1000, headers);
    Image::parse(&file, FILE_BYTES).map_err(|error| error.to_string())
}

/// [`TYPICAL`] with one change.
fn changed(change: impl Fn(&mut [Ph; 4])) -> Result<Image, String> {
    let mut headers = TYPICAL;
    change(&mut headers);
    parse_loads(&headers)
}

#[test]
fn a_static_program_is_laid_out_as_linked() {
    let image = parse_loads(&TYPICAL).expect("a sound program");
    assert_eq!(image.entry, 0x40_1000);
    assert_eq!(
        (image.phdr_vaddr, image.phent, image.phnum),
        (0x40_0040, 56, 4)
    );
    assert_eq!(image.span(), (0x40_0000, 0x40_6000));
    assert_eq!(image.segments().len(), 4);
    assert_eq!(image.segments()[1].prot, PROT_READ | PROT_EXEC);
    assert_eq!(
        image.segments()[3],
        Segment {
            vaddr: 0x40_3f00,
            file_offset: 0x2f00,
            file_bytes: 0x100,
            mem_bytes: 0x2000,
            prot: PROT_READ | PROT_WRITE,
        }
    );
    assert!(!image.relocatable && !image.stack_exec && image.bias == 0);
}

#[test]
fn a_static_pie_program_goes_to_its_base() {
    let headers = TYPICAL.map(|ph| Ph {
        vaddr: ph.vaddr - 0x40_0000,
        ..ph
    });
    let file = elf(gabi::ET_DYN, 0x1000, &headers);
    let image = Image::parse(&file, FILE_BYTES).expect("a sound program");
    assert!(image.relocatable);
    assert_eq!(image.bias, map::PIE_BASE);
    assert_eq!(image.entry, map::PIE_BASE + 0x1000);
    assert_eq!(image.phdr_vaddr, map::PIE_BASE + 0x40);
    assert_eq!(image.span(), (map::PIE_BASE, map::PIE_BASE + 0x6000));
}

#[test]
fn an_executable_stack_is_seen() {
    let stack = |flags| Ph {
        kind: gabi::PT_GNU_STACK,
        ..load(flags, 0, 0, 0, 0)
    };
    let mut headers = TYPICAL.to_vec();
    headers.push(stack(RW));
    assert!(!parse_loads(&headers).expect("sound").stack_exec);
    headers[4] = stack(RW | RX);
    assert!(parse_loads(&headers).expect("sound").stack_exec);
}

#[test]
fn what_is_no_program_for_this_machine_is_named() {
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = elf(gabi::ET_EXEC, 0x40_1000, &TYPICAL);
        change(&mut file);
        Image::parse(&file, FILE_BYTES)
            .expect_err("unsound")
            .to_string()
    };
    assert_eq!(refused(&|f| f.clear()), "not an ELF program");
    assert_eq!(
        refused(&|f| f[..2].copy_from_slice(b"#!")),
        "not an ELF program"
    );
    assert_eq!(
        refused(&|f| {
            f[4] = 1;
            f[18] = gabi::EM_386 as u8;
        }),
        "a 32-bit program: only 64-bit programs are supported"
    );
    assert_eq!(
        refused(&|f| f[18] = gabi::EM_AARCH64 as u8),
        "built for 64-bit ARM, not for x86-64"
    );
    // Big-endian, as IBM Z is: the machine is named, not the byte order.
    assert_eq!(
        refused(&|f| {
            f[5] = 2;
            f[16..20].copy_from_slice(&[0, 2, 0, 22]);
        }),
        "built for IBM Z, not for x86-64"
    );
    assert_eq!(
        refused(&|f| f[16] = gabi::ET_REL as u8),
        "not a program but an object file that was not linked"
    );
    assert_eq!(
        refused(&|f| f[16] = gabi::ET_CORE as u8),
        "not a program but a core dump"
    );
    assert_eq!(
        refused(&|f| {
            f[16] = gabi::ET_DYN as u8;
            f[24..32].fill(0);
        }),
        "not a program but a shared library"
    );
}

/// [`TYPICAL`] with an interpreter whose path has so many bytes at this offset.
fn with_interpreter(offset: u64, file_bytes: u64) -> Result<Image, String> {
    let mut headers = TYPICAL.to_vec();
    headers.push(Ph {
        kind: gabi::PT_INTERP,
        ..load(R, offset, 0, file_bytes, file_bytes)
    });
    parse_loads(&headers)
}

#[test]
fn the_interpreter_is_found() {
    assert_eq!(parse_loads(&TYPICAL).expect("static").interpreter, None);
    let image = with_interpreter(0x300, 8).expect("dynamic");
    assert_eq!(image.interpreter, Some((0x300, 8)));
    // As Linux has it: at least a character and its NUL, at most PATH_MAX.
    for (offset, file_bytes, why) in [
        (0x300, 1, "is empty or too long"),
        (0x300, 4097, "is empty or too long"),
        (FILE_BYTES - 7, 8, "truncated"),
        (u64::MAX, 8, "truncated"),
    ] {
        let error = with_interpreter(offset, file_bytes).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_interpreter_ends_below_the_stack() {
    let top = map::STACK_TOP - (8 << 20) - map::STACK_GAP;
    let headers = TYPICAL.map(|ph| Ph {
        vaddr: ph.vaddr - 0x40_0000,
        ..ph
    });
    let file = elf(gabi::ET_DYN, 0x1000, &headers);
    let image = Image::parse_interpreter(&file, FILE_BYTES, top).expect("a sound interpreter");
    assert_eq!(image.span(), (top - 0x6000, top));
    assert_eq!((image.bias, image.entry), (top - 0x6000, top - 0x5000));
    assert!(Image::parse_interpreter(&file, FILE_BYTES, 0x5000).is_err());
    // One with fixed addresses keeps them.
    let file = elf(gabi::ET_EXEC, 0x40_1000, &TYPICAL);
    let image = Image::parse_interpreter(&file, FILE_BYTES, top).expect("a sound interpreter");
    assert_eq!((image.bias, image.entry), (0, 0x40_1000));
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn this_test_is_a_dynamic_program() {
    let me = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
    let image = Image::parse(&me[..HEAD_BYTES], me.len() as u64).expect("a program");
    let (offset, len_bytes) = image.interpreter.expect("dynamic");
    let path = &me[offset as usize..][..len_bytes as usize];
    assert!(path.starts_with(b"/lib") && path.ends_with(b"\0"));
}

#[test]
fn too_few_bytes_are_distinguished_from_too_short_a_file() {
    let file = elf(gabi::ET_EXEC, 0x40_1000, &TYPICAL);
    let needed_bytes = file.len() as u64;
    assert_eq!(
        Image::parse(&file[..100], FILE_BYTES),
        Err(ImageError::HeadTooShort { needed_bytes })
    );
    assert_eq!(
        Image::parse(&file[..100], 100),
        Err(ImageError::Truncated {
            needed_bytes,
            file_bytes: 100
        })
    );
    assert_eq!(
        Image::parse(&file[..10], FILE_BYTES),
        Err(ImageError::HeadTooShort { needed_bytes: 64 })
    );
    assert_eq!(
        Image::parse(&file, FILE_BYTES - 1),
        Err(ImageError::Truncated {
            needed_bytes: FILE_BYTES,
            file_bytes: FILE_BYTES - 1
        })
    );
}

#[test]
fn segments_that_cannot_be_laid_out_are_refused() {
    type Change = &'static dyn Fn(&mut [Ph; 4]);
    let cases: [(Change, &str); 7] = [
        (
            &|h| h[1].vaddr = 0x40_0000,
            "its segment at 0x400000 overlaps the one before it",
        ),
        (
            &|h| h[0].vaddr = 0x3000,
            "its segment at 0x3000 lies outside the addresses a program may use",
        ),
        (
            &|h| h[3].vaddr = map::STACK_TOP - 0x100,
            "its segment at 0x7fffdfff00 lies outside the addresses a program may use",
        ),
        (
            &|h| h[3].mem_bytes = u64::MAX,
            "its segment at 0x403f00 lies outside the addresses a program may use",
        ),
        (
            &|h| h[3].vaddr += 8,
            "its segment at 0x403f08 is not aligned with its place in the file",
        ),
        (
            &|h| h[3].file_bytes = 0x2001,
            "its segment at 0x403f00 is longer in the file than in memory",
        ),
        (
            &|h| h[1].flags = R,
            "its entry point 0x401000 is not in an executable segment",
        ),
    ];
    for (change, message) in cases {
        assert_eq!(changed(change).expect_err(message), message);
    }
}

#[test]
fn counts_are_limited() {
    assert_eq!(
        parse_loads(&[]).expect_err("none"),
        "has no segments to load"
    );
    let many: Vec<Ph> = (0..17)
        .map(|i| load(RX, 0, 0x40_0000 + i * 0x1000, 0, 0x1000))
        .collect();
    assert!(parse_loads(&many[..16]).is_ok());
    assert_eq!(
        parse_loads(&many).expect_err("many"),
        "has more than 16 segments to load"
    );
    let empty = [load(RX, 0, 0x40_0000, 0, 0); 4];
    assert_eq!(
        parse_loads(&empty).expect_err("empty"),
        "has no segments to load"
    );
    assert_eq!(
        parse_loads(&[TYPICAL[0]; 74]).expect_err("headers"),
        "invalid ELF header: it has too many program headers"
    );
}

/// Old linkers put the end of the text and the start of the data into one page.
#[test]
fn segments_may_share_a_page() {
    let image = changed(|h| {
        h[2] = load(R, 0x1800, 0x40_1800, 0x100, 0x100);
    });
    assert!(image.is_ok(), "{image:?}");
}
