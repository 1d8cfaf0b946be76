//! The CPUs that a co-kernel would have, and runs there: by yod, or by Linux, bound to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::figures::{Job, Seen, Size};
use crate::process;
use crate::stats::Stats;

/// Of a run; the longest takes seconds.
const LIMIT: Duration = Duration::from_secs(180);
/// A CPU is Linux's again soon after a node has ended.
const BACK_LIMIT: Duration = Duration::from_secs(20);
const BETWEEN_POLLS: Duration = Duration::from_millis(5);

/// Who runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This machine's Linux.
    Linux = 0,
    /// Margay beside it.
    Cokernel = 1,
}

/// Where programs are run.
#[derive(Debug)]
pub struct Place {
    /// The launcher.
    pub yod: PathBuf,
    /// Folder of the programs.
    pub programs: PathBuf,
    /// Of the TSC, once the first node has said it.
    pub tsc_hz: f64,
}

impl Place {
    /// A node is started: what it counted while FWQ ran, and the log of its kernel, which is written to `log` meanwhile.
    ///
    /// # Errors
    /// yod's line, where there can be no co-kernel.
    pub fn try_out(&mut self, job: &Job, size: Size, log: &Path) -> Result<(Stats, String)> {
        self.cpus(1)?;
        let mut command = self.yod_for(job, &["--stats=json", "--kernel-log"]);
        command.arg(log);
        self.add_program(&mut command, job, size);
        let outcome = process::run(&mut command, LIMIT)?.good()?;
        let stats = Stats::parse(&outcome.stderr)?;
        ensure!(
            stats.tsc_hz > 0,
            "the node does not know the TSC's frequency"
        );
        self.tsc_hz = stats.tsc_hz as f64;
        Ok((stats, fs::read_to_string(log).unwrap_or_default()))
    }

    /// The CPUs that a node of so many cores would have.
    ///
    /// # Errors
    /// yod's line, where there can be none.
    pub fn cpus(&self, cores: usize) -> Result<Vec<u64>> {
        let mut command = Command::new(&self.yod);
        command
            .args(["--machine", "cokernel", "-n", "1", "-m", "64M"])
            .args(["-d", &cores.to_string(), "--dry-run=json", "--"])
            .arg(self.programs.join("first"));
        let said = process::run(&mut command, LIMIT)?.good()?.stdout;
        let plan: Value = serde_json::from_str(&said).context("yod's plan is not as expected")?;
        let cpus = plan["cpus"].as_array().context("yod's plan has no CPUs")?;
        let cpus: Vec<u64> = cpus.iter().filter_map(Value::as_u64).collect();
        ensure!(cpus.len() == cores, "yod's plan has {} CPUs", cpus.len());
        Ok(cpus)
    }

    /// Runs a program on these CPUs, which [`Place::cpus`] has found; its input is empty.
    ///
    /// # Errors
    /// It failed.
    pub fn run(&self, side: Side, cpus: &[u64], job: &Job, size: Size) -> Result<Seen> {
        wait_for(cpus)?;
        let mut command = match side {
            Side::Cokernel => self.yod_for(job, &[]),
            Side::Linux => {
                let cpus: Vec<String> = cpus.iter().map(u64::to_string).collect();
                let mut taskset = Command::new("taskset");
                taskset.args(["--cpu-list", &cpus.join(",")]);
                taskset
            }
        };
        self.add_program(&mut command, job, size);
        let outcome = process::run(&mut command, LIMIT)?.good();
        let outcome = outcome.with_context(|| format!("{} failed ({side:?})", job.program))?;
        Ok(Seen {
            stdout: outcome.stdout,
            first_output_s: outcome.first_output_seconds,
            seconds: outcome.seconds,
            tsc_hz: self.tsc_hz,
        })
    }

    fn yod_for(&self, job: &Job, options: &[&str]) -> Command {
        let mut command = Command::new(&self.yod);
        command
            .args(["--machine", "cokernel", "-n", "1", "-m", job.memory])
            .args(["-d", &job.cores.to_string()])
            // None of the programs shares memory, and less of a piece is easier to have.
            .args(["--shared-memory", "0"])
            .args(options);
        command
    }

    fn add_program(&self, command: &mut Command, job: &Job, size: Size) {
        let program = self.programs.join(job.program);
        let args = match size {
            Size::Full => job.full,
            Size::Tiny => job.tiny,
        };
        command.arg(&program);
        for arg in args {
            match *arg {
                "{}" => command.arg(&program),
                arg => command.arg(arg),
            };
        }
    }
}

/// Waits until Linux has these CPUs: yod has ended, but its keeper may still be giving them back.
fn wait_for(cpus: &[u64]) -> Result<()> {
    let end = Instant::now() + BACK_LIMIT;
    let is_online = |cpu: &u64| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        // A CPU that cannot be taken away has no such file.
        fs::read_to_string(file).map_or(true, |text| text.trim() == "1")
    };
    while !cpus.iter().all(is_online) {
        if Instant::now() > end {
            bail!("CPUs {cpus:?}: one is not back after {BACK_LIMIT:?}");
        }
        sleep(BETWEEN_POLLS);
    }
    Ok(())
}
