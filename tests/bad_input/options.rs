//! Options that make no sense, or request more than the host has.

use anyhow::Result;
use libtest_mimic::Trial;
use margay_tests::clean::{self, one_line};
use margay_tests::run::Run;

use crate::{case, fine};

const USAGE: i32 = 2;

/// Options before a program that is fine, and what the line says.
const WRONG: &[(&[&str], &str)] = &[
    (&["-n", "0"], "-n 0"),
    (&["-n", "-1"], "-1"),
    (&["-n", "two"], "two"),
    (&["-n", "256", "--oversubscribe"], "at most 255"),
    (&["-n", "255"], "cores are available here"),
    (&["-n", "99999999999999999999"], "99999999999999999999"),
    (&["-d", "0"], "-d 0: a rank needs at least one core"),
    (&["-d", "-1"], "-1"),
    (&["-d", "x"], "'x' for '--cores-per-rank"),
    (
        &["-n", "64", "-d", "4", "--oversubscribe"],
        "-n 64 -d 4: a node has room for at most 255 cores",
    ),
    (
        &["-n", "25", "-d", "10"],
        "-n 25 -d 10: 250 cores are needed, only ",
    ),
    (&["-m", "0M"], "-m 0"),
    (&["-m", "512"], "K, M or G"),
    (&["-m", "lots"], "lots"),
    (&["-m", "1000T"], "available here"),
    (&["-m", "99999999999999999G"], "99999999999999999G"),
    (
        &["-n", "16", "--oversubscribe", "-m", "100T"],
        "available here",
    ),
    (&["--timeout", "0"], "more than 0"),
    (&["--timeout", "soon"], "soon"),
    (&["--timeout", "1e19"], "at most"),
    (&["--accel", "hvf"], "hvf"),
    (&["--machine", "xen"], "xen"),
    (
        &["--machine", "cokernel", "--accel", "tcg"],
        "--accel tcg is of QEMU, not of --machine cokernel",
    ),
    (&["--env", "NOVALUE"], "NAME=VALUE"),
    (&["--no-such-option"], "--no-such-option"),
    (&["--lable"], "did you mean --label?"),
];

pub fn all() -> Vec<Trial> {
    let mut cases: Vec<_> = WRONG
        .iter()
        .map(|&(options, part)| {
            case(format!("options: {}", options.join(" ")), move || {
                wrong(options, part)
            })
        })
        .collect();
    cases.push(case("options: no program", || no_program(&[])));
    cases.push(case("options: no program after --", || no_program(&["--"])));
    cases.extend(["1e19", "soon", "-1"].map(|value| {
        case(format!("options: boot timeout {value}"), move || {
            boot_timeout(value)
        })
    }));
    cases.push(case("options: MARGAY_OPTIONS", preset));
    cases.push(case("options: log to nowhere", log_to_nowhere));
    cases.push(case("options: log to a full disk", log_to_full_disk));
    cases.push(case("options: strace to nowhere", strace_to_nowhere));
    cases.push(case("options: stats to nowhere", stats_to_nowhere));
    cases
}

fn preset() -> Result<()> {
    let run = Run::yod(&["--", &fine()]).env(&[("MARGAY_OPTIONS", "--lable")]);
    one_line(
        &clean::run(run)?,
        USAGE,
        "MARGAY_OPTIONS: unexpected argument '--lable'",
    )
}

/// Seconds that a node gets to come up; a value that does not fit behind now panicked, one that is no number counted as none.
fn boot_timeout(value: &str) -> Result<()> {
    let run = Run::yod(&["--", &fine()]).env(&[("MARGAY_BOOT_TIMEOUT_S", value)]);
    one_line(&clean::run(run)?, USAGE, "MARGAY_BOOT_TIMEOUT_S")
}

fn wrong(options: &[&str], part: &str) -> Result<()> {
    // The accelerator is among what is tested: the program's own yod, without the harness's choice.
    let run = Run::bare_yod(options).args(&["--", &fine()]);
    one_line(&clean::run(run)?, USAGE, part)
}

fn no_program(options: &[&str]) -> Result<()> {
    one_line(&clean::run(Run::bare_yod(options))?, USAGE, "no PROGRAM")
}

fn log_to_nowhere() -> Result<()> {
    let outcome = clean::run(Run::yod(&[
        "--kernel-log",
        "/nonexistent/log",
        "--",
        &fine(),
    ]))?;
    named(&outcome, "/nonexistent/log")
}

/// A full disk cut the log without a word.
fn log_to_full_disk() -> Result<()> {
    let outcome = clean::run(Run::yod(&["--kernel-log", "/dev/full", "--", &fine()]))?;
    one_line(&outcome, 0, "cannot write: /dev/full: No space left")
}

fn strace_to_nowhere() -> Result<()> {
    let outcome = clean::run(Run::yod(&["--strace=/nonexistent/trace", "--", &fine()]))?;
    named(&outcome, "/nonexistent/trace")
}

fn stats_to_nowhere() -> Result<()> {
    let outcome = clean::run(Run::yod(&["--stats=/nonexistent/stats", "--", &fine()]))?;
    named(&outcome, "/nonexistent/stats")
}

/// One line that names the file; any status but success.
fn named(outcome: &margay_tests::run::Outcome, file: &str) -> Result<()> {
    let status = outcome.status.unwrap_or_default();
    anyhow::ensure!(status != 0, "it succeeded");
    one_line(outcome, status, file)
}
