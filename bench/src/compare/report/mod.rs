//! The report: report.json has everything, report.md what people read, and an SVG per plot.

mod facts;
mod markdown;
mod plots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;

use super::catalogue::{Better, CLAIMS, Claim, Job, PLOTS, Plot, Row};
use super::journal::Sample;
use super::runner::Runner;
use super::summary::{self, Cell, NOT_COUNTED, Ratio};
pub use facts::Facts;

/// Everything there is to show.
#[derive(Serialize)]
pub struct Report {
    /// Where and how it was measured.
    pub facts: Facts,
    /// The columns.
    pub systems: Vec<SystemEntry>,
    /// The jobs that were asked for.
    pub jobs: Vec<JobEntry>,
    /// The claims whose figures were all asked for.
    pub claims: Vec<ClaimEntry>,
    /// Names of jobs that were asked for and could not be run on any system, and why.
    pub left_out: BTreeMap<&'static str, String>,
}

/// A claim over several figures.
#[derive(Serialize)]
pub struct ClaimEntry {
    /// The catalogue's.
    #[serde(skip)]
    pub claim: &'static Claim,
    /// Its name.
    pub name: &'static str,
    /// The first system's figures over the last one's; none: one of them is missing.
    pub value: Option<f64>,
    /// The most that is aimed at.
    pub most: Option<f64>,
}

/// A column.
#[derive(Serialize)]
pub struct SystemEntry {
    /// Short name.
    pub name: &'static str,
    /// Name in tables.
    pub title: &'static str,
    /// Version and set-up, or why there is none.
    pub about: String,
    /// Whether it could be measured.
    pub there: bool,
}

/// A job and its figures.
#[derive(Serialize)]
pub struct JobEntry {
    /// The catalogue's.
    #[serde(skip)]
    pub job: &'static Job,
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The program and its arguments.
    pub program: String,
    /// How it was measured.
    pub mode: &'static str,
    /// Processes.
    pub ranks: usize,
    /// Its figures.
    pub rows: Vec<RowEntry>,
    /// The runs, by column.
    #[serde(skip)]
    pub samples: Vec<Vec<Sample>>,
}

/// A figure on every system.
#[derive(Serialize)]
pub struct RowEntry {
    /// The catalogue's.
    #[serde(skip)]
    pub row: &'static Row,
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// By column; an error is the reason.
    #[serde(serialize_with = "by_column")]
    pub cells: Vec<(&'static str, Result<Cell, String>)>,
    /// The first system's figure over each other's, where both are there.
    pub ratios: BTreeMap<&'static str, Ratio>,
}

fn by_column<S: serde::Serializer>(
    cells: &[(&'static str, Result<Cell, String>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(cells.iter().map(|(name, cell)| {
        let text = match cell {
            Ok(cell) => json!(cell),
            Err(reason) => json!({ "missing": reason }),
        };
        (name, text)
    }))
}

impl Report {
    /// Makes it from what is in the journal; `left_out` is the report's.
    ///
    /// # Errors
    /// When a file that decides what is measured cannot be read.
    pub fn new(
        runner: &Runner<'_>,
        jobs: &[&'static Job],
        left_out: BTreeMap<&'static str, String>,
        facts: Facts,
    ) -> Result<Report> {
        let systems = runner.columns.iter().map(|column| SystemEntry {
            name: column.name,
            title: column.title,
            there: column.system.is_ok(),
            about: match &column.system {
                Ok(system) => system.about().unwrap_or_else(|error| format!("{error:#}")),
                Err(reason) => format!("not measured: {reason}"),
            },
        });
        let columns: Vec<_> = runner
            .columns
            .iter()
            .map(|column| (column.name, column.missing().map(str::to_owned)))
            .collect();
        let all = runner.journal.samples();
        let entry = |job: &&'static Job| -> Result<JobEntry> {
            let fingerprint = runner.fingerprint(job)?;
            let of = |system: &str| -> Vec<Sample> {
                all.iter()
                    .filter(|sample| sample.job == job.name && sample.system == system)
                    .filter(|sample| sample.fingerprint == fingerprint)
                    .cloned()
                    .collect()
            };
            let samples = runner
                .columns
                .iter()
                .map(|column| of(column.name))
                .collect();
            Ok(job_entry(job, &columns, samples, facts.tsc_hz))
        };
        let jobs = jobs.iter().map(entry).collect::<Result<Vec<_>>>()?;
        let against = runner.columns.last().map_or("", |column| column.name);
        Ok(Report {
            claims: claims(&jobs, against),
            systems: systems.collect(),
            jobs,
            left_out,
            facts,
        })
    }

    /// Writes all files; those that can be written are, whatever becomes of the others.
    ///
    /// # Errors
    /// The first that could not.
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        // One of an earlier report would show other runs. There may be none.
        for plot in PLOTS {
            let _ = fs::remove_file(directory.join(plot.file()));
        }
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let drawn = plots::draw(self);
        let drawings = drawn.as_ref().map_or(&[][..], Vec::as_slice);
        let shown: Vec<&Plot> = drawings.iter().map(|(plot, _)| *plot).collect();
        // What is needed most comes first: the disk may be nearly full.
        let mut written = vec![
            write("report.md", &markdown::render(self, &shown)),
            write("report.json", &serde_json::to_string_pretty(self)?),
        ];
        written.extend(drawings.iter().map(|(plot, svg)| write(&plot.file(), svg)));
        drawn.map(drop).and(written.into_iter().collect())
    }

    /// Whether every cell has a figure from all of its runs, or never can.
    pub fn complete(&self) -> bool {
        let cells = || {
            self.jobs
                .iter()
                .flat_map(|job| &job.rows)
                .flat_map(|row| &row.cells)
        };
        cells().all(|(_, cell)| match cell {
            Ok(cell) => cell.failed.is_none(),
            Err(reason) => reason == NOT_COUNTED,
        })
    }

    /// The claims that are larger than what is aimed at, each with its value.
    pub fn missed(&self) -> Vec<(&'static Claim, f64)> {
        let values = self
            .claims
            .iter()
            .filter_map(|entry| Some((entry.claim, entry.value?)));
        values
            .filter(|(claim, value)| claim.is_missed(*value))
            .collect()
    }

    /// The fewest and the most runs that a job has on a system that could be measured.
    pub fn runs(&self) -> (usize, usize) {
        let counts = || {
            let of_job = |job: &JobEntry| {
                let there = self
                    .systems
                    .iter()
                    .zip(&job.samples)
                    .filter(|(system, _)| system.there);
                there.map(|(_, samples)| samples.len()).collect::<Vec<_>>()
            };
            self.jobs.iter().flat_map(of_job)
        };
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }

    /// When and under which load the runs in it were made: the first and the last, the least, the middle and the highest.
    pub fn conditions(&self) -> Option<Conditions> {
        let samples = || {
            self.jobs
                .iter()
                .flat_map(|job| job.samples.iter().flatten())
        };
        let mut loads: Vec<f64> = samples().map(|sample| sample.load).collect();
        loads.sort_by(f64::total_cmp);
        Some(Conditions {
            first_s: samples().map(|sample| sample.unix_s).min()?,
            last_s: samples().map(|sample| sample.unix_s).max()?,
            load: [*loads.first()?, loads[loads.len() / 2], *loads.last()?],
        })
    }
}

/// See [`Report::conditions`].
pub struct Conditions {
    /// Seconds since 1970.
    pub first_s: u64,
    /// Seconds since 1970.
    pub last_s: u64,
    /// Load averages.
    pub load: [f64; 3],
}

/// `columns` are names, with the reason where a system is not there.
fn job_entry(
    job: &'static Job,
    columns: &[(&'static str, Option<String>)],
    samples: Vec<Vec<Sample>>,
    tsc_hz: f64,
) -> JobEntry {
    let cell = |row: &Row, missing: &Option<String>, samples: &[Sample]| match missing {
        None => summary::cell(row, &samples.iter().collect::<Vec<_>>(), tsc_hz),
        Some(reason) => Err(reason.clone()),
    };
    let rows = job.rows.iter().map(|row| {
        let cells = columns
            .iter()
            .zip(&samples)
            .map(|((name, missing), samples)| (*name, cell(row, missing, samples)));
        row_entry(row, cells.collect())
    });
    JobEntry {
        name: job.name,
        about: job.about,
        program: [&[job.program], job.args].concat().join(" "),
        mode: job.mode.title(),
        ranks: job.ranks,
        rows: rows.collect(),
        samples,
        job,
    }
}

/// Of the jobs in a report, against one of its systems.
fn claims(jobs: &[JobEntry], against: &str) -> Vec<ClaimEntry> {
    let row = |name: &&str| {
        let mut rows = jobs.iter().flat_map(|job| &job.rows);
        rows.find(|row| row.name == *name)
    };
    let entry = |claim: &'static Claim| {
        let rows: Vec<&RowEntry> = claim.rows.iter().map(row).collect::<Option<_>>()?;
        let ratio = |row: &&RowEntry| {
            let value = row.ratios.get(against)?.value;
            Some(if row.lower_is_better {
                value
            } else {
                1.0 / value
            })
        };
        let ratios: Option<Vec<f64>> = rows.iter().map(ratio).collect();
        Some(ClaimEntry {
            claim,
            name: claim.name,
            most: claim.most,
            value: ratios.and_then(|ratios| summary::together(claim.make, &ratios)),
        })
    };
    CLAIMS.iter().filter_map(entry).collect()
}

fn row_entry(row: &'static Row, cells: Vec<(&'static str, Result<Cell, String>)>) -> RowEntry {
    let mut ratios = BTreeMap::new();
    if let Some(((_, Ok(ours)), others)) = cells.split_first() {
        for (name, cell) in others {
            if let Some(ratio) = cell
                .as_ref()
                .ok()
                .and_then(|cell| summary::ratio(row, ours, cell))
            {
                ratios.insert(*name, ratio);
            }
        }
    }
    RowEntry {
        name: row.name,
        title: row.title,
        unit: row.unit.sign(),
        lower_is_better: row.better == Better::Lower,
        cells,
        ratios,
        row,
    }
}
