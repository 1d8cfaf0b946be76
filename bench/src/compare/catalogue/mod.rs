//! Every program that is run, every figure that is read from its output, and every plot: what they are. The lists are in `jobs`,
//! where a program is added, and `plots`.

mod claims;
mod jobs;
mod mpi;
mod plots;
mod short;
mod trees;

use super::system::Mode;
use crate::launch::Launch;
pub use claims::{CLAIMS, Claim};
pub use jobs::JOBS;
use margay_tests::guest::files::Wanted;
pub use plots::PLOTS;

/// A program, run in a certain way.
#[derive(Debug)]
pub struct Job {
    /// Its name, for ever.
    pub name: &'static str,
    /// What it does, for the report.
    pub about: &'static str,
    /// In bench/programs.
    pub program: &'static str,
    /// Its arguments.
    pub args: &'static [&'static str],
    /// What it needs besides itself; empty: it is static.
    pub tree: &'static [Wanted],
    /// Arguments of a run that comes first and does not count: makes the files. None: no such run.
    pub prepare: &'static [&'static str],
    /// How it is measured.
    pub mode: Mode,
    /// Processes.
    pub ranks: usize,
    /// How they are started.
    pub launch: Launch,
    /// Threads of a process that need a core each.
    pub threads: usize,
    /// What is read from its output.
    pub rows: &'static [Row],
}

/// A figure.
#[derive(Debug)]
pub struct Row {
    /// Its name, for ever.
    pub name: &'static str,
    /// For tables and plots.
    pub title: &'static str,
    /// Result, series or event that it is made from; `first_output_s` is the harness's own.
    pub result: &'static str,
    /// How one value of a run is made when there are several.
    pub take: Take,
    /// How the figure is made of the values of all runs.
    pub over: Over,
    /// Of the value.
    pub unit: Unit,
    /// Whether less is better.
    pub better: Better,
    /// The plot that shows it; none: none.
    pub plot: Option<&'static str>,
}

/// One value out of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// The middle one.
    Median,
    /// The largest.
    Max,
    /// All together.
    Sum,
    /// The largest over the smallest.
    Spread,
}

/// The figure of all runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The middle.
    Median,
    /// The least: for counts that waiting for the host can only make larger.
    Least,
    /// The most: for what must not happen even once.
    Most,
}

impl Over {
    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Over::Median => "median",
            Over::Least => "least",
            Over::Most => "most",
        }
    }
}

/// One ratio of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Together {
    /// The largest: the claim holds of each.
    Most,
    /// Their geometric mean.
    GeometricMean,
}

/// What a value counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Ticks of the TSC: instructions under `-icount`.
    Instructions,
    /// Ticks of the TSC, shown as time: ns.
    TicksAsNs,
    /// Ticks of the TSC, shown as time: us.
    TicksAsUs,
    /// Ticks of the TSC, shown as time: ms.
    TicksAsMs,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Seconds, shown as ms.
    SecondsAsMs,
    /// 10^6 bytes per second.
    MegabytesPerSecond,
    /// 10^9 bytes per second, shown as 10^6.
    GigabytesAsMegabytes,
    /// 10^6 operations per second.
    Megaflops,
    /// 10^9 operations per second, shown as 10^6.
    GigaflopsAsMegaflops,
    /// Times.
    Count,
    /// Of all.
    Percent,
    /// No unit.
    Ratio,
}

/// The good direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

impl Unit {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Unit::Instructions => "instructions",
            Unit::TicksAsNs => "ns",
            Unit::TicksAsUs | Unit::Microseconds => "µs",
            Unit::Seconds => "s",
            Unit::TicksAsMs | Unit::SecondsAsMs => "ms",
            Unit::MegabytesPerSecond | Unit::GigabytesAsMegabytes => "MB/s",
            Unit::Megaflops | Unit::GigaflopsAsMegaflops => "MFLOP/s",
            Unit::Count => "times",
            Unit::Percent => "%",
            Unit::Ratio => "",
        }
    }

    /// What a value that a program printed is multiplied by.
    pub fn factor(self, tsc_hz: f64) -> f64 {
        match self {
            Unit::TicksAsNs => 1e9 / tsc_hz,
            Unit::TicksAsUs => 1e6 / tsc_hz,
            Unit::TicksAsMs => 1e3 / tsc_hz,
            Unit::SecondsAsMs | Unit::GigabytesAsMegabytes | Unit::GigaflopsAsMegaflops => 1e3,
            _ => 1.0,
        }
    }
}

/// A plot of the report.
#[derive(Debug)]
pub struct Plot {
    /// Of its file.
    pub name: &'static str,
    /// Above it.
    pub title: &'static str,
    /// What is in it.
    pub shape: Shape,
}

impl Plot {
    /// The name of its file.
    pub fn file(&self) -> String {
        format!("{}.svg", self.name)
    }
}

/// The kinds of plots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The value of every run, a line per row and system; with a logarithmic axis or not.
    Strips {
        /// Whether the axis is logarithmic.
        log: bool,
    },
    /// A series of `job` over another one.
    Lines {
        /// Which job.
        job: &'static str,
        /// The series along the axis, and its name there.
        x: (&'static str, &'static str),
        /// The series that is shown, its name and its unit.
        y: (&'static str, &'static str, Unit),
    },
    /// What each sample of `job` lost, in their order, and how often each loss occurred.
    Noise {
        /// Which job.
        job: &'static str,
        /// How it is found.
        noise: Noise,
    },
}

/// A series that shows what was taken from a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Noise {
    /// The series.
    pub series: &'static str,
    /// What a loss is.
    pub title: &'static str,
    /// How it is found.
    pub loss: Loss,
    /// Of the loss.
    pub unit: Unit,
    /// The series of times, what they are, and their unit; none: samples follow each other.
    pub at: Option<(&'static str, &'static str, Unit)>,
}

/// How a sample's loss is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// It is the value.
    Itself,
    /// What the value has more than the least of the run.
    AboveLeast,
    /// What it has less than the most of the run, times the result `each`.
    BelowMost {
        /// A result.
        each: &'static str,
    },
}

/// What `--only` names: all when it names nothing.
///
/// # Errors
/// The first name that there is not.
pub fn wanted(only: &[String]) -> Result<Vec<&'static Job>, String> {
    let claims = |name: &str, row: &str| {
        let mut named = CLAIMS.iter().filter(|claim| claim.name == name);
        named.any(|claim| claim.rows.contains(&row))
    };
    let is = |job: &Job, name: &str| {
        let mut rows = job.rows.iter().map(|row| row.name);
        job.name == name || rows.any(|row| row == name || claims(name, row))
    };
    let names: Vec<&String> = only.iter().filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = names
        .iter()
        .find(|name| !JOBS.iter().any(|job| is(job, name)))
    {
        return Err(format!(
            "nothing to compare is called {unknown} (--list names all)"
        ));
    }
    Ok(JOBS
        .iter()
        .filter(|job| names.is_empty() || names.iter().any(|name| is(job, name)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Mpi;
    use crate::programs::source_of;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let mut names = HashSet::new();
        for job in JOBS {
            assert!(
                !job.rows.is_empty() && !job.about.is_empty(),
                "{}",
                job.name
            );
            assert!(names.insert(job.name), "{}", job.name);
            for row in job.rows {
                assert!(names.insert(row.name), "{}", row.name);
            }
        }
    }

    #[test]
    fn claims_are_of_rows_and_have_names_of_their_own() {
        let row = |name: &str| {
            let mut rows = JOBS.iter().flat_map(|job| job.rows);
            rows.find(|row| row.name == name)
        };
        for claim in CLAIMS {
            assert!(row(claim.name).is_none(), "{}", claim.name);
            assert!(!JOBS.iter().any(|job| job.name == claim.name));
            for name in claim.rows {
                assert!(row(name).is_some(), "{}: no row {name}", claim.name);
            }
        }
    }

    #[test]
    fn jobs_name_programs_and_rows_name_plots() {
        for job in JOBS {
            let source = source_of(job.program);
            assert!(source.is_file(), "{}", source.display());
            let mpi = Mpi::of(job.program).map(|(mpi, _)| mpi);
            assert_eq!(job.launch.mpi(), mpi, "{}", job.name);
            // No launcher starts the run before.
            assert!(mpi.is_none() || job.prepare.is_empty(), "{}", job.name);
            // Only a launcher has ranks share a core.
            let wanted = job.ranks * job.threads;
            assert!(mpi.is_some() || wanted <= job.mode.cpus(), "{}", job.name);
            for plot in job.rows.iter().filter_map(|row| row.plot) {
                assert!(PLOTS.iter().any(|known| known.name == plot), "{plot}");
            }
        }
    }

    #[test]
    fn plots_have_something_to_show_in_one_unit() {
        for plot in PLOTS {
            match plot.shape {
                Shape::Strips { .. } => {
                    let rows = || {
                        JOBS.iter()
                            .flat_map(|job| job.rows)
                            .filter(|row| row.plot == Some(plot.name))
                    };
                    let first = rows().next().expect("a row");
                    let same = |row: &Row| row.unit.sign() == first.unit.sign();
                    assert!(rows().all(same), "{}", plot.name);
                    assert!(rows().all(|row| row.over == first.over), "{}", plot.name);
                }
                Shape::Lines { job, .. } | Shape::Noise { job, .. } => {
                    assert!(JOBS.iter().any(|known| known.name == job), "{job}");
                }
            }
        }
    }

    #[test]
    fn what_is_wanted_is_found_by_either_name() {
        assert_eq!(wanted(&[]).expect("all").len(), JOBS.len());
        assert_eq!(wanted(&["".to_owned()]).expect("all").len(), JOBS.len());
        let two = ["boot".to_owned(), "null_call_instructions".to_owned()];
        assert_eq!(wanted(&two).expect("two").len(), 2);
        let claim = wanted(&["pingpong_8b_ratio".to_owned()]).expect("two");
        let names: Vec<&str> = claim.iter().map(|job| job.name).collect();
        assert_eq!(names, ["openmpi", "mpich"]);
        assert!(
            wanted(&["nope".to_owned()])
                .expect_err("unknown")
                .contains("nope")
        );
    }
}
