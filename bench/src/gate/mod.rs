//! The gate: counts that must not get worse, compared with those in bench/baseline.tsv.
//!
//! Everything here is a count, of instructions under -icount or of the kernel's events, and less is better. What is measured
//! (`counts`) leaves out whatever differs from machine to machine: the measured code is assembler, the node has one core and a
//! fixed memory. So most counts are compared exactly, and on any machine; the baseline says of which it is not so, and why.

mod baseline;
mod counts;

use std::fmt::Write as _;

pub use baseline::Baseline;
pub use counts::measure;

/// A count and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Count {
    /// Names the row of the baseline.
    pub name: String,
    /// Of instructions, events or bytes; less is better.
    pub value: u64,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Each count.
    pub counts: Vec<Count>,
    /// Beginnings of the names of those that could not be taken here.
    pub skipped: &'static [&'static str],
}

/// How the counts compare with the baseline.
#[derive(Debug)]
pub struct Comparison {
    /// What differs, a line each; empty when nothing does.
    pub differences: String,
    /// Rows that are not as they were, or that only one side has.
    pub failed: usize,
    /// Names of rows that could not be measured here.
    pub skipped: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Same,
    Better,
    Worse,
}

/// Compares every count with its row. What is better fails, too: either the baseline has to be renewed, or nothing counts any more.
pub fn compare(baseline: &Baseline, measured: &Measured) -> Comparison {
    let counts = &measured.counts;
    let mut found = Comparison {
        differences: String::new(),
        failed: 0,
        skipped: Vec::new(),
    };
    for count in counts {
        let Some(row) = baseline.row(&count.name) else {
            found.failed += 1;
            found.note(&count.name, "-", count.value, "not in the baseline");
            continue;
        };
        let verdict = row.within.judge(row.value, count.value);
        let word = match verdict {
            Verdict::Same => continue,
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
        };
        found.failed += 1;
        let change = format!("{word}, {}", change(row.value, count.value));
        found.note(&count.name, row.value, count.value, &change);
    }
    for row in baseline.rows() {
        if measured.skips(&row.name) {
            found.skipped.push(row.name.clone());
        } else if !counts.iter().any(|count| count.name == row.name) {
            found.failed += 1;
            found.note(&row.name, row.value, "-", "not measured any more");
        }
    }
    found
}

impl Measured {
    fn skips(&self, name: &str) -> bool {
        self.skipped.iter().any(|begin| name.starts_with(begin))
    }
}

impl Comparison {
    fn note(
        &mut self,
        name: &str,
        was: impl std::fmt::Display,
        now: impl std::fmt::Display,
        what: &str,
    ) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.differences,
            "{name:<28} baseline {was:>9}  now {now:>9}  {what}"
        );
    }
}

/// `+3 (+3.3 %)`.
fn change(was: u64, now: u64) -> String {
    let difference = i128::from(now) - i128::from(was);
    if was == 0 {
        return format!("{difference:+}");
    }
    let percent = 100.0 * difference as f64 / was as f64;
    format!("{difference:+} ({percent:+.1} %)")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASELINE: &str = "# name\tvalue\twithin\tnote\ncall\t100\texact\ta\nevents\t0\texact\tb\nsize\t1000\t2%\tc\nplugin_a\t7\texact\td\n";

    fn compared(counts: &[(&str, u64)]) -> Comparison {
        let counts: Vec<Count> = counts
            .iter()
            .map(|(name, value)| Count {
                name: (*name).to_owned(),
                value: *value,
            })
            .collect();
        let measured = Measured {
            counts,
            skipped: &["plugin_"],
        };
        compare(&Baseline::parse(BASELINE).expect("a baseline"), &measured)
    }

    #[test]
    fn what_is_as_it_was_is_not_mentioned() {
        let same = compared(&[("call", 100), ("events", 0), ("size", 1020)]);
        assert_eq!((same.failed, same.differences.as_str()), (0, ""));
        assert_eq!(same.skipped, ["plugin_a"]);
    }

    #[test]
    fn one_instruction_more_fails() {
        let worse = compared(&[("call", 101), ("events", 1), ("size", 1021)]);
        assert_eq!(worse.failed, 3);
        let lines: Vec<&str> = worse.differences.lines().collect();
        assert_eq!(
            lines[0],
            "call                         baseline       100  now       101  WORSE, +1 (+1.0 %)"
        );
        assert!(lines[1].ends_with("WORSE, +1"), "{}", lines[1]);
    }

    /// Once everything that was lower passed, and so did a counter that counted nothing.
    #[test]
    fn better_has_to_be_written_down() {
        let better = compared(&[("call", 97), ("events", 0), ("size", 900)]);
        assert_eq!(better.failed, 2);
        assert!(better.differences.contains("better, -3 (-3.0 %)"));
    }

    #[test]
    fn a_row_that_only_one_side_has_fails() {
        let other = compared(&[("call", 100), ("events", 0), ("new", 5)]);
        assert_eq!(other.failed, 2);
        assert!(other.differences.contains("not in the baseline"));
        assert!(other.differences.contains("not measured any more"));
    }
}
