//! The benchmark programs: every C file of bench/programs, linked statically, so that one binary runs natively, on Margay
//! and on any other Linux.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

const FLAGS: [&str; 7] = [
    "-std=gnu11",
    "-O2",
    "-g0",
    "-static",
    "-Wall",
    "-Wextra",
    "-Werror",
];

/// Compiles what is older than its source, or than a header that they share, into `to`.
///
/// # Errors
/// When a file cannot be read or compiled.
pub fn build(to: &Path) -> Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut shared = SystemTime::UNIX_EPOCH;
    for header in files(&from, "h")? {
        shared = shared.max(modified(&header)?);
    }
    for source in files(&from, "c")? {
        let program = to.join(source.file_stem().unwrap_or_default());
        let newest = modified(&source)?.max(shared);
        if modified(&program).is_ok_and(|built| built > newest) {
            continue;
        }
        compile(&source, &program)?;
    }
    Ok(())
}

/// Compiles one file, as all are.
///
/// # Errors
/// When there is no compiler or it fails.
pub fn compile(source: &Path, program: &Path) -> Result<()> {
    let status = Command::new("cc")
        .args(FLAGS)
        .args([Path::new("-o"), program, source])
        .arg("-lm")
        .status()
        .context("cannot run cc: install gcc and libc6-dev")?;
    ensure!(status.success(), "cc failed on {}", source.display());
    Ok(())
}

fn files(dir: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
    Ok(found)
}

fn modified(path: &Path) -> Result<SystemTime> {
    let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(meta.modified()?)
}
