//! The mode of executed instructions: what the plugin (bench/plugin) counts from reset on, and how long interrupts are off by the
//! flag itself, of every system alike.

use std::path::Path;

use anyhow::{Result, ensure};

use super::catalogue::Job;
use crate::plugin::Report;

/// The longest section with interrupts off while the program runs.
const IRQS_OFF: &str = "irqs_off";

/// QEMU's argument for it, with the file it is to write. Reading the flag takes time, and a long boot is no part of what it is read
/// for.
pub fn argument(library: &Path, file: &Path, job: &Job) -> String {
    let reads_flag = job.rows.iter().any(|row| row.result == IRQS_OFF);
    let options = if reads_flag {
        "irqs=on,scope=marks"
    } else {
        "irqs=off"
    };
    let (library, file) = (library.display(), file.display());
    format!("{library},out={file},model=off,{options}")
}

/// Values by name: instructions before `main`, which no clock that jumps is part of, and [`IRQS_OFF`]; those that were counted.
///
/// # Errors
/// When the marks were not met.
pub fn values(report: &Report) -> Result<Vec<(String, Vec<f64>)>> {
    let regions = || report.vcpus.iter().flat_map(|vcpu| &vcpu.regions);
    ensure!(regions().count() > 0, "the plugin saw no mark");
    let before: u64 = report.vcpus.iter().map(|vcpu| vcpu.before_regions).sum();
    let off = regions().filter_map(|region| region.irqs_off);
    let longest = off.map(|off| off.longest).max();
    let values = [
        ("instructions_before_main", Some(before).filter(|&n| n > 0)),
        (IRQS_OFF, longest),
    ];
    let counted = values
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), vec![value? as f64])));
    Ok(counted.collect())
}
