//! The report of a volunteer with a machine of his own: a co-kernel beside the Linux that runs there (bench/src/native has what is measured).
//!
//! All that can be wrong with the module is found before anything is built, and what is measured is what was built.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::build;

/// What margay.ko makes.
const DEVICE: &str = "/dev/margay";
/// Where margay.ko reads kernel and PCT.
const FIRMWARE: &str = "/lib/firmware/margay";
/// How all of it is set up.
const PAGE: &str = "docs/first-run.md";

/// Measures and writes the report.
///
/// # Errors
/// Where there can be no co-kernel, in one line; or when a program failed, which the report has, too.
pub fn run() -> Result<()> {
    usable(Path::new(DEVICE))?;
    build::all()?;
    for name in ["margay.elf", "pct"] {
        same(&build::output().join(name), &Path::new(FIRMWARE).join(name))?;
    }
    println!("the programs run for some minutes: leave the machine alone meanwhile");
    let mut command = build::cargo();
    command
        .args(["run", "--quiet", "--release", "-p", "margay-bench"])
        .args(["--bin", "native", "--", "--revision", &revision()])
        .arg("--to")
        .arg(path());
    ensure!(
        command.current_dir(build::root()).status()?.success(),
        "not all could be measured"
    );
    Ok(())
}

fn path() -> PathBuf {
    build::target().join("native-report.md")
}

/// That this user may have nodes.
fn usable(device: &Path) -> Result<()> {
    match File::options().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{}: {error}: {PAGE} has what to do first", device.display()),
    }
}

/// That a node runs what was built.
fn same(built: &Path, installed: &Path) -> Result<()> {
    match fs::read(installed) {
        Err(error) => bail!("{}: {error}: install it ({PAGE})", installed.display()),
        Ok(there) if there == fs::read(built)? => Ok(()),
        Ok(_) => bail!(
            "{} is another than the one that was built: install it again ({PAGE})",
            installed.display()
        ),
    }
}

/// The commit, and whether files differ from it.
fn revision() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .current_dir(build::root())
            .output();
        let output = output.ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".into());
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changed) if !changed.is_empty() => head + ", changed",
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_device_there_is_a_line_that_has_the_page() {
        let error = usable(Path::new("/no/such")).expect_err("no device");
        let line = error.to_string();
        assert!(line.starts_with("/no/such: ") && line.contains(PAGE) && !line.contains('\n'));
        assert!(usable(Path::new("/dev/null")).is_ok());
        assert!(build::root().join(PAGE).is_file());
    }

    #[test]
    fn another_kernel_is_not_measured() {
        let this = build::root().join("Cargo.toml");
        assert!(same(&this, &this).is_ok());
        let error = same(&this, &build::root().join("Makefile")).expect_err("another");
        assert!(error.to_string().contains("install it again"), "{error}");
        let error = same(&this, Path::new("/no/such")).expect_err("none");
        assert!(error.to_string().contains("install it ("), "{error}");
    }
}
