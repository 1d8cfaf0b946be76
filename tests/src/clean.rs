//! Runs that must leave nothing behind: no process, no file, whatever went wrong.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::process::{self, MARK};
use crate::report;
use crate::run::{HANG, Outcome, Run};
use crate::scratch::Scratch;

/// What ends a job's processes takes a moment to notice; a process that still lives after this is left over.
pub const GONE: Duration = Duration::from_secs(2);
/// Where nothing may be left, and parts of names that we or QEMU would choose there ("vl." is QEMU's own): other programs
/// use these directories too.
const SHARED_DIRS: &[(&str, &[&str])] = &[
    ("/tmp", &["yod", "qemu", "ivshmem", "qboot", "vl."]),
    ("/dev/shm", &["margay", "yod", "qemu", "ivshmem"]),
];

/// A mark that no other job has.
#[must_use]
pub fn new_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// What is in the shared directories under names of ours.
#[must_use]
pub fn shared_files() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for (directory, parts) in SHARED_DIRS {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if parts.iter().any(|part| name.contains(part)) {
                found.insert(entry.path());
            }
        }
    }
    found
}

/// Runs something and checks that it has left nothing: it did not hang, no process of the job lives on, no file is where
/// temporary files go.
///
/// # Errors
/// Says what was left.
pub fn run(run: Run) -> Result<Outcome> {
    run_in(run, &Scratch::new()?)
}

/// [`run`] in a directory that was prepared.
///
/// # Errors
/// As [`run`].
pub fn run_in(run: Run, scratch: &Scratch) -> Result<Outcome> {
    let mark = new_mark();
    let temporary = scratch.path().join("tmp");
    fs::create_dir_all(&temporary)?;
    let before = shared_files();
    let run = run.env(&[
        (MARK, mark.as_str()),
        ("TMPDIR", &temporary.to_string_lossy()),
    ]);
    let outcome = run.run_in(scratch)?;
    outcome.ended()?;
    nothing_left(&mark, &temporary, &before)?;
    Ok(outcome)
}

/// Checks that a job has left no process and no file.
///
/// # Errors
/// Says what was left.
pub fn nothing_left(mark: &str, temporary: &Path, before: &BTreeSet<PathBuf>) -> Result<()> {
    let left = process::left_over(mark, GONE);
    let described = || left.iter().map(process::described).collect::<Vec<_>>();
    ensure!(left.is_empty(), "still running: {}", described().join("\n"));
    let files: Vec<_> = fs::read_dir(temporary)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    ensure!(files.is_empty(), "left behind: {files:?}");
    let new: Vec<_> = shared_files().difference(before).cloned().collect();
    // Other tests may be starting nodes: what is theirs is gone a moment later.
    let stays = || -> Vec<_> { new.iter().filter(|path| path.exists()).collect() };
    process::wait_until(HANG, || stays().is_empty());
    ensure!(stays().is_empty(), "left behind: {:?}", stays());
    Ok(())
}

/// Checks that all the user sees is one line of yod's with this in it, and that the status is right.
///
/// # Errors
/// Shows what there is instead.
pub fn one_line(outcome: &Outcome, status: i32, part: &str) -> Result<()> {
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status == Some(status),
        "status {:?} instead of {status}; stderr:\n{stderr}",
        outcome.status
    );
    let own = report::own_lines(outcome.stderr.head());
    ensure!(
        own.len() == 1 && stderr.lines().count() == 1,
        "not one line:\n{stderr}"
    );
    ensure!(own[0].contains(part), "no {part:?} in: {}", own[0]);
    Ok(())
}
