//! The check: everything that must hold before a change is taken, in the order of what it costs to find a mistake.
//!
//! Two steps run at a time, and of each at most two tests that boot nodes: any of them waits now and then, and together they keep
//! two cores busy. What measures, or does as much as it can in a given time, comes last, alone. MARGAY_TEST_ACCEL says which
//! accelerator they use (tcg unless set).

use std::process::{Command, exit};

use anyhow::{Result, ensure};

use crate::build::{self, cargo};
use crate::cokernel;
use crate::plugin::{self, Built};
use crate::programs;
use crate::setup;
use crate::steps::{self, Step};

/// Crates whose unit tests run on the host.
const HOST_CRATES: &[&str] = &[
    "margay-abi",
    "margay-wire",
    "qk-core",
    "margay-machine",
    "margay-proxy",
    "yod",
    "margay-bench",
    "xtask",
];
/// Crates that are built for the node.
const NODE_CRATES: &[&str] = &[
    "margay-abi",
    "margay-wire",
    "qk-core",
    "qk-hal",
    "margay",
    "pct",
];
/// The test of `noise` that needs the plugin.
const NOISE_BY_PLUGIN: &str = "the_core_of_a_rank_executes_nothing_but_the_rank";
/// Steps that are nothing without the plugin of QEMU.
const PLUGIN: &[&str] = &["plugin", COUNTS];
/// Steps that need margay.ko.
const COKERNEL: &[&str] = &["cokernel", COUNTS, "cokernel-long"];
const COUNTS: &str = "cokernel-counts";
/// Nodes that a step runs at the same time.
const NODES: &str = "2";
/// How long what takes as long as it is given goes on, where the environment does not say.
struct Lengths {
    /// Seconds of each fuzz target.
    fuzz: u32,
    /// Seconds of a hostile host, by each of the emulator's ways of running CPUs.
    hostile: u32,
    /// Seconds of each attack.
    attack: u32,
    /// Attacks at the same time: most of a long one waits.
    attacks_at_once: u32,
}

/// In a check.
const SHORT: Lengths = Lengths {
    fuzz: 15,
    hostile: 30,
    attack: 20,
    attacks_at_once: 2,
};

/// In a long one.
const LONG: Lengths = Lengths {
    fuzz: 120,
    hostile: 300,
    attack: 1800,
    attacks_at_once: 16,
};
/// Jobs beside Linux in a long check, a quarter as many of which are killed.
const LONG_JOBS: u32 = 200;
/// Sweeps in a long check.
const LONG_SWEEPS: u32 = 10;

/// Runs every test; ends the process with status 1 if something failed. The last line is "N passed, N failed", and what could not
/// be run here.
///
/// # Errors
/// When no step is called so, something is missing, or kernel, yod or programs cannot be built.
pub fn run(only: Option<&str>) -> Result<()> {
    run_of(all_steps(), only)
}

/// Runs what takes too long for every check, in the same way.
///
/// # Errors
/// As [`run`].
pub fn long(only: Option<&str>) -> Result<()> {
    run_of(long_steps(), only)
}

fn run_of(steps: Vec<Step>, only: Option<&str>) -> Result<()> {
    let mut steps = chosen(steps, only)?;
    setup::all()?;
    build::together(&[build::all, programs::all])?;
    if let Built::Missing(why) = plugin::build()? {
        let needing = steps
            .iter_mut()
            .filter(|step| PLUGIN.contains(&step.name()));
        needing.for_each(|step| step.skip(&why));
    }
    let mut needing = steps
        .iter_mut()
        .filter(|step| COKERNEL.contains(&step.name()))
        .peekable();
    if needing.peek().is_some()
        && let Some(why) = cokernel::build_for_tests()?
    {
        needing.for_each(|step| step.skip(&why));
    }
    finish(&steps::run(steps)?)
}

/// Whether a step is called so.
#[cfg(test)]
pub fn has_step(name: &str) -> bool {
    all_steps().iter().any(|step| step.name() == name)
}

/// Those that `--only` names.
fn chosen(mut steps: Vec<Step>, only: Option<&str>) -> Result<Vec<Step>> {
    let names: Vec<&str> = steps.iter().map(Step::name).collect();
    let names = names.join(", ");
    steps.retain(|step| step.matches(only));
    ensure!(
        !steps.is_empty(),
        "no step is called {}: there are {names}",
        only.unwrap_or_default()
    );
    Ok(steps)
}

/// Runs the programs of tests/apps, which are too big for the check.
///
/// # Errors
/// When something is missing, cannot be built, or a program differs.
pub fn apps() -> Result<()> {
    build::all()?;
    build::run(&mut make_in("tests/apps", &["check"]))
}

fn finish(all: &steps::Summary) -> Result<()> {
    println!("{}", all.last_line());
    if !all.count.good() {
        exit(1);
    }
    Ok(())
}

fn all_steps() -> Vec<Step> {
    vec![
        Step::new("format", cargo_with(&["fmt", "--all", "--check"], &[])),
        Step::of(
            "clippy",
            vec![clippy_host(), clippy_pct_tests(), clippy_node()],
        ),
        Step::of("unit", vec![unit(), unit_pct()]),
        Step::new("loom", loom()),
        // The longest: beside all the others.
        Step::of(
            "libraries",
            vec![library("smartmap"), library("mpi"), library("xpmem")],
        ),
        Step::of("repository", vec![system("repository"), system("effects")]),
        Step::new(
            "harness",
            cargo_with(&["test", "-p", "margay-tests", "--lib"], &[]),
        ),
        Step::new("machine", machine()),
        Step::new("conformance", system("conformance")),
        Step::new("sweeps", system("sweeps")),
        Step::new("debian", system("debian")),
        Step::new("children", system("children")),
        Step::new("configure", make_in("tests/apps", &["check-hello"])),
        Step::new("exec", system("exec")),
        Step::new("facts", system("facts")),
        Step::new("alone", system("alone")),
        Step::new("ranks", system("ranks")),
        Step::new("checked", system("checked")),
        Step::new("windows", system("windows")),
        Step::new("shared", system("shared")),
        Step::new("strace", system("strace")),
        Step::new("host-calls", system("host_calls")),
        Step::new("gdb", system("gdb")),
        Step::new("noise", noise()),
        Step::new("unseen", system("unseen")),
        Step::of("cokernel", vec![system("cokernel"), native_report()]),
        Step::new("bad-input", system("bad_input")),
        Step::new("installed", system("installed")),
        Step::new("mutation", system("mutation")),
        Step::new("kill", system("kill")),
        // Its mpirun would make the same directory as that of the libraries' tests, which it cannot bear.
        Step::new("book", system("book")).alone(),
        // Launchers share files in /tmp with those that other steps start.
        Step::new("launchers", system("launchers")).alone(),
        Step::new("gate", build::gate_command()).alone(),
        Step::new("promises", build::promises_command("--promised")).alone(),
        Step::of("plugin", vec![plugin_test(), noise_by_plugin()]).alone(),
        Step::new(COUNTS, counts()).alone(),
        fuzz(&SHORT),
        hostile(&SHORT),
        attack(&SHORT),
    ]
}

/// What is in no check, or longer here.
fn long_steps() -> Vec<Step> {
    vec![
        Step::new("sweeps", lasting(system("sweeps"), "SWEEPS", LONG_SWEEPS)),
        Step::new("promises", build::promises_command("--promised-in-long")).alone(),
        Step::new("cokernel-long", cokernel_long()).alone(),
        fuzz(&LONG),
        hostile(&LONG),
        attack(&LONG),
    ]
}

/// A test binary of tests/.
fn system(name: &str) -> Command {
    system_with(name, NODES)
}

/// One, so many of whose tests run at the same time.
fn system_with(name: &str, at_once: &str) -> Command {
    let mut command = cargo_with(&["test", "-p", "margay-tests", "--test", name], &[]);
    command.args(["--", "--test-threads", at_once]);
    command
}

/// The plugin of QEMU, where it could be built. One node at a time: how often a kernel waits for its host, and so what it
/// executes, depends on what else the host runs.
fn plugin_test() -> Command {
    let mut command = cargo_with(&["test", "-p", "margay-bench", "--test", "plugin"], &[]);
    command.args(["--", "--test-threads", "1"]);
    command
}

/// What the kernel executes as a co-kernel, by the plugin.
fn counts() -> Command {
    cargo_with(&["test", "-p", "margay-bench", "--test", "cokernel"], &[])
}

/// The measuring of `make native-report`, in a guest.
fn native_report() -> Command {
    cargo_with(&["test", "-p", "margay-bench", "--test", "native"], &[])
}

/// Without the test that the step `plugin` runs.
fn noise() -> Command {
    let mut command = system("noise");
    command.args(["--skip", NOISE_BY_PLUGIN]);
    command
}

/// What `noise` finds on several cores, confirmed by the plugin.
fn noise_by_plugin() -> Command {
    let mut command = system("noise");
    command.args(["--ignored", NOISE_BY_PLUGIN]);
    command
}

/// What takes hours beside Linux in a guest, which sees nothing of how busy this machine is.
fn cokernel_long() -> Command {
    let mut command = system_with("cokernel", "1");
    command.arg("--ignored");
    lasting(command, "COKERNEL_JOBS", LONG_JOBS)
}

fn fuzz(lengths: &Lengths) -> Step {
    Step::new(
        "fuzz",
        lasting(system("fuzz"), "FUZZ_SECONDS", lengths.fuzz),
    )
    .alone()
}

fn hostile(lengths: &Lengths) -> Step {
    let command = lasting(system("hostile"), "HOSTILE_SECONDS", lengths.hostile);
    Step::new("hostile", command).alone()
}

fn attack(lengths: &Lengths) -> Step {
    let command = system_with("attack", &lengths.attacks_at_once.to_string());
    Step::new("attack", lasting(command, "ATTACK_SECONDS", lengths.attack)).alone()
}

/// With a length by the environment variable `name`: the user's, or this one.
fn lasting(mut command: Command, name: &str, length: u32) -> Command {
    if std::env::var_os(name).is_none() {
        command.env(name, length.to_string());
    }
    command
}

fn unit() -> Command {
    cargo_with(&["test", "--no-fail-fast"], HOST_CRATES)
}

/// Every order of the protocols of shared words, parked tasks and futexes (the READMEs of wire and qk/core).
fn loom() -> Command {
    let mut command = cargo_with(
        &["test", "--release", "--test", "loom"],
        &["margay-wire", "qk-core"],
    );
    build::for_loom(&mut command, &build::target());
    command
}

/// The hardware layer, by its self-test kernel in QEMU.
fn machine() -> Command {
    let mut command = cargo_with(&["test", "-p", "qk-hal"], &[]);
    command.args(["--", "--test-threads", NODES]);
    command
}

/// A library for stock Linux: its own Makefile installs what only it needs, builds and tests.
fn library(name: &str) -> Command {
    make_in(&format!("lib/{name}"), &["setup", "check"])
}

/// What a folder's own Makefile makes.
pub fn make_in(folder: &str, goals: &[&str]) -> Command {
    let mut command = Command::new("make");
    command
        .args(["--no-print-directory", "-C", folder])
        .arg(format!("TARGET={}", build::target().display()))
        .args(goals);
    command
}

/// The PCT's logic runs on the host; its program does not.
fn unit_pct() -> Command {
    cargo_with(&["test", "--lib"], &["pct"])
}

fn clippy_host() -> Command {
    let crates = [HOST_CRATES, &["margay-tests"]].concat();
    denying_warnings(cargo_with(&["clippy", "--all-targets"], &crates))
}

fn clippy_pct_tests() -> Command {
    denying_warnings(cargo_with(&["clippy", "--lib", "--tests"], &["pct"]))
}

fn clippy_node() -> Command {
    denying_warnings(cargo_with(
        &["clippy", "--target", build::NODE_TARGET],
        NODE_CRATES,
    ))
}

fn denying_warnings(mut clippy: Command) -> Command {
    clippy.args(["--", "-D", "warnings"]);
    clippy
}

fn cargo_with(args: &[&str], packages: &[&str]) -> Command {
    let mut command = cargo();
    command.args(args).arg("--quiet");
    for package in packages {
        command.args(["-p", package]);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Once `--only nosuch` ran nothing, and "0 passed, 0 failed" was a success.
    #[test]
    fn an_unknown_step_is_an_error() {
        let count = |only| chosen(all_steps(), only).map(|steps| steps.len()).ok();
        assert_eq!(count(None), Some(all_steps().len()));
        assert_eq!(count(Some("unit")), Some(1));
        assert_eq!(count(Some("nosuch")), None);
    }

    /// The book's ran twice: alone, and beside others, which it does not bear.
    #[test]
    fn no_step_is_there_twice() {
        for steps in [all_steps(), long_steps()] {
            let names: BTreeSet<&str> = steps.iter().map(Step::name).collect();
            assert_eq!(names.len(), steps.len());
        }
    }

    #[test]
    fn steps_that_need_more_are_steps() {
        let needing = PLUGIN.iter().chain(&COKERNEL[..2]);
        assert!(needing.into_iter().all(|name| has_step(name)));
    }
}
