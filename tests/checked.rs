//! A kernel with debug assertions (`profile.checked`): it panics when a lock is taken out of the order of qk/hal/src/sync/class.rs, or
//! where a core waits under a spin lock. The programs take as many of the locks in as many ways as few programs can.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use margay_tests::manifest::{self, End};
use margay_tests::run::Run;
use margay_tests::tree;

/// Rows of the manifests: signals, timers, memory, threads, futexes, calls of several threads, children and changes of program.
const ROWS: &[&str] = &[
    "effects_memory",
    "effects_signals",
    "races.mixed",
    "futex_requeue.counts",
    "thread_sync.mutex_robust_pi",
    "signal_waits.storm",
    "posix_timers_process.processor_time",
    "shipped.beside_ends",
    "forks_threads.beside_unmapping",
    "replaced_beside.beside_threads",
];
/// Programs of `programs/windows`, with so many ranks.
const RANKS: &[(&str, &str)] = &[("ring", "16"), ("access", "2"), ("xpmem", "2")];

/// Builds the kernel once.
fn kernel() -> Result<&'static str> {
    static KERNEL: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--profile=checked", "-p", "margay"]);
        cargo.arg("--target=x86_64-unknown-none");
        cargo.current_dir(tree::root());
        let built = cargo.status().ok()?.success();
        built.then(|| tree::target().join("x86_64-unknown-none/checked/margay"))
    };
    let built = KERNEL.get_or_init(build).as_ref();
    let path = built.context("the kernel does not build with debug assertions")?;
    path.to_str().context("a path that is no text")
}

/// Runs it on that kernel; it ends with this status.
fn run(run: Run, name: &str, wanted: i32) -> Result<()> {
    let outcome = run.env(&[("MARGAY_KERNEL", kernel()?)]).run()?;
    ensure!(
        outcome.status == Some(wanted),
        "{name}: status {:?} instead of {wanted}\n{}{}",
        outcome.status,
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    Ok(())
}

#[test]
fn programs_take_locks_in_their_order() -> Result<()> {
    let rows = manifest::conformance("64K")?;
    for name in ROWS {
        let row = rows.iter().find(|row| row.name == *name);
        let row = row.with_context(|| format!("no row {name}"))?;
        let End::Status(wanted) = row.end else {
            anyhow::bail!("{name} does not end");
        };
        run(Run::margay(row, &[]), name, wanted)?;
    }
    Ok(())
}

#[test]
fn ranks_take_locks_in_their_order() -> Result<()> {
    for (program, ranks) in RANKS {
        let path = tree::program("windows", program);
        let yod = Run::yod(&["-n", ranks, "-m", "32M", "--oversubscribe", "--"]);
        run(yod.args(&[path.to_string_lossy()]), program, 0)?;
    }
    Ok(())
}
