//! Starting: how far it is from reset to a program, and how long from yod to the end of a short one.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Reading;
use crate::figure::Found;
use crate::lab::{How, Lab};
use crate::process;
use crate::statistics::{median, median_interval};

/// Runs for a figure that waiting for the host can only make larger.
const COUNTED_RUNS: usize = 5;
/// Of the partition: how much memory there is, the kernel has to look through.
const PARTITION: &str = "96M";
/// Jobs whose ranks are counted, and what that is called.
const JOBS: [(usize, &str); 3] = [
    (16, "start_16_ranks_instructions"),
    (64, "start_64_ranks_instructions"),
    (255, "start_255_ranks_instructions"),
];
/// Runs of each: waiting for the host can only make a count larger.
const JOB_RUNS: usize = 3;
/// Of each of many ranks.
const RANK_PARTITION: &str = "16M";
/// Runs for wall time.
const TIMED_RUNS: usize = 21;

/// From reset, firmware included, to a program's `main`: executed instructions, as the plugin counts them. While the node waits
/// for its proxy it turns in a loop for a moment, so waiting can only make it more; a clock would jump meanwhile.
pub fn instructions(lab: &Lab) -> Result<Vec<Reading>> {
    let executed = executed(lab)?;
    let least = executed.iter().min().context("no run")?;
    let most = executed.iter().max().context("no run")?;
    let detail = format!("least of {COUNTED_RUNS}, most {most}");
    Ok(vec![(
        "boot_instructions",
        Found::exactly(*least as f64, detail),
    )])
}

/// Of each of a few runs.
///
/// # Errors
/// No plugin, or the mark before `main` was not met.
pub fn executed(lab: &Lab) -> Result<Vec<u64>> {
    let one = || -> Result<u64> {
        let how = How {
            memory: PARTITION,
            ..How::default()
        };
        let (_, report) = lab.watched(how, "first", &[])?;
        let before = report.vcpus.iter().map(|vcpu| vcpu.before_regions).sum();
        ensure!(before > 0, "the plugin saw no mark");
        Ok(before)
    };
    (0..COUNTED_RUNS).map(|_| one()).collect()
}

/// From reset to the end of the node, for each rank beyond the first: executed instructions of the kernel, the PCT and a program
/// that prints a line, in an environment that is always the same. All ranks share one core, so that the start of each is in it, and whatever grows with their number.
pub fn ranks(lab: &Lab) -> Result<Vec<Reading>> {
    let alone = whole(lab, 1)?;
    let reading = |(ranks, name): (usize, _)| -> Result<Reading> {
        let all = whole(lab, ranks)?;
        let each = all.saturating_sub(alone).div_ceil(ranks as u64 - 1);
        let detail = format!("{all} for {ranks} ranks, {alone} for one; least of {JOB_RUNS}");
        Ok((name, Found::exactly(each as f64, detail)))
    };
    JOBS.into_iter().map(reading).collect()
}

/// What a node with so many ranks executes, the least of a few runs.
fn whole(lab: &Lab, ranks: usize) -> Result<u64> {
    let run = |_| -> Result<u64> {
        let how = How {
            ranks,
            memory: RANK_PARTITION,
            fixed_environment: true,
            ..How::default()
        };
        let (_, report) = lab.watched(how, "first", &[])?;
        Ok(report.worked())
    };
    let runs = (0..JOB_RUNS).map(run).collect::<Result<Vec<_>>>()?;
    runs.into_iter().min().context("no run")
}

/// From starting yod to the program's first output and to yod's end.
pub fn wall(lab: &Lab) -> Result<Vec<Reading>> {
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..TIMED_RUNS {
        let outcome = lab.margay(How::default(), "first", &[])?.outcome;
        first.extend(outcome.first_output_seconds);
        whole.push(outcome.seconds);
    }
    let found = |values: &[f64]| Found {
        value: median(values),
        interval: Some(median_interval(values)),
        detail: String::new(),
    };
    Ok(vec![
        ("boot_wall_s", found(&first)),
        ("exec_to_exit_s", found(&whole)),
    ])
}

/// Bytes of the kernel's file once its symbols and debug information are gone.
pub fn kernel_elf(lab: &Lab) -> Result<Vec<Reading>> {
    let stripped = lab.output().join("margay.stripped.elf");
    let mut strip = Command::new("strip");
    strip
        .args(["--strip-all", "-o"])
        .args([&stripped, lab.kernel()]);
    process::run(&mut strip, Duration::from_secs(20))?.good()?;
    let bytes = fs::metadata(&stripped)?.len();
    Ok(vec![("kernel_elf_bytes", Found::exactly(bytes as f64, ""))])
}
