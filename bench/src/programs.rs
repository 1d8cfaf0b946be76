//! The benchmark programs: every C file of bench/programs, linked statically, so that one binary runs natively, on Margay
//! and on any other Linux; some also with OpenMP, as `omp_NAME`. Those of bench/programs/mpi are linked with an MPI, which has to be
//! installed, and are built only when they are wanted: as `openmpi_NAME` and `mpich_NAME`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use margay_tests::tree;

use crate::launch::Mpi;

const FLAGS: [&str; 6] = ["-std=gnu11", "-O2", "-g0", "-Wall", "-Wextra", "-Werror"];
const STATIC: &str = "-static";

/// Files that are also compiled with OpenMP. Its library could load others, which the linker warns of: it has no need to.
pub const WITH_OPENMP: [&str; 6] = ["cg", "constructs", "ftq", "fwq", "selfish", "stream"];
const OPENMP_FLAGS: [&str; 2] = ["-fopenmp", "-Wl,--no-warnings"];

/// Where the source of a program is, in bench/programs.
pub fn source_of(program: &str) -> PathBuf {
    let programs = tree::root().join("bench/programs");
    let source = match Mpi::of(program) {
        Some((_, name)) => programs.join("mpi").join(name),
        None => programs.join(program.strip_prefix("omp_").unwrap_or(program)),
    };
    source.with_extension("c")
}

/// Compiles what is older than its source, or than a header that they share, into `to`.
///
/// # Errors
/// When a file cannot be read or compiled.
pub fn build(to: &Path) -> Result<()> {
    let from = tree::root().join("bench/programs");
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let mut shared = SystemTime::UNIX_EPOCH;
    for header in files(&from, "h")? {
        shared = shared.max(modified(&header)?);
    }
    for source in files(&from, "c")? {
        let name = source.file_stem().unwrap_or_default();
        let newest = modified(&source)?.max(shared);
        let is_new = |program: &Path| modified(program).is_ok_and(|built| built > newest);
        let program = to.join(name);
        if !is_new(&program) {
            compile(&source, &program, &[])?;
        }
        let name = name.to_string_lossy();
        let parallel = to.join(format!("omp_{name}"));
        if WITH_OPENMP.contains(&&*name) && !is_new(&parallel) {
            compile(&source, &parallel, &OPENMP_FLAGS)?;
        }
    }
    Ok(())
}

/// Compiles the program of an MPI, `name`, into `to`.
///
/// # Errors
/// When its compiler is missing or fails.
pub fn build_mpi(to: &Path, mpi: Mpi, name: &str) -> Result<()> {
    let (compiler, package) = mpi.compiler();
    compile_with(compiler, package, &source_of(name), &to.join(name), &[])
}

/// Compiles one file, as all are, and with `more` flags.
///
/// # Errors
/// When there is no compiler or it fails.
pub fn compile(source: &Path, program: &Path, more: &[&str]) -> Result<()> {
    let flags = [&[STATIC], more].concat();
    compile_with("cc", "gcc libc6-dev", source, program, &flags)
}

fn compile_with(
    compiler: &str,
    package: &str,
    source: &Path,
    program: &Path,
    more: &[&str],
) -> Result<()> {
    let status = Command::new(compiler)
        .args(FLAGS)
        .args(more)
        .args([Path::new("-o"), program, source])
        .arg("-lm")
        .status()
        .with_context(|| format!("cannot run {compiler}: apt-get install {package}"))?;
    ensure!(
        status.success(),
        "{compiler} failed on {}",
        source.display()
    );
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
