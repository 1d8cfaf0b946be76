//! Steps of a check: commands whose output is kept in a file, counted, and shown only when something failed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::build;

/// Lines of a failed step's output that are shown.
const SHOWN_LINES: usize = 60;
/// Lines of each failed test that are shown once more at the very end, where the log of a CI run is read first.
const RECAP_LINES: usize = 8;

/// A part of the check.
pub struct Step {
    name: &'static str,
    commands: Vec<Command>,
}

/// Where what a step printed is kept.
pub fn log_path(name: &str) -> PathBuf {
    build::target().join("check").join(format!("{name}.log"))
}

/// How many tests passed and failed. A command that is no test runner counts as one test.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Count {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
}

impl Step {
    /// A step of one command.
    pub fn new(name: &'static str, command: Command) -> Step {
        Step::of(name, vec![command])
    }

    /// A step of several commands; all are run even if one fails.
    pub fn of(name: &'static str, commands: Vec<Command>) -> Step {
        Step { name, commands }
    }

    /// Whether it is meant by `--only`.
    pub fn matches(&self, only: Option<&str>) -> bool {
        only.is_none_or(|part| self.name.contains(part))
    }

    fn run(&mut self) -> Result<Count> {
        let path = log_path(self.name);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut count = Count::default();
        for command in &mut self.commands {
            let seen = log.metadata()?.len() as usize;
            let status = command
                .current_dir(build::root())
                .env("RUST_BACKTRACE", "0")
                .stdin(std::process::Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log.try_clone()?)
                .status()
                .with_context(|| format!("cannot run {command:?}"))?;
            let output = String::from_utf8_lossy(&fs::read(&path)?[seen..]).into_owned();
            count = count.and(counted(&output, status.success()));
        }
        Ok(count)
    }
}

impl Count {
    /// Nothing failed.
    pub fn good(self) -> bool {
        self.failed == 0
    }

    fn and(self, more: Count) -> Count {
        Count {
            passed: self.passed + more.passed,
            failed: self.failed + more.failed,
        }
    }
}

/// Runs steps one after another, a line for each.
///
/// # Errors
/// When a step's log cannot be written; a failed step is not an error but counted.
pub fn run(steps: impl IntoIterator<Item = Step>) -> Result<Count> {
    let started = Instant::now();
    let mut all = Count::default();
    let mut failed = Vec::new();
    for mut step in steps {
        let start = Instant::now();
        let count = step.run().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", step.name);
            Count {
                passed: 0,
                failed: 1,
            }
        });
        println!("{}", line(step.name, count, start.elapsed()));
        if !count.good() {
            show_failure(step.name);
            failed.push(step.name);
        }
        all = all.and(count);
    }
    for name in failed {
        println!("failed: {name}");
        for line in recap(&log_text(name)) {
            println!("    {line}");
        }
    }
    println!("in {:.0} s", started.elapsed().as_secs_f64());
    Ok(all)
}

fn line(name: &str, count: Count, took: Duration) -> String {
    let verdict = if count.good() { "ok" } else { "FAILED" };
    format!(
        "{name:<20} {verdict:<6} {:>5} passed {:>4} failed {:>7.1} s",
        count.passed,
        count.failed,
        took.as_secs_f64()
    )
}

/// What a step printed.
fn log_text(name: &str) -> String {
    String::from_utf8_lossy(&fs::read(log_path(name)).unwrap_or_default()).into_owned()
}

fn show_failure(name: &str) {
    let text = log_text(name);
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        println!("    {line}");
    }
    println!("    (all of it: {})", log_path(name).display());
}

/// The beginning of what test runners tell of each failed test, under its "---- name ----".
fn recap(output: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut left = 0;
    for line in output.lines() {
        if line.starts_with("---- ") {
            left = RECAP_LINES;
        } else if line == "failures:" {
            left = 0;
        }
        if left > 0 && !line.trim().is_empty() {
            left -= 1;
            lines.push(line);
        }
    }
    lines
}

/// Counts what test runners report ("test result: ok. 12 passed; 0 failed; ..."). A command that fails without saying
/// which test did counts as one failure more.
fn counted(output: &str, success: bool) -> Count {
    let mut count = Count::default();
    let mut runner = false;
    for line in output.lines() {
        if let Some(result) = line.trim_start().strip_prefix("test result: ") {
            runner = true;
            count.passed += number_before(result, " passed");
            count.failed += number_before(result, " failed");
        }
    }
    match (success, runner) {
        (true, false) => count.passed = 1,
        (false, _) if count.failed == 0 => count.failed = 1,
        _ => {}
    }
    count
}

fn number_before(text: &str, word: &str) -> usize {
    text.split_once(word)
        .and_then(|(before, _)| before.rsplit(' ').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_runners_are_added() {
        let output = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(
            counted(output, false),
            Count {
                passed: 4,
                failed: 2
            }
        );
    }

    #[test]
    fn the_recap_has_the_beginning_of_each_failed_test() {
        let output = "test a ... ok\n\nfailures:\n\n---- b stdout ----\nthread 'b' panicked\n\n\
            ---- c ----\n1\n2\n3\n4\n5\n6\n7\n8\n\nfailures:\n    b\n    c\n";
        assert_eq!(
            recap(output),
            [
                "---- b stdout ----",
                "thread 'b' panicked",
                "---- c ----",
                "1",
                "2",
                "3",
                "4",
                "5",
                "6",
                "7"
            ]
        );
    }

    #[test]
    fn other_commands_count_as_one_test() {
        assert_eq!(
            counted("", true),
            Count {
                passed: 1,
                failed: 0
            }
        );
        assert_eq!(
            counted("error: no\n", false),
            Count {
                passed: 0,
                failed: 1
            }
        );
    }

    #[test]
    fn a_runner_that_dies_is_a_failure() {
        let output = "test result: ok. 3 passed; 0 failed; 0 ignored\nerror: SIGSEGV\n";
        assert_eq!(
            counted(output, false),
            Count {
                passed: 3,
                failed: 1
            }
        );
    }
}
