//! Runs what is missing, in rounds: in each, every job once on every system, so that a drift of the host's speed meets all alike.
//!
//! Wall time is measured alone; runs that count instructions go on side by side, one per core. A failure ends its own cell only.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::catalogue::Job;
use super::journal::{Journal, Outcome, Sample};
use super::system::{Column, Mode, Order, Output, System};
use super::{executed, memory};
use crate::lab::{Lab, allowed_cores};
use crate::output::{Results, series};
use crate::plugin::{self, Report};
use crate::scratch::Scratch;
use margay_tests::guest::files::{self, Tree};

/// A run takes seconds; whatever takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// Failures after which a cell is given up. Not the first: Linux was seen to hang at boot under emulation, once in some
/// hundred boots.
const MOST_FAILURES: usize = 2;
/// Runs side by side, at most: each keeps a core and a machine's memory.
const MOST_WORKERS: usize = 4;
/// Longest reason of a failure that is kept.
const REASON_CHARS: usize = 300;

/// Set by Ctrl-C: nothing more is begun, and what is running does not count. A terminal's Ctrl-C ends it, too.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// How often the runs of a job failed on a system, by their names.
type Failures = Mutex<HashMap<(&'static str, &'static str), usize>>;

/// A run that is to be made.
#[derive(Clone, Copy)]
struct Task<'a> {
    job: &'static Job,
    column: &'a Column<'a>,
}

/// Everything that runs need.
pub struct Runner<'a> {
    /// Programs.
    pub lab: &'a Lab,
    /// Systems.
    pub columns: &'a [Column<'a>],
    /// What jobs need besides their programs, by their names; none: nothing.
    pub trees: HashMap<&'static str, Tree>,
    /// Results.
    pub journal: &'a Journal,
    /// Of each job on each system.
    pub runs: usize,
}

impl Runner<'_> {
    /// Makes the missing runs of `jobs`.
    ///
    /// # Errors
    /// When a file that decides what is measured cannot be read.
    pub fn run(&self, jobs: &[&'static Job]) -> Result<()> {
        let missing = jobs
            .iter()
            .map(|job| Ok(missing(&self.done(job)?, self.runs)))
            .collect::<Result<Vec<_>>>()?;
        let total = missing.iter().flatten().map(Vec::len).sum::<usize>();
        let bar = progress(total as u64);
        let failures = Failures::default();
        for round in 0..self.runs {
            if interrupted() {
                break;
            }
            if bar.is_hidden() && total > 0 {
                eprintln!("compare: round {} of {}", round + 1, self.runs);
            }
            let tasks = jobs.iter().zip(&missing).flat_map(|(job, missing)| {
                missing[round].iter().map(|column| Task {
                    job,
                    column: &self.columns[*column],
                })
            });
            let (counted, timed): (Vec<_>, Vec<_>) =
                tasks.partition(|task| task.job.mode.is_counted());
            let cores = allowed_cores();
            for task in timed {
                self.make(task, &cores, &failures, &bar);
            }
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for core in cores.iter().take(MOST_WORKERS) {
                    scope.spawn(|| {
                        while let Some(task) = counted.get(next.fetch_add(1, Ordering::Relaxed)) {
                            self.make(*task, std::slice::from_ref(core), &failures, &bar);
                        }
                    });
                }
            });
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// How many runs of a job there are already, by column.
    fn done(&self, job: &Job) -> Result<Vec<usize>> {
        let fingerprint = self.fingerprint(job)?;
        let samples = self.journal.samples();
        let of_job = |sample: &&Sample| sample.job == job.name && sample.fingerprint == fingerprint;
        let done = |column: &Column<'_>| {
            let samples = samples.iter().filter(of_job);
            samples
                .filter(|sample| sample.system == column.name)
                .count()
        };
        Ok(self.columns.iter().map(done).collect())
    }

    /// Makes one run and keeps what came of it.
    fn make(&self, task: Task<'_>, cores: &[usize], failures: &Failures, bar: &ProgressBar) {
        let cell = (task.job.name, task.column.name);
        let lock = || {
            failures
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        bar.inc(1);
        let Ok(system) = &task.column.system else {
            return; // The report gives the reason for the whole column.
        };
        if interrupted() || lock().get(&cell) >= Some(&MOST_FAILURES) {
            return;
        }
        bar.set_message(format!("{} on {}", task.job.name, task.column.title));
        let result = self.sample(task, &**system, cores);
        if interrupted() {
            return; // It may have been cut short.
        }
        let kept = result.and_then(|sample| {
            if let Outcome::Failed(reason) = &sample.outcome {
                *lock().entry(cell).or_default() += 1;
                bar.suspend(|| {
                    eprintln!(
                        "compare: {} on {}: {reason}",
                        task.job.name, task.column.title
                    )
                });
            }
            self.journal.add(sample)
        });
        if let Err(error) = kept {
            bar.suspend(|| eprintln!("compare: {error:#}"));
        }
    }

    fn sample(&self, task: Task<'_>, system: &dyn System, cores: &[usize]) -> Result<Sample> {
        let (unix_s, load) = (now_s(), load());
        let outcome = match self.measure(task.job, system, cores) {
            Ok(values) => Outcome::Values(values),
            Err(error) => Outcome::Failed(one_line(&format!("{error:#}"))),
        };
        Ok(Sample {
            job: task.job.name.to_owned(),
            system: task.column.name.to_owned(),
            fingerprint: self.fingerprint(task.job)?,
            unix_s,
            load,
            outcome,
        })
    }

    fn measure(
        &self,
        job: &Job,
        system: &dyn System,
        cores: &[usize],
    ) -> Result<Vec<(String, Vec<f64>)>> {
        let cpus = job.mode.cpus();
        ensure!(
            cores.len() >= cpus,
            "it needs {cpus} cores, and this host lets us use {}",
            cores.len()
        );
        let names: Vec<String> = cores[..cpus].iter().map(ToString::to_string).collect();
        let scratch = Scratch::new(self.lab.output())?;
        let counts = scratch.path().join("counts.json");
        let library = plugin::library(self.lab.output());
        let plugin = match job.mode {
            Mode::Memory => Some(memory::argument(&library, &counts)),
            Mode::Executed => Some(executed::argument(&library, &counts, job)),
            Mode::Wall | Mode::Instructions | Mode::Events => None,
        };
        let mut output = system.run(&Order {
            program: &self.lab.program(job.program),
            tree: self.tree(job),
            args: job.args,
            prepare: job.prepare,
            mode: job.mode,
            ranks: job.ranks,
            launch: job.launch,
            threads: job.threads,
            cores: &names.join(","),
            direct: job.rows.iter().any(|row| row.result == FIRST_OUTPUT),
            plugin: plugin.as_deref(),
            limit: LIMIT,
        })?;
        match job.mode {
            Mode::Memory => output.events = memory::values(&Report::read(&counts)?)?,
            Mode::Executed => output.events = executed::values(&Report::read(&counts)?)?,
            Mode::Wall | Mode::Instructions | Mode::Events => {}
        }
        values(job, output)
    }

    fn tree(&self, job: &Job) -> &Tree {
        self.trees.get(job.name).unwrap_or(&files::EMPTY)
    }

    /// Of everything that decides what a job measures: the program and all systems, so that what is compared was measured in
    /// the same rounds.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn fingerprint(&self, job: &Job) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        (job.args, job.prepare, job.mode as usize).hash(&mut hasher);
        (job.ranks, job.threads, job.launch).hash(&mut hasher);
        if let Some(mpi) = job.launch.mpi() {
            (mpi.launcher(job.ranks, job.mode.cpus()), mpi.variables()).hash(&mut hasher);
        }
        for file in job.launch.files(self.lab.target()) {
            hash_file(&file, &mut hasher)?;
        }
        hash_file(&self.lab.program(job.program), &mut hasher)?;
        self.tree(job).hash(&mut hasher);
        if job.mode.needs_plugin() {
            hash_file(&plugin::library(self.lab.output()), &mut hasher)?;
        }
        for system in self
            .columns
            .iter()
            .filter_map(|column| column.system.as_ref().ok())
        {
            for file in system.files() {
                hash_file(&file, &mut hasher)?;
            }
        }
        Ok(hasher.finish())
    }
}

/// The name of the time to the first output.
const FIRST_OUTPUT: &str = "first_output_s";

/// What a run gave, by name.
///
/// # Errors
/// When something that a row needs is not there.
fn values(job: &Job, output: Output) -> Result<Vec<(String, Vec<f64>)>> {
    let results = Results::parse(&output.text);
    let mut values: Vec<(String, Vec<f64>)> = results
        .lines()
        .iter()
        .map(|(name, value)| (name.clone(), vec![*value]))
        .collect();
    values.extend(series(&output.text));
    let has_events = job.mode.has_events();
    if has_events || job.mode.needs_plugin() {
        values.extend(output.events);
    }
    values.extend(
        output
            .first_output_s
            .map(|s| (FIRST_OUTPUT.to_owned(), vec![s])),
    );
    // What a kernel does not count is no failure of the run.
    for row in job.rows.iter().filter(|_| !has_events) {
        let there = values
            .iter()
            .any(|(name, values)| name == row.result && !values.is_empty());
        ensure!(there, "the program did not print {}", row.result);
    }
    Ok(values)
}

/// The columns that lack a run, round by round; another one begins each time.
fn missing(done: &[usize], runs: usize) -> Vec<Vec<usize>> {
    let round = |round: usize| {
        let turned = (0..done.len()).map(|i| (i + round) % done.len());
        turned.filter(|&column| done[column] <= round).collect()
    };
    (0..runs).map(round).collect()
}

fn progress(total: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise}, {eta} to go: {msg}");
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn hash_file(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    bytes.hash(hasher);
    Ok(())
}

/// Load average of the last minute; 0 where there is none.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(0.0)
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= REASON_CHARS {
        return line;
    }
    let kept: String = line.chars().take(REASON_CHARS).collect();
    kept + "..."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::catalogue::JOBS;

    #[test]
    fn all_take_turns_and_what_is_there_is_not_run_again() {
        assert_eq!(missing(&[0, 0, 0], 2), [vec![0, 1, 2], vec![1, 2, 0]]);
        assert_eq!(missing(&[1, 0, 2], 2), [vec![1], vec![1, 0]]);
        assert_eq!(missing(&[5, 5, 5], 2), [vec![0; 0], vec![]]);
    }

    #[test]
    fn a_run_without_a_rows_result_is_a_failure() {
        let job = JOBS.iter().find(|job| job.name == "boot").expect("a job");
        let output = |first_output_s| Output {
            text: "main_tsc 12\nseries s 1 2 3\n".to_owned(),
            events: vec![("page_faults".to_owned(), vec![1.0])],
            first_output_s,
        };
        let good = values(job, output(Some(0.5))).expect("all there");
        assert_eq!(
            good,
            [
                ("main_tsc".to_owned(), vec![12.0]),
                ("s".to_owned(), vec![1.0, 2.0, 3.0]),
                ("first_output_s".to_owned(), vec![0.5])
            ]
        );
        let error = values(job, output(None)).expect_err("one is missing");
        assert_eq!(
            error.to_string(),
            "the program did not print first_output_s"
        );
    }

    #[test]
    fn reasons_are_short_and_of_one_line() {
        assert_eq!(one_line("a\n  b\r\n"), "a b");
        assert_eq!(one_line(&"x".repeat(1000)).len(), REASON_CHARS + 3);
    }
}
