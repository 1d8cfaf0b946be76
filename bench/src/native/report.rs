//! The file to send.

use std::fmt::Write as _;
use std::path::Path;

use super::figures::Job;
use crate::number::{number, range};
use crate::statistics::{median, median_interval, ratio_of_medians};
use crate::stats::Stats;

/// Of one side, of each figure of a job.
pub type Values = Vec<Vec<f64>>;

/// The report, while it is written.
#[derive(Debug)]
pub struct Report {
    text: String,
    /// All values, for who wants to look closer.
    raw: String,
    /// Jobs that failed.
    failed: usize,
}

impl Report {
    /// Begins with what the machine is.
    pub fn new(facts: &[(String, String)], revision: &str) -> Report {
        let mut text = String::from("# Margay as a co-kernel, beside Linux\n\n## The machine\n\n");
        text += "| what | |\n|---|---|\n";
        let revision = ("revision of Margay".to_owned(), revision.to_owned());
        for (name, value) in [&revision].into_iter().chain(facts) {
            let _ = writeln!(text, "| {name} | {} |", value.replace('|', "/"));
        }
        Report {
            text,
            raw: String::new(),
            failed: 0,
        }
    }

    /// Adds text of another program.
    pub fn add_text(&mut self, title: &str, said: &str) {
        let _ = write!(self.text, "\n## {title}\n\n```\n{}\n```\n", said.trim_end());
    }

    /// Adds what the kernel counted while FWQ ran, starting and ending included.
    pub fn add_counts(&mut self, stats: &Stats) {
        let total = &stats.total;
        let unasked = u64::try_from(total.unasked_entries()).unwrap_or(0);
        let rows = [
            ("entries into the kernel that were no calls", unasked),
            ("page faults", total.page_faults),
            ("timer interrupts", total.timer_interrupts),
            ("interrupts of its own cores", total.ipis),
            ("doorbells", total.doorbells),
            ("interrupts from Linux", total.other_interrupts),
            ("the TSC's frequency in Hz", stats.tsc_hz),
        ];
        self.text +=
            "\n## Counted while FWQ ran, with starting and ending\n\n| what | |\n|---|---|\n";
        for (name, count) in rows {
            let _ = writeln!(self.text, "| {name} | {} |", number(count as f64));
        }
    }

    /// Begins the table.
    pub fn begin_figures(&mut self, runs: usize) {
        let _ = write!(
            self.text,
            "\n## Figures\n\nMedians of {runs} runs in turn, with their 95 % interval. Linux's side is the same program, bound to the same CPUs.\n\n\
             | figure | unit | Linux | co-kernel | co-kernel / Linux |\n|---|---|---|---|---|\n"
        );
    }

    /// Adds the rows of a job.
    pub fn add(&mut self, job: &Job, measured: &super::Measured) {
        self.failed += usize::from(measured.is_err());
        for (i, figure) in job.figures.iter().enumerate() {
            let _ = write!(self.text, "| {} | {} | ", figure.what, figure.unit);
            match measured {
                Ok([linux, cokernel]) => {
                    let cells = row(&linux[i], &cokernel[i]);
                    let _ = writeln!(self.text, "{} |", cells.join(" | "));
                    for (side, values) in [("Linux", &linux[i]), ("co-kernel", &cokernel[i])] {
                        let values: Vec<String> =
                            values.iter().map(|v| format!("{v:.6e}")).collect();
                        let _ = writeln!(self.raw, "{}, {side}: {}", figure.name, values.join(" "));
                    }
                }
                Err(why) => {
                    let why = format!("{why:#}").replace(['|', '\n'], " ");
                    let _ = writeln!(self.text, "failed | {why} | |");
                }
            }
        }
    }

    /// Jobs that failed so far.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// The text, without names of this machine's folders.
    pub fn finish(mut self, root: &Path, home: Option<&str>) -> String {
        let raw = std::mem::take(&mut self.raw);
        self.add_text("All values", &raw);
        without_names(&self.text, root, home)
    }
}

/// Paths below the repository from there on, and those below the home directory from that on.
pub fn without_names(text: &str, root: &Path, home: Option<&str>) -> String {
    let root = root.to_string_lossy();
    let places = [(&*root, "."), (home.unwrap_or_default(), "~")];
    let long = places.iter().filter(|(place, _)| place.len() > 1);
    long.fold(text.to_owned(), |text, (place, short)| {
        text.replace(place, short)
    })
}

/// Linux's median, ours, and their ratio, each with its interval.
fn row(linux: &[f64], cokernel: &[f64]) -> [String; 3] {
    let cell = |values: &[f64]| {
        let interval = range(median_interval(values));
        format!("{} {interval}", number(median(values)))
    };
    let (ratio, interval) = ratio_of_medians(cokernel, linux);
    let ratio = if ratio.is_finite() {
        format!("{} {}", number(ratio), range(interval))
    } else {
        "-".to_owned()
    };
    [cell(linux), cell(cokernel), ratio]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::JOBS;

    fn job() -> &'static Job {
        JOBS.iter().find(|job| job.program == "signal").expect("it")
    }

    #[test]
    fn a_row_has_both_sides_and_their_ratio() {
        let mut report = Report::new(&[("CPU".into(), "A | B".into())], "abc");
        report.begin_figures(3);
        report.add(job(), &Ok([vec![vec![2.0; 3]], vec![vec![1.0; 3]]]));
        assert_eq!(report.failed(), 0);
        let text = report.finish(Path::new("/no/such"), None);
        assert!(text.contains("| CPU | A / B |") && text.contains("| revision of Margay | abc |"));
        assert!(
            text.contains("| ns | 2 [2, 2] | 1 [1, 1] | 0.500 [0.500, 0.500] |"),
            "{text}"
        );
        assert!(text.contains("co-kernel: 1.000000e0 1.000000e0"), "{text}");
    }

    #[test]
    fn what_failed_has_a_reason_and_is_counted() {
        let mut report = Report::new(&[], "");
        report.add(job(), &Err(anyhow::anyhow!("no\nsuch | thing")));
        assert_eq!(report.failed(), 1);
        let text = report.finish(Path::new("/no/such"), None);
        assert!(text.contains("failed | no such   thing |"), "{text}");
    }

    #[test]
    fn nothing_over_nothing_is_no_ratio() {
        assert_eq!(row(&[0.0; 3], &[0.0; 3])[2], "-");
    }

    #[test]
    fn folders_are_not_named() {
        let text = "/srv/alice/margay/target/x and /srv/alice/y";
        let text = without_names(text, Path::new("/srv/alice/margay"), Some("/srv/alice"));
        assert_eq!(text, "./target/x and ~/y");
    }
}
