//! The baseline: a table for people and for us. Its values are written by the gate, the rest by hand.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use super::{Count, Measured, Verdict};

/// How far a count may be off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Within {
    /// Not at all.
    Exact,
    /// By this many percent.
    Percent(f64),
}

/// A line of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Of the count.
    pub name: String,
    /// What it was.
    pub value: u64,
    /// How far it may be off.
    pub within: Within,
    /// What is counted; when it may be off, why.
    pub note: String,
}

/// The table, with its comments.
#[derive(Clone, PartialEq, Debug)]
pub struct Baseline {
    comments: String,
    rows: Vec<Row>,
}

impl Within {
    pub(super) fn judge(self, was: u64, now: u64) -> Verdict {
        let slack = match self {
            Within::Exact => 0.0,
            Within::Percent(percent) => was as f64 * percent / 100.0,
        };
        if now.abs_diff(was) as f64 <= slack {
            Verdict::Same
        } else if now < was {
            Verdict::Better
        } else {
            Verdict::Worse
        }
    }
}

impl FromStr for Within {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Within> {
        if text == "exact" {
            return Ok(Within::Exact);
        }
        let percent = text.strip_suffix('%').and_then(|n| n.parse().ok());
        let percent = percent.filter(|percent| (0.0..100.0).contains(percent));
        percent
            .map(Within::Percent)
            .with_context(|| format!("neither \"exact\" nor a percentage like 2%: {text:?}"))
    }
}

impl Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Within::Exact => f.write_str("exact"),
            Within::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.comments)?;
        for row in &self.rows {
            writeln!(
                f,
                "{}\t{}\t{}\t{}",
                row.name, row.value, row.within, row.note
            )?;
        }
        Ok(())
    }
}

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn read(path: &Path) -> Result<Baseline> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Baseline::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the table: comments first, then a row per line.
    ///
    /// # Errors
    /// A line is wrong.
    pub fn parse(text: &str) -> Result<Baseline> {
        let (mut comments, mut rows) = (String::new(), Vec::new());
        let mut names = BTreeSet::new();
        for (i, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                comments += line;
                comments.push('\n');
                continue;
            }
            let row = parse_row(line).with_context(|| format!("line {}", i + 1))?;
            ensure!(
                names.insert(row.name.clone()),
                "line {}: {} is there twice",
                i + 1,
                row.name
            );
            rows.push(row);
        }
        Ok(Baseline { comments, rows })
    }

    /// Writes the file in one step.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("tsv.new");
        fs::write(&new, self.to_string())
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The row of a name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The same table with other values, where they differ by more than they may. Rows that are not measured any more go, but not
    /// those that only could not be measured here; new ones are exact until edited.
    pub fn updated(&self, measured: &Measured) -> Baseline {
        let row = |count: &Count| match self.row(&count.name) {
            Some(row) if row.within.judge(row.value, count.value) == Verdict::Same => row.clone(),
            Some(row) => Row {
                value: count.value,
                ..row.clone()
            },
            None => Row {
                name: count.name.clone(),
                value: count.value,
                within: Within::Exact,
                note: "-".to_owned(),
            },
        };
        let skipped = self.rows.iter().filter(|row| measured.skips(&row.name));
        let skipped = skipped.cloned();
        Baseline {
            comments: self.comments.clone(),
            rows: measured.counts.iter().map(row).chain(skipped).collect(),
        }
    }
}

fn parse_row(line: &str) -> Result<Row> {
    let columns: Vec<&str> = line.split('\t').collect();
    let &[name, value, within, note] = &columns[..] else {
        bail!("four columns with tabs between them are expected: name, value, within, note");
    };
    Ok(Row {
        name: name.to_owned(),
        value: value
            .parse()
            .with_context(|| format!("not a count: {value:?}"))?,
        within: within.parse()?,
        note: note.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# first\n# name\na\t5\texact\tsome\nb\t1000\t2.5%\tbecause\n";

    #[test]
    fn it_is_written_as_it_was_read() {
        let baseline = Baseline::parse(TEXT).expect("a baseline");
        assert_eq!(baseline.row("b").expect("b").within, Within::Percent(2.5));
        assert_eq!(baseline.to_string(), TEXT);
    }

    #[test]
    fn an_update_changes_values_only() {
        let count = |name: &str, value| Count {
            name: name.to_owned(),
            value,
        };
        let baseline = Baseline::parse(TEXT).expect("a baseline");
        let measured = |counts: &[Count], skipped| Measured {
            counts: counts.to_vec(),
            skipped,
        };
        let updated = baseline.updated(&measured(&[count("b", 1100), count("c", 1)], &[]));
        assert_eq!(
            updated.to_string(),
            "# first\n# name\nb\t1100\t2.5%\tbecause\nc\t1\texact\t-\n"
        );
        // What is as it may be is no difference to review.
        let within = baseline.updated(&measured(&[count("a", 5), count("b", 990)], &[]));
        assert_eq!(within, baseline);
        // What could not be measured stays.
        let without = baseline.updated(&measured(&[count("a", 5)], &["b"]));
        assert_eq!(without, baseline);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (line, complaint) in [
            ("a\t5\texact", "four columns"),
            ("a\t-5\texact\t", "not a count"),
            ("a\t5\tabout\t", "neither"),
            ("a\t5\t200%\t", "neither"),
            ("", "four columns"),
            ("b\t1\texact\t\nb\t1\texact\t", "twice"),
        ] {
            let error = Baseline::parse(&format!("#\n{line}\n")).expect_err(line);
            let line = format!("{error:#}");
            assert!(
                line.contains(complaint) && line.starts_with("line "),
                "{line}"
            );
        }
    }

    #[test]
    fn the_slack_is_on_both_sides() {
        let judge = |now| Within::Percent(2.0).judge(100, now);
        assert_eq!(judge(102), Verdict::Same);
        assert_eq!(judge(98), Verdict::Same);
        assert_eq!(judge(103), Verdict::Worse);
        assert_eq!(judge(97), Verdict::Better);
    }

    #[test]
    fn the_one_that_is_checked_in_can_be_read() {
        let text = include_str!("../../baseline.tsv");
        let baseline = Baseline::parse(text).expect("a baseline");
        assert_eq!(baseline.to_string(), text);
        for row in baseline.rows() {
            assert!(
                row.within == Within::Exact || row.note.contains(':'),
                "{}: say what it is: and why it may be off",
                row.name
            );
        }
    }
}
