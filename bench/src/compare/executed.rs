//! The mode of executed instructions: what the plugin (bench/plugin) counts from reset on, and how long interrupts are off by the
//! flag itself, of every system alike.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::plugin::Report;

/// QEMU's argument for it, with the file it is to write.
pub fn argument(library: &Path, file: &Path) -> String {
    format!(
        "{},out={},model=off,irqs=on",
        library.display(),
        file.display()
    )
}

/// Values by name: instructions before `main`, which no clock that jumps is part of, and the longest section with interrupts off
/// while the program runs.
///
/// # Errors
/// When the marks were not met or the flag was not read.
pub fn values(report: &Report) -> Result<Vec<(String, Vec<f64>)>> {
    let before: u64 = report.vcpus.iter().map(|vcpu| vcpu.before_regions).sum();
    ensure!(before > 0, "the plugin saw no mark");
    let regions = report.vcpus.iter().flat_map(|vcpu| &vcpu.regions);
    let off = regions.filter_map(|region| region.irqs_off);
    let longest = off.map(|off| off.longest).max();
    let longest = longest.context("the plugin did not read the flag")?;
    let values = [
        ("instructions_before_main", before as f64),
        ("irqs_off", longest as f64),
    ];
    Ok(values
        .map(|(name, value)| (name.to_owned(), vec![value]))
        .into())
}
