//! The counting plugin of bench/plugin: built where QEMU's header can be had.
//!
//! Debian's QEMU can load plugins, but no package has the header that they are compiled with. It is taken out of the source
//! package, which apt downloads from the same mirror that QEMU came from, by its checksum. Programs of other places than Debian
//! go without the plugin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{LIBRARY_FLAGS, captured, root, target};
use crate::setup;

/// The source of QEMU 7.2, and its SHA-256 as the package's signed description (.dsc) has it. Whether QEMU takes plugins of this
/// interface (1), [`refusal`] finds out.
const SOURCE: &str = "qemu_7.2+dfsg.orig.tar.xz";
const SOURCE_SHA256: &str = "91aca71520040edc40b8d437aa3004dae614f58e286cf653ee8996c07af2962f";
const HEADER: &str = "qemu-plugin.h";

/// What building gave.
pub enum Built {
    /// The library.
    Library(PathBuf),
    /// There is none, and why.
    Missing(String),
}

/// Builds it. Without the header, or with a QEMU that does not load it, there is none: one line says why.
///
/// # Errors
/// When it cannot be compiled.
pub fn build() -> Result<Built> {
    let built = try_build()?;
    if let Built::Missing(why) = &built {
        eprintln!("no plugin for QEMU, what needs it is skipped: {why}");
    }
    Ok(built)
}

fn try_build() -> Result<Built> {
    let folder = target().join("plugin");
    fs::create_dir_all(&folder)?;
    if !folder.join(HEADER).is_file()
        && let Err(error) = get_header(&folder)
    {
        return Ok(Built::Missing(format!(
            "cannot get {HEADER} of Debian's source package: {error:#}"
        )));
    }
    let library = folder.join("margay-count.so");
    let from = root().join("bench/plugin");
    captured(
        Command::new("gcc")
            .args(LIBRARY_FLAGS)
            .arg("-I")
            .arg(&folder)
            .arg("-o")
            .arg(&library)
            .args(
                ["plugin.c", "output.c", "model.c", "pages.c", "irqs.c"]
                    .map(|name| from.join(name)),
            ),
    )?;
    if let Some(complaint) = refusal(&library)? {
        fs::remove_file(&library)?;
        return Ok(Built::Missing(complaint));
    }
    Ok(Built::Library(library))
}

/// Why QEMU does not load the plugin, if so: it was built without plugins, or for others than this header's. A plugin that is
/// loaded misses its argument `out`, and says so.
fn refusal(library: &Path) -> Result<Option<String>> {
    let output = Command::new("qemu-system-x86_64")
        .args(["-M", "none", "-nodefaults", "-display", "none", "-plugin"])
        .arg(library)
        .output()
        .context("cannot run qemu-system-x86_64")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or("QEMU says nothing of it");
    Ok((!last.contains("out=FILE")).then(|| last.to_owned()))
}

/// Builds it and says where it is.
///
/// # Errors
/// As [`build`].
pub fn task() -> Result<()> {
    setup::all()?;
    if let Built::Library(library) = build()? {
        println!("{}", library.display());
    }
    Ok(())
}

/// Downloads the source package and keeps the one file.
fn get_header(folder: &Path) -> Result<()> {
    let archive = folder.join(SOURCE);
    captured(
        Command::new("/usr/lib/apt/apt-helper")
            .arg("download-file")
            .arg(format!("{}/{SOURCE}", mirror_folder()?))
            .arg(&archive)
            .arg(format!("SHA256:{SOURCE_SHA256}")),
    )?;
    let header = captured(
        Command::new("tar")
            .args(["--extract", "--xz", "--to-stdout", "--wildcards", "--file"])
            .arg(&archive)
            .arg(format!("*/include/qemu/{HEADER}")),
    )?;
    fs::write(folder.join(HEADER), header)?;
    Ok(fs::remove_file(archive)?)
}

/// Where QEMU's package comes from; its source lies beside it.
fn mirror_folder() -> Result<String> {
    let found =
        captured(Command::new("apt-get").args(["download", "--print-uris", "qemu-system-x86"]))?;
    folder_of_first(&String::from_utf8_lossy(&found)).context("apt-get knows no qemu-system-x86")
}

/// Of `'http://.../file.deb' file.deb 123 SHA256:...`.
fn folder_of_first(uris: &str) -> Option<String> {
    let uri = uris.strip_prefix('\'')?.split_once('\'')?.0;
    Some(uri.rsplit_once('/')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_lies_beside_the_package() {
        let line = "'http://mirror/pool/main/q/qemu/qemu-system-x86_7.2_amd64.deb' qemu_7.2_amd64.deb 9 SHA256:0\n";
        assert_eq!(
            folder_of_first(line).as_deref(),
            Some("http://mirror/pool/main/q/qemu")
        );
        assert_eq!(folder_of_first(""), None);
    }
}
