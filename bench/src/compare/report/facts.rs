//! Where it was measured: the host, and the machine that was emulated on it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::compare::machine::Machine;
use crate::compare::margay::how;
use crate::compare::system::{Mode, Order};
use crate::lab::{Lab, allowed_cores};
use crate::launch::Launch;
use crate::process;
use margay_tests::guest::files;

/// What does not depend on the runs.
#[derive(Clone, Serialize, Debug)]
pub struct Facts {
    /// The host's CPU, as it calls itself.
    pub cpu: String,
    /// Cores that we were allowed to use.
    pub cores: usize,
    /// Memory of the host.
    pub memory_gib: f64,
    /// The host's kernel.
    pub host_kernel: String,
    /// QEMU's version.
    pub qemu: String,
    /// Frequency of the host's TSC, which is the guests', too, unless instructions are counted.
    pub tsc_hz: f64,
    /// By way of measuring: the options of QEMU that make the machine.
    pub machines: Vec<(&'static str, String)>,
    /// Runs that were asked for.
    pub runs: usize,
}

impl Facts {
    /// Finds them out.
    ///
    /// # Errors
    /// When yod does not say what machine it would start, or programs do not run here.
    pub fn find(lab: &Lab, runs: usize) -> Result<Facts> {
        let machines = Mode::ALL
            .iter()
            .map(|mode| Ok((mode.title(), machine(lab, *mode)?)))
            .collect::<Result<Vec<_>>>()?;
        let mut qemu = Command::new(&machines[0].1.qemu);
        let version = process::run(qemu.arg("--version"), Duration::from_secs(20))?.good()?;
        Ok(Facts {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: allowed_cores().len(),
            memory_gib: memory_gib(),
            host_kernel: read("/proc/sys/kernel/osrelease"),
            qemu: version.stdout.lines().next().unwrap_or_default().to_owned(),
            tsc_hz: tsc_hz(lab)?,
            machines: machines
                .into_iter()
                .map(|(mode, machine)| (mode, machine.describe()))
                .collect(),
            runs,
        })
    }
}

fn machine(lab: &Lab, mode: Mode) -> Result<Machine> {
    let program = lab.program("first");
    let cores: Vec<String> = allowed_cores()
        .iter()
        .take(mode.cpus())
        .map(ToString::to_string)
        .collect();
    let order = Order {
        program: &program,
        tree: &files::EMPTY,
        args: &[],
        prepare: &[],
        mode,
        ranks: 1,
        launch: Launch::None,
        threads: 1,
        cores: &cores.join(","),
        direct: false,
        plugin: None,
        limit: Duration::ZERO,
    };
    Machine::parse(&lab.plan(how(&order), &program)?)
}

/// From a program that times the same work by the TSC and by the clock, on the host.
fn tsc_hz(lab: &Lab) -> Result<f64> {
    const LINES: &str = "200000";
    let results = lab.native("printf", &[LINES])?;
    let lines: f64 = LINES.parse()?;
    Ok(results.one("line_ticks")? * lines / results.one("seconds")?)
}

fn memory_gib() -> f64 {
    let kib = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kib.map_or(0.0, |kib| kib / f64::from(1 << 20))
}

fn field(path: impl AsRef<Path>, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    text.map_or_else(|error| format!("{error:#}"), |text| text.trim().to_owned())
}
