//! What steps of a check print: kept in a file for each, counted, and shown where something failed.

use std::fs;
use std::path::PathBuf;

use crate::build;

/// Lines of a failed step's output that are shown.
const SHOWN_LINES: usize = 60;
/// Lines of each failed test that are shown once more at the very end, where the log of a CI run is read first.
const RECAP_LINES: usize = 8;

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

impl Count {
    /// Nothing failed.
    pub fn good(self) -> bool {
        self.failed == 0
    }

    /// Both together.
    pub fn and(self, more: Count) -> Count {
        Count {
            passed: self.passed + more.passed,
            failed: self.failed + more.failed,
        }
    }
}

/// What a step printed.
pub fn log_text(name: &str) -> String {
    String::from_utf8_lossy(&fs::read(log_path(name)).unwrap_or_default()).into_owned()
}

/// Shows the end of what a failed step printed.
pub fn show_failure(name: &str) {
    let text = log_text(name);
    let lines: Vec<_> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(SHOWN_LINES)..] {
        println!("    {line}");
    }
    println!("    (all of it: {})", log_path(name).display());
}

/// The beginning of what test runners print of each failed test, under its "---- name ----"; of tests in shell, under
/// their "FAIL  name" up to the next "ok".
pub fn recap(output: &str) -> Vec<&str> {
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
pub fn counted(output: &str, success: bool) -> Count {
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
pub fn not_run(output: &str) -> Vec<String> {
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
