//! The comparison with Linux (bench/src/compare): fetches what it is compared with, builds, and hands over.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, captured, cargo, target};
use crate::check::make_in;
use crate::{debian, plugin};

/// Compares; see bench/. Without Linux the report has no figures of it, so that is reported and not fatal.
///
/// # Errors
/// When something cannot be built. Otherwise this does not return: the comparison takes our place, so that Ctrl-C is its to
/// handle.
pub fn run(args: &[OsString]) -> Result<()> {
    build::all()?;
    if let Err(error) = debian::linux() {
        eprintln!("xtask: no Linux to compare with: {error:#}");
    }
    plugin::build()?;
    // What runs with the components of lib/mpi is left out without them.
    let components = &mut make_in("lib/mpi", &["--silent", "all"]);
    if let Err(error) = captured(components.current_dir(build::root())) {
        eprintln!("xtask: no components of lib/mpi: {error:#}");
    }
    build::run(cargo().args([
        "build",
        "--quiet",
        "--release",
        "-p",
        "margay-bench",
        "--bin",
        "compare",
    ]))?;
    let error = Command::new(target().join("release/compare"))
        .args(args)
        .exec();
    Err(error).context("cannot run compare")
}
