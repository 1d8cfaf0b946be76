//! Steps of a check: commands whose output is kept in a file, counted, and shown only when something failed.
//!
//! A step alone leaves a core idle now and then, so two run at a time, but for those that say that they do not bear it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::build;
use crate::log::{Count, counted, log_path, log_text, not_run, recap, show_failure};

/// Linux's ticks of CPU time in a second, as /proc shows them on x86-64.
const USER_HZ: u64 = 100;
/// Steps at the same time.
const AT_ONCE: usize = 2;

/// A part of the check.
pub struct Step {
    name: &'static str,
    commands: Vec<Command>,
    /// Why it cannot be run here, if so.
    skipped: Option<String>,
    /// Whether nothing else runs meanwhile.
    alone: bool,
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
            alone: false,
        }
    }

    /// It measures, or lasts as long as it is given: no other step runs meanwhile.
    pub fn alone(mut self) -> Step {
        self.alone = true;
        self
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

    fn run(&mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if let Some(why) = &self.skipped {
            outcome.skipped.push(why.clone());
            return Ok(outcome);
        }
        let path = log_path(self.name);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        for command in &mut self.commands {
            let seen = log.metadata()?.len() as usize;
            let mut child = command
                .current_dir(build::root())
                .env("RUST_BACKTRACE", "0")
                .stdin(std::process::Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log.try_clone()?)
                .spawn()
                .with_context(|| format!("cannot run {command:?}"))?;
            outcome.computed += computed(&child)?;
            let status = child.wait()?;
            let output = String::from_utf8_lossy(&fs::read(&path)?[seen..]).into_owned();
            outcome.count = outcome.count.and(counted(&output, status.success()));
            outcome.skipped.extend(not_run(&output));
        }
        Ok(outcome)
    }
}

/// Waits until a process ends; the CPU time of it and of those that were waited for below it.
fn computed(child: &Child) -> Result<Duration> {
    let id = WaitId::Pid(Pid::from_child(child));
    waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    // proc(5): utime, stime, cutime and cstime are the fields 14 to 17, and the third follows the name.
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = rest.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / USER_HZ))
}

/// What came of a step.
#[derive(Default)]
struct Outcome {
    count: Count,
    /// What of it could not be run.
    skipped: Vec<String>,
    /// CPU time.
    computed: Duration,
}

/// What came of all steps.
#[derive(Default, Debug)]
pub struct Summary {
    /// Of all.
    pub count: Count,
    /// What could not be run here: the step, and what of it or why.
    skipped: Vec<(&'static str, String)>,
    /// Steps in which something failed.
    failed: Vec<&'static str>,
}

impl Summary {
    /// Says what came of a step, and counts it.
    fn add(&mut self, name: &'static str, outcome: Result<Outcome>, took: Duration) {
        let outcome = outcome.unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            let mut outcome = Outcome::default();
            outcome.count.failed = 1;
            outcome
        });
        println!("{}", line(name, &outcome, took));
        if !outcome.count.good() {
            show_failure(name);
            self.failed.push(name);
        }
        self.count = self.count.and(outcome.count);
        let skipped = outcome.skipped.into_iter().map(|what| (name, what));
        self.skipped.extend(skipped);
    }

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

/// Runs steps, with a line for each when it ends.
///
/// # Errors
/// When a step's log cannot be written; a failed step is not an error but counted.
pub fn run(steps: impl IntoIterator<Item = Step>) -> Result<Summary> {
    let started = Instant::now();
    let mut steps: VecDeque<Step> = steps.into_iter().collect();
    let all = Mutex::new(Summary::default());
    while !steps.is_empty() {
        run_together(steps.drain(..side_by_side(&steps)).collect(), &all);
    }
    let all = all.into_inner().expect("no step panics");
    for name in &all.failed {
        println!("failed: {name}");
        for line in recap(&log_text(name)) {
            println!("    {line}");
        }
    }
    println!("in {:.0} s", started.elapsed().as_secs_f64());
    Ok(all)
}

/// How many of the first steps bear each other; one that runs alone is by itself.
fn side_by_side(steps: &VecDeque<Step>) -> usize {
    let beside = steps.iter().take_while(|step| !step.alone).count();
    beside.max(1)
}

/// Runs steps that bear each other, in this order, [`AT_ONCE`] at a time.
fn run_together(steps: Vec<Step>, all: &Mutex<Summary>) {
    let steps = Mutex::new(steps.into_iter());
    let next = || steps.lock().expect("no step panics").next();
    let work = || {
        while let Some(mut step) = next() {
            let start = Instant::now();
            let outcome = step.run();
            let took = start.elapsed();
            all.lock()
                .expect("no step panics")
                .add(step.name, outcome, took);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
}

fn line(name: &str, outcome: &Outcome, took: Duration) -> String {
    let Count { passed, failed } = outcome.count;
    let verdict = match (failed, passed) {
        (0, 0) => "skipped",
        (0, _) => "ok",
        _ => "FAILED",
    };
    format!(
        "{name:<20} {verdict:<7} {passed:>5} passed {failed:>4} failed {:>7.1} s {:>7.1} s of CPU",
        took.as_secs_f64(),
        outcome.computed.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two meet, so they ran at the same time. The one alone finds nothing that is there only while another runs.
    #[test]
    fn two_steps_run_beside_each_other_but_not_beside_one_alone() {
        let folder = std::env::temp_dir().join(format!("steps-{}", std::process::id()));
        fs::create_dir(&folder).expect("makes a folder");
        let shell = |name, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-ec", script, "sh"]).arg(&folder);
            Step::new(name, command)
        };
        let steps = [
            shell(
                "test-left",
                "mkdir $1/runs; mkfifo $1/pipe; echo >$1/pipe; rmdir $1/runs",
            ),
            shell(
                "test-right",
                "until [ -p $1/pipe ]; do :; done; read _ <$1/pipe",
            ),
            shell("test-alone", "[ -e $1/pipe ] && [ ! -e $1/runs ]").alone(),
        ];
        let all = run(steps).expect("a summary");
        fs::remove_dir_all(&folder).expect("removes its folder");
        assert_eq!(all.last_line(), "3 passed, 0 failed");
    }

    #[test]
    fn a_step_alone_is_by_itself() {
        let step = || Step::new("test", Command::new("/nowhere/never-run"));
        let mut steps = VecDeque::from([step(), step(), step().alone(), step().alone(), step()]);
        let mut groups = Vec::new();
        while !steps.is_empty() {
            groups.push(steps.drain(..side_by_side(&steps)).count());
        }
        assert_eq!(groups, [2, 1, 1, 1]);
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
}
