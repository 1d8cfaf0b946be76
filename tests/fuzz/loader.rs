//! The ELF loader: headers of real programs with a few things changed.

use std::fs;

use abi::image::{HEAD_BYTES, Image, PROT_EXEC};
use abi::map::{PAGE, STACK_GAP, STACK_TOP, USER_BASE, USER_TOP};
use anyhow::{Context, Result, ensure};
use margay_tests::random::Random;
use margay_tests::tree;

use crate::Budget;

/// Programs whose headers are mutated: every kind of build there is.
const PROGRAMS: &[(&str, &str)] = &[
    ("glibc-static", "hello"),
    ("musl-static", "arguments"),
    ("static-pie", "arguments"),
    ("rust-musl", "rust_env"),
    ("glibc-dynamic", "linked"),
    ("glibc-nopie", "linked"),
];
/// Bytes in which everything stands that the loader uses.
const HEADERS_BYTES: u64 = 64 + 14 * 56;

pub fn images(mut budget: Budget) -> Result<()> {
    let heads = PROGRAMS
        .iter()
        .map(|(kind, name)| head(kind, name))
        .collect::<Result<Vec<_>>>()?;
    let (mut loadable, mut refused) = (0u64, 0u64);
    while budget.lasts() {
        for _ in 0..1000 {
            let (mut bytes, mut file_bytes) = budget.random.pick(&heads).clone();
            mutate(&mut bytes, &mut file_bytes, &mut budget.random);
            let parsed = match budget.random.below(2) {
                0 => Image::parse(&bytes, file_bytes),
                _ => Image::parse_interpreter(&bytes, file_bytes, STACK_TOP - STACK_GAP),
            };
            match parsed {
                Ok(image) => {
                    loadable += 1;
                    check(&image, file_bytes).with_context(|| format!("{image:x?}"))?;
                }
                Err(error) => {
                    refused += 1;
                    ensure!(!error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }
    ensure!(
        loadable > 0 && refused > 0,
        "{loadable} loadable, {refused} refused: no use"
    );
    Ok(())
}

/// The beginning of a program and the length of its file.
fn head(kind: &str, name: &str) -> Result<(Vec<u8>, u64)> {
    let path = tree::program(kind, name);
    let mut bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let file_bytes = bytes.len() as u64;
    bytes.truncate(HEAD_BYTES);
    Ok((bytes, file_bytes))
}

fn mutate(bytes: &mut Vec<u8>, file_bytes: &mut u64, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(HEADERS_BYTES) as usize;
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            // Whole fields: addresses, lengths and offsets near what overflows.
            2 => put(bytes, at & !7, interesting(random)),
            3 => {
                let old = u64::from_le_bytes(std::array::from_fn(|i| bytes[(at & !7) + i]));
                put(
                    bytes,
                    at & !7,
                    old.wrapping_add(random.below(3).wrapping_sub(1).wrapping_mul(PAGE)),
                );
            }
            _ => bytes.copy_within(64 + 56..64 + 2 * 56, 64 + 56 * random.below(6) as usize),
        }
    }
    match random.below(20) {
        0 => bytes.truncate(random.below(HEADERS_BYTES) as usize),
        // No file is longer than off_t can say.
        1 => *file_bytes = interesting(random) & i64::MAX as u64,
        _ => {}
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn interesting(random: &mut Random) -> u64 {
    let near = *random.pick(&[
        0,
        PAGE,
        USER_BASE,
        0x40_0000,
        1 << 31,
        1 << 32,
        USER_TOP,
        1 << 47,
        1 << 63,
        u64::MAX,
    ]);
    near.wrapping_add(random.below(3).wrapping_sub(1))
        .wrapping_sub(random.below(2) * PAGE)
}

/// What the PCT takes for granted.
fn check(image: &Image, file_bytes: u64) -> Result<()> {
    let segments = image.segments();
    ensure!(!segments.is_empty(), "no segments");
    if let Some((offset, len_bytes)) = image.interpreter {
        let end = offset.checked_add(len_bytes).context("it wraps around")?;
        ensure!(
            end <= file_bytes && (2..=PAGE).contains(&len_bytes),
            "its interpreter's path"
        );
    }
    for segment in segments {
        ensure!(segment.vaddr >= USER_BASE, "below user memory");
        let end = segment
            .vaddr
            .checked_add(segment.mem_bytes)
            .context("it wraps around")?;
        ensure!(
            end <= USER_TOP && segment.mem_bytes > 0,
            "above user memory, or empty"
        );
        ensure!(
            segment.file_bytes <= segment.mem_bytes,
            "more in the file than in memory"
        );
        let file_end = segment
            .file_offset
            .checked_add(segment.file_bytes)
            .context("it wraps around")?;
        ensure!(
            segment.file_bytes == 0 || file_end <= file_bytes,
            "beyond the file's end"
        );
        ensure!(
            segment.file_bytes == 0 || segment.vaddr % PAGE == segment.file_offset % PAGE,
            "offsets in the page differ"
        );
    }
    ensure!(
        segments
            .windows(2)
            .all(|pair| pair[0].end() <= pair[1].vaddr),
        "out of order, or overlapping"
    );
    let code = segments
        .iter()
        .filter(|segment| segment.prot & PROT_EXEC != 0);
    let mut code = code.map(|segment| segment.vaddr..segment.end());
    ensure!(
        code.any(|range| range.contains(&image.entry)),
        "the entry is not in code"
    );
    let (start, end) = image.span();
    ensure!(
        start % PAGE == 0 && end % PAGE == 0 && start < end && end <= USER_TOP,
        "its span"
    );
    Ok(())
}
