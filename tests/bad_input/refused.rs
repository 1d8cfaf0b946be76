//! Programs that end badly after Margay refused them something: one line says so.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::report;
use margay_tests::run::Run;
use margay_tests::tree;

use crate::case;

/// What is asked for, the status that the program ends with, and what the line says; without one there is none.
const WAYS: &[(&str, &str, Option<&str>)] = &[
    (
        "process",
        "1",
        Some("asked for a child process (clone), refused: "),
    ),
    (
        "process",
        "0",
        Some("asked for a child process (clone), refused: "),
    ),
    (
        "memory",
        "1",
        Some("asked for more memory than its partition of 34M has left, refused: more with -m"),
    ),
    ("memory", "0", None),
    ("file", "3", Some("asked for a shared mapping of a file")),
    (
        "probe",
        "1",
        Some("asked for perf_event_open, userfaultfd, refused: performance counters"),
    ),
    ("probe", "0", None),
    (
        "directories",
        "1",
        Some("asked for fanotify_init, refused: fanotify is not supported: use inotify"),
    ),
];

pub fn all() -> Vec<Trial> {
    let ways = WAYS.iter().map(|&(way, status, part)| {
        case(format!("refused: {way}, then {status}"), move || {
            check(way, status, part)
        })
    });
    ways.chain([
        case("refused: ranks alike in one line", ranks_alike),
        case("refused: nothing with -q", quiet),
    ])
    .collect()
}

fn run(options: &[&str], way: &str, status: &str) -> Run {
    let program = tree::program("glibc-static", "refused");
    Run::yod(&["-m", "34M"])
        .args(options)
        .args(&["--", &program.to_string_lossy(), way, status])
}

/// A program said what it made of an error, or nothing; that Margay had refused a call only a trace showed.
fn check(way: &str, status: &str, part: Option<&str>) -> Result<()> {
    let outcome = clean::run(run(&[], way, status))?;
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status == Some(status.parse()?),
        "status {:?}",
        outcome.status
    );
    match part {
        Some(part) => {
            let own = report::own_lines(outcome.stderr.head());
            ensure!(
                own.len() == 1 && stderr.lines().count() == 1,
                "not one line:\n{stderr}"
            );
            ensure!(
                own[0].starts_with(&format!("yod: rank 0 {part}")),
                "{stderr}"
            );
        }
        None => ensure!(stderr.is_empty(), "{stderr}"),
    }
    Ok(())
}

fn ranks_alike() -> Result<()> {
    let outcome = clean::run(run(&["-n", "3", "--oversubscribe"], "process", "0"))?;
    clean::one_line(&outcome, 0, "ranks 0-2 asked for a child process")
}

fn quiet() -> Result<()> {
    let outcome = clean::run(run(&["-q"], "process", "1"))?;
    ensure!(outcome.status == Some(1), "status {:?}", outcome.status);
    let stderr = outcome.stderr.text();
    ensure!(stderr.is_empty(), "{stderr}");
    Ok(())
}
