//! Comparing a native run with one on a node.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::capture::Captured;
use crate::manifest::{End, Row};
use crate::report::{self, Stderr};
use crate::run::{HANG, Outcome, Run};
use crate::scratch::Scratch;

/// What Margay's uname(2) has in its release.
const MARK: &str = "margay";
/// Lines of an output that are shown when it differs.
const SHOWN_LINES: usize = 8;

/// Checks that two runs cannot be distinguished: status, outputs, files.
///
/// # Errors
/// Shows the first difference.
pub fn same(native: &Outcome, margay: &Outcome, margay_stderr: &[u8]) -> Result<()> {
    if native.status != margay.status {
        bail!(
            "status {} natively, {} here\n{}{}stdout ends:\n{}",
            status(native),
            status(margay),
            String::from_utf8_lossy(margay_stderr),
            failed_checks(&margay.stdout),
            last_lines(&margay.stdout)
        );
    }
    same_bytes("stdout", &native.stdout, &margay.stdout)?;
    same_bytes("stderr", &native.stderr, &Captured::of(margay_stderr))?;
    for (path, left) in &native.files {
        let other = margay.files.get(path);
        ensure!(
            other == Some(left),
            "{}: {left:?} natively, {other:?} here",
            path.display()
        );
    }
    for path in margay.files.keys() {
        ensure!(
            native.files.contains_key(path),
            "{}: not there natively",
            path.display()
        );
    }
    Ok(())
}

fn status(outcome: &Outcome) -> String {
    outcome
        .status
        .map_or_else(|| "none (hung)".into(), |status| status.to_string())
}

fn last_lines(output: &Captured) -> String {
    let text = output.text();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

/// Lines in which the program itself says what is wrong, each with the one that explains it.
fn failed_checks(output: &Captured) -> String {
    let text = output.text();
    let mut shown = String::new();
    let mut explained = true;
    for line in text.lines() {
        let failed = line.starts_with("FAIL");
        if failed || !explained {
            shown.push_str(line);
            shown.push('\n');
        }
        explained = !failed;
    }
    shown
}

/// Checks that a program that counts its checks (programs/common/check.h), each rank's by itself, ended well.
///
/// # Errors
/// Shows all that it said.
pub fn checks_passed(outcome: &Outcome) -> Result<()> {
    outcome.ended()?;
    let (said, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    let failed = said.lines().any(|line| line.starts_with("FAIL"));
    ensure!(
        outcome.status == Some(0) && !failed && said.contains(" checks, 0 failed"),
        "status {:?}:\n{said}{stderr}",
        outcome.status
    );
    Ok(())
}

fn same_bytes(what: &str, native: &Captured, margay: &Captured) -> Result<()> {
    if native == margay {
        return Ok(());
    }
    let (left, right) = (native.text(), margay.text());
    let differing = left.lines().zip(right.lines()).position(|(a, b)| a != b);
    let line = differing.unwrap_or_else(|| left.lines().count().min(right.lines().count()));
    let show = |text: &str| {
        let lines = text.lines().skip(line).take(SHOWN_LINES);
        lines
            .map(|line| format!("  {}\n", cut(line)))
            .collect::<String>()
    };
    bail!(
        "{what} differs from line {}: {native:?} natively:\n{}{margay:?} here:\n{}",
        line + 1,
        show(&left),
        show(&right)
    )
}

fn cut(line: &str) -> String {
    line.chars().take(200).collect()
}

/// Gibibytes that are computed, moved and checked on an emulated CPU take their time, and so does what is done once for that.
fn limit(row: &Row) -> Duration {
    if row.category == "streams" || row.extra.once {
        12 * HANG
    } else {
        HANG
    }
}

fn outcome(row: &Row, run: Run) -> Result<Outcome> {
    let scratch = if row.runs_as_nobody() {
        Scratch::of_nobody()?
    } else {
        Scratch::new()?
    };
    let outcome = run.limit(limit(row)).run_in(&scratch)?;
    outcome.ended()?;
    Ok(outcome)
}

/// Runs a row natively and on a node and checks that they cannot be distinguished, and that the second was on a node.
///
/// # Errors
/// Says what differs.
pub fn row(row: &Row) -> Result<()> {
    on_a_node(row, &natively(row)?)
}

/// Runs a row natively.
///
/// # Errors
/// When it does not end as the row says.
pub fn natively(row: &Row) -> Result<Outcome> {
    let native = outcome(row, Run::native(row)).context("natively")?;
    let End::Status(wanted) = row.end else {
        bail!("a program that does not end cannot be compared");
    };
    ensure!(
        native.status == Some(wanted),
        "natively: status {} instead of {wanted}\n{}stdout ends:\n{}\n{}",
        status(&native),
        failed_checks(&native.stdout),
        last_lines(&native.stdout),
        native.stderr.text()
    );
    Ok(native)
}

/// Runs a row on a node and checks that it was on one, and cannot be distinguished from the native run.
///
/// # Errors
/// Says what differs.
pub fn on_a_node(row: &Row, native: &Outcome) -> Result<()> {
    let margay = outcome(row, Run::margay(row, &["--stats=json"]))?;
    let (stats, rest) = match Stderr::new(margay.stderr.head()) {
        Ok(stderr) => (Some(stderr.stats), stderr.rest),
        Err(_) => (None, margay.stderr.head().to_vec()),
    };
    // A rank that died of a fault is reported; no other run has anything on stderr that is not its own.
    let own = if native.status > Some(128) {
        report::without_own_lines(&rest)
    } else {
        rest
    };
    same(native, &margay, &own)?;
    let release = margay.release.as_deref().unwrap_or_default();
    ensure!(
        release.contains(MARK),
        "uname says {release:?}: this did not run on Margay"
    );
    let entries = stats.context("no statistics on stderr")?.rank_entries()?;
    ensure!(
        entries > 0,
        "no entry from ring 3: this did not run on Margay"
    );
    Ok(())
}
