//! How many calls the host's Linux gets for what a rank does, counted by strace: of those that concern files, for how often a worker
//! sleeps depends on the host.

use std::fs;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Calls of all processes of a node whose program makes so many files.
fn calls(files: u64) -> Result<u64> {
    const TRACED: &str = "--trace=%file,close,dup,dup3,fcntl,fstat,fstatfs,prlimit64";
    let scratch = Scratch::new()?;
    let counts = scratch.path().join("counts");
    let output = format!("--output={}", counts.display());
    let program = tree::program("glibc-static", "creates");
    let yod =
        Run::yod(&["-m", "34M", "--"]).args(&[&*program.to_string_lossy(), &files.to_string()]);
    let strace = [
        "/usr/bin/strace",
        "-f",
        "-c",
        "-U",
        "calls",
        TRACED,
        &output,
    ];
    clean::run_in(yod.under(&strace), &scratch)?.ended_well()?;
    let counts = fs::read_to_string(&counts)?;
    let sum = counts
        .lines()
        .find_map(|line| line.trim().strip_suffix(" total"));
    let sum = sum.and_then(|sum| sum.trim().parse().ok());
    sum.with_context(|| format!("no sum: {counts}"))
}

/// openat2, fstat, close. A tenth is for what else is different from run to run.
#[test]
fn a_new_file_takes_three() -> Result<()> {
    const FILES: u64 = 200;
    let made = calls(50 + FILES)?.saturating_sub(calls(50)?);
    ensure!(
        (3 * FILES..=3 * FILES + FILES / 10).contains(&made),
        "{made} calls for {FILES} files"
    );
    Ok(())
}
