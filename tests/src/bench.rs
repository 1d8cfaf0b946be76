//! Programs of bench/programs, for tests that measure.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::scratch::Scratch;
use crate::tree;

/// Builds one, as the benchmarks do: `omp_NAME` with OpenMP.
///
/// # Errors
/// When there is no compiler or it fails.
pub fn build(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    let (stem, openmp): (_, &[_]) = match name.strip_prefix("omp_") {
        Some(stem) => (stem, &["-fopenmp", "-Wl,--no-warnings"]),
        None => (name, &[]),
    };
    let source = tree::root().join(format!("bench/programs/{stem}.c"));
    let program = scratch.path().join(name);
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-static"])
        .args(openmp)
        .arg("-o")
        .args([&program, &source])
        .arg("-lm")
        .status()
        .context("cannot run cc")?;
    ensure!(status.success(), "cc failed on {}", source.display());
    Ok(program)
}

/// The values of lines "name value", in order.
///
/// # Errors
/// There is none, or it is no number.
pub fn numbers(text: &str, name: &str) -> Result<Vec<f64>> {
    let found = text.lines().filter_map(|line| {
        let (before, value) = line.rsplit_once(' ')?;
        // With --label there is a rank before the name.
        (before.rsplit(' ').next() == Some(name)).then_some(value)
    });
    let values = found.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    ensure!(!values.is_empty(), "no {name} in:\n{text}");
    Ok(values)
}
