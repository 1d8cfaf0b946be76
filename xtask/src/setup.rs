//! Setting up what is missing: Debian packages and the targets of the Rust toolchain.
//!
//! What is there is left alone, so this costs milliseconds on a machine that is ready. Without root nothing can be
//! installed; then one line says what to install.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::build;

/// A program, by its path or to be found in PATH, whose absence means that a package is missing, and the package.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("bochs", "bochs"),
    ("/usr/share/bochs/BIOS-bochs-latest", "bochsbios"),
    ("/usr/share/bochs/VGABIOS-lgpl-latest", "vgabios"),
    (
        "/usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so",
        "bochs-term",
    ),
    ("grub-mkrescue", "grub-common"),
    ("/usr/lib/grub/i386-pc/multiboot2.mod", "grub-pc-bin"),
    ("xorriso", "xorriso"),
    ("musl-gcc", "musl-tools"),
    ("gfortran", "gfortran"),
    ("g++", "g++"),
    ("gcc", "gcc"),
    ("make", "make"),
    // Programs of tests/debian that a small Debian need not have.
    ("/usr/bin/bc", "bc"),
    ("/usr/bin/bzip2", "bzip2"),
    ("/usr/bin/ctest", "cmake"),
    ("/usr/bin/gawk", "gawk"),
    ("/usr/bin/gdb", "gdb"),
    ("/usr/bin/strace", "strace"),
    ("/usr/bin/git", "git"),
    ("/usr/bin/groff", "groff-base"),
    ("/usr/bin/hwloc-calc", "hwloc-nox"),
    ("/usr/bin/jq", "jq"),
    ("/usr/bin/lua5.4", "lua5.4"),
    // MPI programs of tests/launchers.
    ("/usr/bin/mpicc.mpich", "libmpich-dev"),
    ("/usr/bin/mpicc.openmpi", "libopenmpi-dev"),
    ("/usr/bin/mpiexec.hydra", "mpich"),
    ("/usr/bin/mpirun.openmpi", "openmpi-bin"),
    ("/usr/bin/srun", "slurm-client"),
    ("/usr/sbin/munged", "munge"),
    ("/usr/sbin/slurmctld", "slurmctld"),
    ("/usr/sbin/slurmd", "slurmd"),
    ("/bin/ip", "iproute2"),
    ("/usr/bin/man", "man-db"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/bin/free", "procps"),
    ("/usr/bin/perl", "perl"),
    ("/usr/bin/python3", "python3"),
    ("/usr/bin/sqlite3", "sqlite3"),
    ("/usr/bin/tmux", "tmux"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/bin/zstd", "zstd"),
    ("/usr/bin/stress-ng", "stress-ng"),
    ("/usr/bin/fftw-wisdom", "libfftw3-bin"),
    (
        "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
        "libopenblas0-pthread",
    ),
    (
        "/usr/lib/python3/dist-packages/numpy/version.py",
        "python3-numpy",
    ),
];

/// The targets that rust-toolchain.toml names; rustup adds them itself unless the toolchain was there before.
const TARGETS: &[&str] = &[build::NODE_TARGET, "x86_64-unknown-linux-musl"];

/// Sets up everything.
///
/// # Errors
/// When something is missing that cannot be installed from here.
pub fn all() -> Result<()> {
    targets()?;
    packages()
}

fn packages() -> Result<()> {
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(program, _)| !in_path(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("missing here: {list}; as root: apt-get install --no-install-recommends {list}");
    }
    if !in_path("apt-get") {
        bail!(
            "missing here, under whatever names your system has for these Debian packages: {list}"
        );
    }
    eprintln!("installing {list}");
    // The lists may be missing or old; if they cannot be had, the next command says what is wrong.
    let _ = apt(&["update", "-qq"]);
    let install = ["install", "-y", "-qq", "--no-install-recommends"];
    apt(&[&install[..], &missing[..]].concat())
        .with_context(|| format!("install by hand: apt-get install {list}"))
}

fn apt(args: &[&str]) -> Result<()> {
    build::run(
        Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    )
}

fn in_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Adds a target when its libraries are not there.
fn targets() -> Result<()> {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(build::root())
        .output()
        .context("cannot run rustc")?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    for target in TARGETS {
        let libraries = Path::new(&sysroot).join("lib/rustlib").join(target);
        if !libraries.is_dir() {
            build::run(Command::new("rustup").args(["target", "add", target]))?;
        }
    }
    Ok(())
}
