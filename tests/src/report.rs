//! What yod itself says on stderr, distinguished from what the program says: statistics, crash reports, its own lines.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// How a line of `--stats=json` begins.
const STATS: &[u8] = b"{\"tsc_hz\":";
/// How yod begins its own lines.
const OWN: &[u8] = b"yod: ";

/// stderr of a run under `yod --stats=json`, taken apart.
#[derive(Debug)]
pub struct Stderr {
    /// What the program wrote, and yod's own lines in between.
    pub rest: Vec<u8>,
    /// What the kernel counted.
    pub stats: Stats,
}

/// What the kernel counted.
#[derive(Debug)]
pub struct Stats(Value);

impl Stderr {
    /// Takes the statistics out, which are its last line.
    ///
    /// # Errors
    /// When there are none.
    pub fn new(stderr: &[u8]) -> Result<Stderr> {
        let start = stderr
            .windows(STATS.len())
            .rposition(|window| window == STATS);
        let start = start.context("no statistics on stderr")?;
        let end = stderr[start..].iter().position(|&byte| byte == b'\n');
        let end = end.map_or(stderr.len(), |length| start + length + 1);
        let json = serde_json::from_slice(&stderr[start..end]).context("statistics")?;
        Ok(Stderr {
            rest: [&stderr[..start], &stderr[end..]].concat(),
            stats: Stats(json),
        })
    }
}

impl Stats {
    /// A number by its path, as in `/total/entries` (RFC 6901).
    ///
    /// # Errors
    /// When there is no such number.
    pub fn number(&self, path: &str) -> Result<u64> {
        let found = self.0.pointer(path).and_then(Value::as_u64);
        found.with_context(|| format!("no number {path} in {}", self.0))
    }

    /// A text by its path.
    ///
    /// # Errors
    /// When there is no such text.
    pub fn text(&self, path: &str) -> Result<&str> {
        let found = self.0.pointer(path).and_then(Value::as_str);
        found.with_context(|| format!("no text {path} in {}", self.0))
    }

    /// Entries into the kernel from ring 3 that the ranks made, not the PCT.
    ///
    /// # Errors
    /// When they are not in the statistics.
    pub fn rank_entries(&self) -> Result<u64> {
        let (all, pct) = (
            self.number("/total/entries")?,
            self.number("/total/pct_entries")?,
        );
        ensure!(
            all >= pct,
            "the PCT entered {pct} times, everybody {all} times"
        );
        Ok(all - pct)
    }

    /// How often the ranks made a system call.
    #[must_use]
    pub fn calls(&self, name: &str) -> u64 {
        let calls = self.0["calls"].as_array().into_iter().flatten();
        let of_name = calls.filter(|call| call["name"] == name);
        of_name.filter_map(|call| call["count"].as_u64()).sum()
    }

    /// How many cores the node has.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.0["cores"].as_array().map_or(0, Vec::len)
    }

    /// The ranks, one object each.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.0["ranks"].as_array().map_or(0, Vec::len)
    }
}

/// Lines of yod itself: those that begin with its name.
#[must_use]
pub fn own_lines(stderr: &[u8]) -> Vec<String> {
    let lines = stderr.split(|&byte| byte == b'\n');
    lines
        .filter(|line| line.starts_with(OWN))
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

/// stderr without yod's own lines and the indented lines that belong to them (crash reports).
#[must_use]
pub fn without_own_lines(stderr: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut in_report = false;
    for line in stderr.split_inclusive(|&byte| byte == b'\n') {
        in_report = line.starts_with(OWN) || (in_report && line.starts_with(b"  "));
        if !in_report {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// Checks that a crash report is complete: signal, address, where, registers, regions.
///
/// # Errors
/// Says what is missing.
pub fn check_crash_report(stderr: &[u8], signal: &str) -> Result<()> {
    let text = String::from_utf8_lossy(stderr);
    let headlines = own_lines(stderr)
        .iter()
        .filter(|line| line.contains(" at address 0x"))
        .count();
    ensure!(headlines == 1, "{headlines} crash reports:\n{text}");
    for part in [
        signal,
        "  #0  0x",
        "exception ",
        "rip ",
        "rsp ",
        "r15 ",
        "the address lies in ",
        "rip lies in ",
        "regions",
    ] {
        ensure!(
            text.contains(part),
            "no {part:?} in the crash report:\n{text}"
        );
    }
    Ok(())
}

/// Says in the output of the tests that one could not run here; print! is shown of tests that fail only.
pub fn skipped(why: &str) {
    let line = format!("skipped: {why}\n");
    let _ = std::io::stdout().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_taken_out() {
        let text = b"program\nno newline{\"tsc_hz\":1,\"total\":{\"entries\":7,\"pct_entries\":3},\"ranks\":[{}],\"calls\":[{\"name\":\"futex\",\"count\":5}]}\nafter";
        let stderr = Stderr::new(text).expect("statistics");
        assert_eq!(stderr.rest, b"program\nno newlineafter");
        assert_eq!(stderr.stats.rank_entries().expect("numbers"), 4);
        assert_eq!(stderr.stats.ranks(), 1);
        assert_eq!(stderr.stats.calls("futex"), 5);
        assert_eq!(stderr.stats.calls("read"), 0);
        assert!(stderr.stats.number("/total/absent").is_err());
        assert!(Stderr::new(b"nothing").is_err());
    }

    #[test]
    fn reports_are_distinguished_from_the_programs_lines() {
        let text =
            b"  mine\nyod: ./a: segmentation fault\n  rip 0\n    more\nmine again\n  indented\n";
        assert_eq!(without_own_lines(text), b"  mine\nmine again\n  indented\n");
        assert_eq!(own_lines(text), ["yod: ./a: segmentation fault"]);
    }
}
