//! Ranks that use up what the kernel has for threads, timers, regions and those who wait.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::tree;

use crate::case;

/// Ranks that do so at the same time.
const RANKS: usize = 6;

pub fn all() -> Vec<Trial> {
    vec![
        case("exhaustion: the kernel's memory", kernel_memory),
        case("exhaustion: those who wait", waiters),
    ]
}

/// The room for threads was one for all ranks: the first rank took it, and others could start none at all.
fn kernel_memory() -> Result<()> {
    let program = tree::program("glibc-static", "kernel_heap");
    let ranks = RANKS.to_string();
    let options = ["-n", &ranks, "--oversubscribe", "-m", "72M"];
    let run = Run::yod(&options).args(&["--", &program.to_string_lossy(), "count"]);
    let outcome = clean::run(run)?;
    let said = outcome.stdout.text();
    ensure!(
        outcome.status == Some(0),
        "status {:?}: {said}{}",
        outcome.status,
        outcome.stderr.text()
    );
    let lines = said.lines().filter(|line| line.ends_with(" regions"));
    let threads: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    ensure!(threads.len() == RANKS, "not a line of each rank: {said}");
    let distinct: BTreeSet<_> = threads.into_iter().collect();
    let count: usize = distinct.first().context("none")?.parse()?;
    ensure!(
        distinct.len() == 1 && count > 0 && count < 1000,
        "not the same number of threads, and fewer than a rank with much memory has: {said}"
    );
    Ok(())
}

/// What the kernel keeps for those who wait for a word stayed with the words' bucket: 64 threads that waited for one word after the
/// other used up the heap for good, for every rank.
fn waiters() -> Result<()> {
    let threads = |rounds: &str| -> Result<String> {
        let program = tree::program("glibc-static", "futex_heap");
        let run = Run::yod(&["-m", "96M"]).args(&["--", &program.to_string_lossy(), rounds]);
        let outcome = clean::run(run)?;
        let said = outcome.stdout.text();
        let line = said.lines().find(|line| line.ends_with(" threads"));
        let good = outcome.status == Some(0);
        ensure!(good, "{said}{}", outcome.stderr.text());
        Ok(line.context("no number")?.to_owned())
    };
    let (few, many) = (threads("0")?, threads("200")?);
    ensure!(few == many, "{few} without waiting, {many} after it");
    Ok(())
}
