//! Broken parts of the node: kernels and PCTs that are garbage, a PCT that crashes.

use std::fs;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::report;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use crate::{case, fine};

/// Statuses of a node that cannot be had (EX_UNAVAILABLE) or broke (EX_SOFTWARE).
const BROKEN: &[i32] = &[69, 70];

pub fn all() -> Vec<Trial> {
    let pct = |name: &str| format!("node: the PCT is {name}");
    vec![
        case(pct("empty"), || garbage("MARGAY_PCT", Vec::new())),
        case(pct("text"), || {
            garbage("MARGAY_PCT", b"hello\n".repeat(1000))
        }),
        case(pct("noise"), || garbage("MARGAY_PCT", noise(100_000))),
        case(pct("cut"), || garbage("MARGAY_PCT", cut()?)),
        case(pct("full of noise"), || {
            garbage("MARGAY_PCT", overwritten()?)
        }),
        case(pct("another program"), || {
            garbage("MARGAY_PCT", fs::read(fine())?)
        }),
        case(pct("crashing"), || {
            garbage(
                "MARGAY_PCT",
                fs::read(tree::program("glibc-static", "crash"))?,
            )
        }),
        case("node: the kernel is text", || {
            garbage("MARGAY_KERNEL", b"hello\n".repeat(1000))
        }),
        case("node: the kernel is a program", || {
            garbage("MARGAY_KERNEL", fs::read(fine())?)
        }),
    ]
}

/// The beginning of the PCT: its headers and a page of what they speak of.
fn cut() -> Result<Vec<u8>> {
    let mut bytes = fs::read(tree::node_files().join("pct"))?;
    bytes.truncate(8192);
    Ok(bytes)
}

/// The PCT with its headers and none of its code: it runs into garbage.
fn overwritten() -> Result<Vec<u8>> {
    let mut bytes = fs::read(tree::node_files().join("pct"))?;
    let headers = 4096.min(bytes.len());
    let filling = noise(bytes.len() - headers);
    bytes[headers..].copy_from_slice(&filling);
    Ok(bytes)
}

/// Bytes without a pattern, always the same.
fn noise(len_bytes: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_9abc_def1u64;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(step).take(len_bytes).collect()
}

/// A node with this file in the place of one of its own: it does not come up or breaks, and yod says so. A crash report of
/// the PCT may follow the line.
fn garbage(variable: &str, bytes: Vec<u8>) -> Result<()> {
    let scratch = Scratch::new()?;
    let file = scratch.path().join("garbage");
    fs::write(&file, bytes)?;
    let run = Run::yod(&["--", &fine()]).env(&[
        (variable, &*file.to_string_lossy()),
        ("MARGAY_BOOT_TIMEOUT_S", "5"),
    ]);
    let mut outcome = clean::run_in(run, &scratch)?;
    let status = outcome.status.unwrap_or_default();
    ensure!(
        BROKEN.contains(&status),
        "status {status}: {}",
        outcome.stderr.text()
    );
    ensure!(
        outcome.stdout.len_bytes == 0,
        "stdout: {}",
        outcome.stdout.text()
    );
    let own = report::own_lines(outcome.stderr.head()).join("\n");
    ensure!(
        report::without_own_lines(outcome.stderr.head()).is_empty(),
        "more than a report: {}",
        outcome.stderr.text()
    );
    outcome.stderr = margay_tests::capture::Captured::of(own.as_bytes());
    one_line(&outcome, status, "")
}
