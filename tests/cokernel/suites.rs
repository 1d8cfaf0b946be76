//! The repository's own tests beside Linux: in a guest that has the files of this host, with co-kernels as nodes. After each command
//! Linux has its CPUs, its memory and its interrupts as before (`inside`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::guest::{Guest, Outcome};
use margay_tests::report::skipped;
use margay_tests::tree;

use super::complaints;
use super::inside::WORD;

/// Of a boot, which takes a minute on an idle host.
const LIMIT: Duration = Duration::from_secs(600);
/// Of one command, by the guest's clock.
const COMMAND_LIMIT: Duration = Duration::from_secs(200);
/// What the guest is.
const MACHINE: [&str; 6] = ["-cpu", "max", "-smp", "4", "-m", "5G"];
/// Rows of the conformance suite, of different kinds.
const ROWS: [&str; 10] = [
    "files/vectored.musl",
    "streams/pipe_roundtrip",
    "memory/brk_heap",
    "signals/realtime",
    "time/monotonic",
    "fp/cxx_numeric",
    "dynamic/opened",
    // On three cores.
    "threads/mask_changes.last_of_many",
    "children/kills.one_thread",
    "files/rust_fs",
];

/// Of Open MPI's launcher, as root, in a guest whose only network is its own.
const OPEN_MPI: [&str; 5] = [
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
    "OMPI_MCA_btl_tcp_if_include=lo",
    "SMARTMAP_VERBOSE=1",
];

/// Commands of a guest that has the files of this host.
pub struct Suite {
    guest: Guest,
    commands: Vec<String>,
}

impl Suite {
    /// None where there can be none; it is said why.
    pub fn new() -> Result<Option<Suite>> {
        if let Some(why) = Guest::no_files_of_host() {
            skipped(&format!("no tests beside Linux: {why}"));
            return Ok(None);
        }
        let mut guest = Guest::with_files_of_host()?;
        for folder in ["lib", "lib/firmware", "lib/firmware/margay"] {
            guest.add_folder(folder);
        }
        for name in ["margay.elf", "pct"] {
            let file = tree::node_files().join(name);
            guest.add(&format!("lib/firmware/margay/{name}"), &file)?;
        }
        Ok(Some(Suite {
            guest,
            commands: Vec::new(),
        }))
    }

    /// A command of root's, with the variables that tests have here.
    pub fn add(&mut self, limit: Duration, command: &str) {
        let package = tree::root().join("tests");
        let line = format!(
            "/usr/bin/env MARGAY_TEST_MACHINE=cokernel HOME=/tmp PATH=/usr/bin:/bin:/usr/sbin:/sbin CARGO_MANIFEST_DIR={} CARGO_TARGET_DIR={} STREAM_SIZE=1M MARGAY_TEST_SLOWER=5 MARGAY_BOOT_TIMEOUT_S=100 {command}",
            package.display(),
            tree::target().display(),
        );
        self.guest.run(0, limit, &line);
        self.commands.push(command.to_owned());
    }

    /// One, behind which Linux is looked at: it may keep so many KiB for itself.
    pub fn add_watched(&mut self, limit: Duration, own_kib: u64, command: &str) -> Result<()> {
        let own = std::env::current_exe()?;
        self.add(
            limit,
            &format!("{} {WORD} whole {own_kib} {command}", own.display()),
        );
        Ok(())
    }

    /// All of them, which end well, and Linux has nothing to complain of.
    pub fn boot(self, limit: Duration) -> Result<Outcome> {
        let accel = tree::accel();
        let options = [&["-accel", &accel], &MACHINE[..]].concat();
        let outcome = self.guest.boot(&options, limit)?;
        ensure!(
            outcome.ran.len() == self.commands.len(),
            "{:?}",
            outcome.ran
        );
        let both = outcome.ran.iter().zip(&self.commands);
        let failed = both.filter(|(ran, _)| ran.how != "status 0");
        let failed: Vec<String> = failed
            .map(|(ran, command)| format!("{command}: {}: {}", ran.how, ran.output))
            .collect();
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        let complaints = complaints(&outcome.log);
        ensure!(complaints.is_empty(), "{complaints}");
        Ok(outcome)
    }
}

/// The binary of a test of this package, as cargo builds it.
pub fn test_binary(name: &str) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["test", "--quiet", "--no-run", "--package", "margay-tests"])
        .args(["--test", name, "--message-format", "json"])
        .current_dir(tree::root())
        .output()
        .context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&built.stdout);
    let path = said.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    path.with_context(|| format!("{name}: {}", String::from_utf8_lossy(&built.stderr)))
}

/// As a word of a command.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Rows of the conformance suite, threads, ranks, ranks of MPI whose messages go through windows.
pub fn check() -> Result<()> {
    let Some(mut suite) = Suite::new()? else {
        return Ok(());
    };
    let conformance = shown(&test_binary("conformance")?);
    for row in ROWS {
        let command = format!("{conformance} --test-threads 1 --exact {row}");
        suite.add_watched(COMMAND_LIMIT, 0, &command)?;
    }
    let yod = shown(&tree::yod());
    let hello = shown(&tree::program("glibc-static", "hello"));
    let ring = shown(&tree::program("windows", "ring"));
    for command in [
        format!("{yod} -n 2 -d 1 -m 64M {hello}"),
        format!("{yod} -n 3 -m 32M {ring}"),
    ] {
        suite.add_watched(COMMAND_LIMIT, 0, &command)?;
    }
    let mpi = format!(
        "/usr/bin/env {} SMARTMAP_TARGET={} /usr/bin/mpirun.openmpi -n 3 {yod} --oversubscribe -m 256M {} {} 8",
        OPEN_MPI.join(" "),
        tree::target().display(),
        shown(&tree::root().join("lib/mpi/smartmap-run")),
        shown(&tree::program("openmpi-lib", "conform")),
    );
    suite.add_watched(COMMAND_LIMIT, 0, &mpi)?;
    let outcome = suite.boot(LIMIT)?;
    let output = outcome.ran.last().map_or("", |ran| &ran.output);
    let has = |words: &str| output.contains(words);
    ensure!(
        has("messages go through windows") && has("conform: 3 ranks: 0 wrong"),
        "{mpi}: {output}"
    );
    Ok(())
}
