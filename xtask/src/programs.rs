//! Building the programs that tests and demo run, with tests/mark.c linked into each of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{root, run, target};
use crate::{log, setup};

/// The variables of the programs' Makefile that hold a compiler, and the compiler.
const COMPILERS: &[(&str, &str)] = &[
    ("CC", "gcc"),
    ("CXX", "g++"),
    ("FC", "gfortran"),
    ("MUSL_CC", "musl-gcc"),
    ("CC_OPENMPI", "mpicc.openmpi"),
    ("FC_OPENMPI", "mpifort.openmpi"),
    ("CC_MPICH", "mpicc.mpich"),
    ("FC_MPICH", "mpifort.mpich"),
];

/// Where the built programs are: a folder per kind of build.
pub fn directory() -> PathBuf {
    target().join("programs")
}

/// Builds what changed.
///
/// # Errors
/// When a compiler is missing or fails.
pub fn all() -> Result<()> {
    setup::all()?;
    let mark = mark()?;
    let mark = mark.display();
    let path = log::log_path("programs");
    fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-s", "-C", "tests/programs"])
        .arg(format!("OUT={}", directory().display()))
        .args(
            COMPILERS
                .iter()
                .map(|(variable, compiler)| format!("{variable}={compiler} {mark}")),
        )
        .arg(format!("RUSTC=rustc -C link-arg={mark}"))
        .stdout(log.try_clone()?)
        .stderr(log);
    run(&mut make).with_context(|| format!("see {}", path.display()))
}

/// Compiles the mark if it changed. Then all programs have to be linked again.
fn mark() -> Result<PathBuf> {
    let (source, object) = (root().join("tests/mark.c"), directory().join("mark.o"));
    if is_newer(&source, &object) {
        let _ = fs::remove_dir_all(directory());
        fs::create_dir_all(directory())?;
        // For programs with and without fixed addresses, of any C library.
        let flags = [
            "-c",
            "-O2",
            "-Wall",
            "-Wextra",
            "-fPIC",
            "-fno-stack-protector",
            "-o",
        ];
        run(Command::new("gcc").args(flags).args([&object, &source]))?;
    }
    Ok(object)
}

/// Whether a file was changed after another was made from it.
fn is_newer(source: &Path, made: &Path) -> bool {
    let time = |path| fs::metadata(path).and_then(|meta| meta.modified());
    match (time(source), time(made)) {
        (Ok(source), Ok(made)) => source > made,
        _ => true,
    }
}
