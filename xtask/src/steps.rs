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
    /// Why it cannot be run here, if so.
    skipped: Option<String>,
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
        Step {
            name,
            commands,
            skipped: None,
        }
    }

    /// What `--only` calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// It cannot be run here.
    pub fn skip(&mut self, why: &str) {
        self.skipped = Some(why.to_owned());
    }

    /// Whether it is meant by `--only`.
    pub fn matches(&self, only: Option<&str>) -> bool {
        only.is_none_or(|part| self.name.contains(part))
    }

    /// Counts, and what of it could not be run.
    fn run(&mut self) -> Result<(Count, Vec<String>)> {
        if let Some(why) = &self.skipped {
            return Ok((Count::default(), vec![why.clone()]));
        }
        let path = log_path(self.name);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let (mut count, mut skipped) = (Count::default(), Vec::new());
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
            skipped.extend(not_run(&output));
        }
        Ok((count, skipped))
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

/// What came of all steps.
#[derive(Default, Debug)]
pub struct Summary {
    /// Of all.
    pub count: Count,
    /// What could not be run here: the step, and what of it or why.
    skipped: Vec<(&'static str, String)>,
}

impl Summary {
    /// "N passed, N failed", and what was skipped.
    pub fn last_line(&self) -> String {
        let Count { passed, failed } = self.count;
        let mut line = format!("{passed} passed, {failed} failed");
        for (i, (step, what)) in self.skipped.iter().enumerate() {
            line += if i == 0 { "; skipped: " } else { "; " };
            line += &format!("{step} ({what})");
        }
        line
    }
}

/// Runs steps one after another, a line for each.
///
/// # Errors
/// When a step's log cannot be written; a failed step is not an error but counted.
pub fn run(steps: impl IntoIterator<Item = Step>) -> Result<Summary> {
    let started = Instant::now();
    let mut all = Summary::default();
    let mut failed = Vec::new();
    for mut step in steps {
        let start = Instant::now();
        let (count, skipped) = step.run().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", step.name);
            let failed = Count {
                passed: 0,
                failed: 1,
            };
            (failed, Vec::new())
        });
        println!("{}", line(step.name, count, start.elapsed()));
        if !count.good() {
            show_failure(step.name);
            failed.push(step.name);
        }
        all.count = all.count.and(count);
        all.skipped
            .extend(skipped.into_iter().map(|what| (step.name, what)));
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
    let verdict = match (count.good(), count.passed) {
        (true, 0) => "skipped",
        (true, _) => "ok",
        (false, _) => "FAILED",
    };
    format!(
        "{name:<20} {verdict:<7} {:>5} passed {:>4} failed {:>7.1} s",
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

/// The beginning of what test runners print of each failed test, under its "---- name ----"; of tests in shell, under
/// their "FAIL  name" up to the next "ok".
fn recap(output: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut left = 0;
    for line in output.lines() {
        if line.starts_with("---- ") || line.starts_with("FAIL  ") {
            left = RECAP_LINES;
        } else if line == "failures:" || line.starts_with("ok    ") {
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

/// What a command says that it could not do here, in lines "skipped: what"; and how many tests were ignored.
fn not_run(output: &str) -> Vec<String> {
    let lines = output
        .lines()
        .filter_map(|line| line.strip_prefix("skipped: "));
    let mut skipped: Vec<String> = lines.map(str::to_owned).collect();
    let results = output.lines().filter_map(|line| {
        let result = line.trim_start().strip_prefix("test result: ")?;
        Some(number_before(result, " ignored"))
    });
    let ignored: usize = results.sum();
    if ignored > 0 {
        skipped.push(format!("{ignored} of its tests"));
    }
    skipped
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

    /// In a log of hundreds of lines the end alone does not show which test failed.
    #[test]
    fn the_recap_has_what_failed_in_shell() {
        let output =
            "ok    a\nFAIL  b\nwhat it said\nok    c\nmake: *** [Makefile:1: check] Error 1\n";
        assert_eq!(recap(output), ["FAIL  b", "what it said"]);
    }

    /// Once a step that could not be run was not mentioned at all, and the check passed.
    #[test]
    fn what_cannot_run_is_in_the_last_line() {
        let mut step = Step::new("plugin", Command::new("/nowhere/never-run"));
        step.skip("no header");
        let all = run([step]).expect("a summary");
        assert_eq!(
            all.last_line(),
            "0 passed, 0 failed; skipped: plugin (no header)"
        );
        let output = "skipped: a, b: no plugin\ntest result: ok. 3 passed; 0 failed; 2 ignored; 0 measured\n";
        assert_eq!(not_run(output), ["a, b: no plugin", "2 of its tests"]);
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
