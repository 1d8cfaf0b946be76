//! The comparison with Linux (bench/src/compare): fetches what it is compared with, builds, and hands over.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, cargo, target};
use crate::plugin;

/// Debian's kernel for clouds. It depends on the package that holds the present one.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Compares; see bench/. Without Linux the report has no figures of it, so that is told and not fatal.
///
/// # Errors
/// When something cannot be built. Otherwise this does not return: the comparison takes our place, so that Ctrl-C is its to
/// handle.
pub fn run(args: &[OsString]) -> Result<()> {
    build::all()?;
    if let Err(error) = linux(&target().join("linux")) {
        eprintln!("xtask: no Linux to compare with: {error:#}");
    }
    plugin::build()?;
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

/// Fetches and unpacks Linux into `to`, unless it is there. It is not installed.
fn linux(to: &Path) -> Result<()> {
    if to.is_dir() {
        return Ok(());
    }
    let new = to.with_extension("new");
    // From an attempt that was interrupted.
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    let package = match package() {
        Ok(package) => package,
        // The lists may be missing; if they cannot be had, the second attempt says what is wrong.
        Err(_) => {
            let _ = said("apt-get", &["update", "-qq"], &new);
            package()?
        }
    };
    if said("apt-get", &["download", "-qq", &package], &new).is_err() {
        // The lists may be old.
        let _ = said("apt-get", &["update", "-qq"], &new);
        said("apt-get", &["download", "-qq", &package], &new)?;
    }
    let files = fs::read_dir(&new)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    said(
        "dpkg-deb",
        &["-x".as_ref(), file.as_os_str(), ".".as_ref()],
        &new,
    )?;
    fs::remove_file(&file)?;
    fs::rename(&new, to).with_context(|| format!("cannot make {}", to.display()))
}

/// The package that [`PACKAGE`] depends on.
fn package() -> Result<String> {
    parse(&said(
        "apt-cache",
        &["depends", "--important", PACKAGE],
        Path::new("."),
    )?)
    .with_context(|| format!("apt-cache names no package that {PACKAGE} depends on"))
}

fn parse(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

/// Runs a command and returns what it printed.
///
/// # Errors
/// When it is missing, or fails: with its last word.
fn said<Arg: AsRef<std::ffi::OsStr>>(
    program: &str,
    args: &[Arg],
    directory: &Path,
) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(directory)
        .output();
    let output = match output {
        Err(error) => bail!("cannot run {program}: {error}"),
        Ok(output) => output,
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    // apt warns about more than what is wrong.
    let reason = errors.lines().rfind(|line| line.starts_with("E: "));
    let reason = reason
        .or(errors.lines().last())
        .unwrap_or("it said nothing");
    ensure!(output.status.success(), "{program} failed: {reason}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_package_is_found() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(
            parse(text).as_deref(),
            Some("linux-image-6.1.0-56-cloud-amd64")
        );
        assert_eq!(parse("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn commands_that_fail_say_why() {
        let here = Path::new(".");
        assert_eq!(said("echo", &["a"], here).expect("runs"), "a\n");
        let error = said("sh", &["-c", "echo no >&2; exit 3"], here).expect_err("fails");
        assert_eq!(error.to_string(), "sh failed: no");
        assert!(said::<&str>("no-such-program", &[], here).is_err());
    }
}
