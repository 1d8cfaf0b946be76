//! The comparison with Linux (bench/src/compare): fetches what it is compared with, builds, and hands over.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, captured, cargo, target};
use crate::check::make_in;
use crate::plugin;

/// Debian's kernel for clouds. It depends on the package that holds the present one.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Compares; see bench/. Without Linux the report has no figures of it, so that is reported and not fatal.
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

/// Fetches and unpacks Linux into `to`, unless it is there. It is not installed.
fn linux(to: &Path) -> Result<()> {
    if to.is_dir() {
        return Ok(());
    }
    let new = to.with_extension("new");
    // From an attempt that was interrupted.
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    let apt_get = |args: &[&str]| captured(Command::new("apt-get").args(args).current_dir(&new));
    let package = match package() {
        Ok(package) => package,
        // The lists may be missing; if they cannot be had, the second attempt says what is wrong.
        Err(_) => {
            let _ = apt_get(&["update", "-qq"]);
            package()?
        }
    };
    let download = ["download", "-qq", &package];
    if apt_get(&download).is_err() {
        // The lists may be old.
        let _ = apt_get(&["update", "-qq"]);
        apt_get(&download)?;
    }
    let files = fs::read_dir(&new)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let unpack = [OsStr::new("-x"), file.as_os_str(), OsStr::new(".")];
    captured(Command::new("dpkg-deb").args(unpack).current_dir(&new))?;
    fs::remove_file(&file)?;
    fs::rename(&new, to).with_context(|| format!("cannot make {}", to.display()))
}

/// The package that [`PACKAGE`] depends on.
fn package() -> Result<String> {
    let depends = captured(Command::new("apt-cache").args(["depends", "--important", PACKAGE]))?;
    parse(&String::from_utf8_lossy(&depends))
        .with_context(|| format!("apt-cache names no package that {PACKAGE} depends on"))
}

fn parse(depends: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
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
}
