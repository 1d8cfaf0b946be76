//! Linux of Debian, for a virtual machine: its kernel for clouds and the headers to build modules for it, fetched and unpacked below the
//! target directory, never installed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build::{captured, target};

/// It depends on the package that holds the present kernel.
const KERNEL: &str = "linux-image-cloud-amd64";

/// Fetches the kernel, unless it is there.
///
/// # Errors
/// When apt has none, or it cannot be unpacked.
pub fn linux() -> Result<PathBuf> {
    let to = target().join("linux");
    if !to.is_dir() {
        fetch(&to, || Ok(vec![dependency(KERNEL, "linux-image-")?]))?;
    }
    Ok(to)
}

/// The headers of the kernel that [`linux`] fetched, unless they are there: the folder that its modules are built in.
///
/// # Errors
/// As [`linux`].
pub fn headers() -> Result<PathBuf> {
    let version = version(&linux()?)?;
    let to = target().join("linux-headers");
    let own = to.join(format!("usr/src/linux-headers-{version}"));
    if !own.is_dir() {
        let _ = fs::remove_dir_all(&to); // of another version
        let package = format!("linux-headers-{version}");
        fetch(&to, || {
            let common = dependency(&package, "linux-headers-")?;
            let tools = dependency(&package, "linux-kbuild-")?;
            Ok(vec![package.clone(), common, tools])
        })?;
    }
    Ok(own)
}

/// Of the kernel that was unpacked here.
fn version(linux: &Path) -> Result<String> {
    let entries = fs::read_dir(linux.join("boot"))?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let versions = names.filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned));
    versions
        .max()
        .with_context(|| format!("no kernel in {}/boot", linux.display()))
}

/// Fetches and unpacks packages into `to`.
fn fetch(to: &Path, packages: impl Fn() -> Result<Vec<String>>) -> Result<()> {
    let new = to.with_extension("new");
    // From an attempt that was interrupted.
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    let apt_get = |args: &[&str]| captured(Command::new("apt-get").args(args).current_dir(&new));
    let names = match packages() {
        Ok(names) => names,
        // The lists may be missing; if they cannot be had, the second attempt says what is wrong.
        Err(_) => {
            let _ = apt_get(&["update", "-qq"]);
            packages()?
        }
    };
    let mut download = vec!["download", "-qq"];
    download.extend(names.iter().map(String::as_str));
    if apt_get(&download).is_err() {
        // The lists may be old.
        let _ = apt_get(&["update", "-qq"]);
        apt_get(&download)?;
    }
    let files = fs::read_dir(&new)?.flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    ensure!(
        files.len() == names.len(),
        "apt-get download left {} packages of {names:?}",
        files.len()
    );
    for file in files {
        let unpack = [OsStr::new("-x"), file.as_os_str(), OsStr::new(".")];
        captured(Command::new("dpkg-deb").args(unpack).current_dir(&new))?;
        fs::remove_file(&file)?;
    }
    fs::rename(&new, to).with_context(|| format!("cannot make {}", to.display()))
}

/// The package that `package` depends on whose name begins so.
fn dependency(package: &str, prefix: &str) -> Result<String> {
    let depends = captured(Command::new("apt-cache").args(["depends", "--important", package]))?;
    parse(&String::from_utf8_lossy(&depends), prefix)
        .with_context(|| format!("apt-cache names no {prefix}* that {package} depends on"))
}

fn parse(depends: &str, prefix: &str) -> Option<String> {
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with(prefix))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_package_is_found() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n";
        assert_eq!(
            parse(text, "linux-image-").as_deref(),
            Some("linux-image-6.1.0-56-cloud-amd64")
        );
        assert_eq!(parse("linux-image-cloud-amd64\n", "linux-image-"), None);
    }
}
