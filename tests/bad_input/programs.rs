//! Programs that do wrong, listed in programs/bad.tsv.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::manifest::{self, End, Row};
use margay_tests::report;
use margay_tests::run::{Outcome, Run, SECONDS_TO_BEGIN};
use margay_tests::tree;

use crate::case;

/// `--timeout`'s status, as timeout(1) has it.
const TIMEOUT: i32 = 124;

pub fn all() -> Vec<Trial> {
    let rows = manifest::read("bad.tsv", "4M").expect("a right manifest");
    let cases = rows
        .into_iter()
        .map(|row| case(format!("program: {}", row.name), move || check(&row)));
    cases.collect()
}

fn check(row: &Row) -> Result<()> {
    match row.end {
        End::Never => never_ends(row),
        End::Status(_) if row.extra.needs_kvm && tree::accel() != "kvm" => emulation_is_named(row),
        End::Status(status) if row.extra.ranks.is_some() => one_rank_ends(row, status),
        End::Status(status) => like_linux(row, status),
    }
}

fn never_ends(row: &Row) -> Result<()> {
    let mut said = String::new();
    for seconds in SECONDS_TO_BEGIN {
        let outcome = clean::run(Run::margay(row, &["--timeout", seconds]))?;
        one_line(&outcome, TIMEOUT, "--timeout")?;
        said = outcome.stdout.text();
        if !said.is_empty() {
            break;
        }
    }
    ensure!(said.starts_with("never ending"), "stdout: {said}");
    Ok(())
}

/// Where the emulated CPU cannot do as the program requests, the program goes on, and one line says so.
fn emulation_is_named(row: &Row) -> Result<()> {
    let outcome = clean::run(Run::margay(row, &[]))?;
    one_line(&outcome, 0, "emulated CPU")
}

/// What one rank does decides for all; the line names it and those that were ended.
fn one_rank_ends(row: &Row, status: i32) -> Result<()> {
    let outcome = clean::run(Run::margay(row, &[]))?;
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status == Some(status),
        "status {:?} instead of {status}: {stderr}",
        outcome.status
    );
    let own = report::own_lines(outcome.stderr.head());
    if status == 0 {
        ensure!(stderr.is_empty(), "stderr: {stderr}");
        return Ok(());
    }
    let verdict = own.last().context("no line")?;
    ensure!(
        verdict.contains("rank ") && verdict.contains("ended "),
        "no name in it: {stderr}"
    );
    ensure!(
        !outcome.stdout.text().contains("waited to the end"),
        "the others were not ended"
    );
    let reports = usize::from(row.name == "rank_crashes");
    ensure!(own.len() == 1 + reports, "not one line: {stderr}");
    Ok(())
}

/// Ends as on Linux and says the same; a crash is reported besides.
fn like_linux(row: &Row, status: i32) -> Result<()> {
    let native = Run::native(row).run()?;
    // Without what yod says of refused calls: bad_input/refused.rs is about that.
    let outcome = clean::run(Run::margay(row, &["-q"]))?;
    let stderr = outcome.stderr.head();
    for (what, outcome) in [("natively", &native), ("here", &outcome)] {
        let got = outcome.status;
        ensure!(
            got == Some(status),
            "{what}: status {got:?} instead of {status}:\n{}",
            both(outcome)
        );
    }
    ensure!(
        native.stdout == outcome.stdout,
        "stdout natively:\n{}\nhere:\n{}",
        native.stdout.text(),
        outcome.stdout.text()
    );
    let own = report::without_own_lines(stderr);
    ensure!(
        own == native.stderr.head(),
        "stderr: {}",
        outcome.stderr.text()
    );
    match signal_name(status) {
        Some(signal) => report::check_crash_report(stderr, signal),
        None => {
            ensure!(
                report::own_lines(stderr).is_empty(),
                "stderr: {}",
                outcome.stderr.text()
            );
            Ok(())
        }
    }
}

fn both(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout.text(), outcome.stderr.text())
}

/// Signals of faults, by the status they give.
fn signal_name(status: i32) -> Option<&'static str> {
    match status - 128 {
        4 => Some("SIGILL"),
        5 => Some("SIGTRAP"),
        7 => Some("SIGBUS"),
        8 => Some("SIGFPE"),
        11 => Some("SIGSEGV"),
        _ => None,
    }
}
