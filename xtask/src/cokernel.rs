//! margay.ko (host/cokernel): for Debian's kernel of clouds, which the tests boot, after fetching what a module of it is built with; or for
//! the Linux that runs here.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::build::{self, output, root};
use crate::check::make_in;
use crate::debian;

/// Where the sources are.
const SOURCES: &str = "host/cokernel";

/// Builds it, into `cokernel/` beside the kernel and the PCT; for the Linux that runs `here` into `cokernel-here/`.
///
/// # Errors
/// When what it takes cannot be had, or with the first thing that the compiler finds wrong.
pub fn run(here: bool) -> Result<()> {
    if !here {
        return build()?.map_or(Ok(()), |why| bail!(why));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let headers = Path::new("/lib/modules").join(release).join("build");
    ensure!(
        headers.is_dir(),
        "no headers of this Linux in {}: apt-get install linux-headers-{release}",
        headers.display()
    );
    build_with(&headers, &output().join("cokernel-here"))
}

/// For Debian's; where the headers cannot be had it returns why.
///
/// # Errors
/// The first thing that the compiler finds wrong.
pub fn build() -> Result<Option<String>> {
    let headers = match debian::headers() {
        Ok(headers) => headers,
        Err(why) => return Ok(Some(format!("no Linux to build margay.ko for: {why:#}"))),
    };
    include_where_it_lies(&headers)?;
    build_with(&headers, &output().join("cokernel")).map(|()| None)
}

/// The same, and what jobs of tests there need besides: MPI's components.
///
/// # Errors
/// As [`build`].
pub fn build_for_tests() -> Result<Option<String>> {
    build::run(&mut make_in("lib/mpi", &["--silent", "all"]))?;
    build()
}

fn build_with(headers: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    copy_changed(&root().join(SOURCES), to)?;
    let made = Command::new("make")
        .args(["--silent", "-C"])
        .arg(headers)
        .arg(format!("M={}", to.display()))
        // What a make that runs us hands down is not meant for it.
        .env_remove("MAKEFLAGS")
        .arg("modules")
        .output()
        .context("cannot run make")?;
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    bail!("margay.ko cannot be built: {}", first_error(&said))
}

/// Debian's Makefile of a version includes that of all versions below /usr/src, where this one was not installed.
fn include_where_it_lies(headers: &Path) -> Result<()> {
    let path = headers.join("Makefile");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let there = text.replace("include /usr/src/", "include ../");
    if there != text {
        fs::write(&path, there).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Copies what is new, so that make builds no more than it must; takes away what is no more.
fn copy_changed(from: &Path, to: &Path) -> Result<()> {
    let is_source = |path: &Path| {
        let extension = path.extension().unwrap_or_default();
        ["c", "h", "S"].iter().any(|source| extension == *source)
    };
    for entry in fs::read_dir(to)?.flatten() {
        let path = entry.path();
        let generated = path.to_string_lossy().ends_with(".mod.c");
        if is_source(&path) && !generated && !from.join(entry.file_name()).exists() {
            fs::remove_file(&path)?;
        }
    }
    for entry in fs::read_dir(from).with_context(|| format!("no {}", from.display()))? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let copy = to.join(&name);
        let wanted = is_source(&path) || name == "Kbuild";
        if wanted && fs::read(&path).ok() != fs::read(&copy).ok() {
            fs::copy(&path, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        }
    }
    Ok(())
}

/// The line that has the reason.
fn first_error(said: &str) -> &str {
    let mut lines = said.lines();
    let line = lines.find(|line| line.to_lowercase().contains("error"));
    line.or(said.lines().last()).unwrap_or("make said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_reason() {
        let said = "warning: x\na.c:3: error: no such thing\nmake: *** Error 2\n";
        assert_eq!(first_error(said), "a.c:3: error: no such thing");
        assert_eq!(first_error("killed\n"), "killed");
        assert_eq!(first_error(""), "make said nothing");
    }
}
