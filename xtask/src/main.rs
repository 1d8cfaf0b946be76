//! What the Makefile forwards to: setting up, building, showing, checking, measuring, installing.
//!
//! Every task first sets up what it needs and does not find, so that each one works alone on a clean clone.

#![forbid(unsafe_code)]

mod build;
mod check;
mod cokernel;
mod compare;
mod debian;
mod demo;
mod install;
mod kvm;
mod log;
mod mutants;
mod native;
mod plugin;
mod programs;
mod root;
mod setup;
mod steps;
mod unverified;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Build, show, check, measure and install Margay")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: Debian packages (as root), the Rust targets.
    Setup,
    /// Build the kernel, the PCT, yod and the agent.
    Build,
    /// Build the programs that the tests and the demo run.
    Programs,
    /// Build the plugin that counts instructions and memory costs in QEMU, where its header can be had.
    Plugin,
    /// Build margay.ko, which runs nodes beside Linux, for Debian's kernel of clouds: it is fetched and not installed.
    Cokernel {
        /// For the Linux that runs, whose headers are installed.
        #[arg(long)]
        here: bool,
    },
    /// Boot a node and run STREAM and a small gallery on two ranks.
    Demo,
    /// Run every test.
    Check {
        /// Only the steps whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Run what takes too long for every check: attacks, a hostile host, fuzzing, sweeps, interrupts off in all programs.
    CheckLong {
        /// Only the steps whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Run what is too big for the check: GROMACS, Go, the own tests of OpenBLAS and FFTW, MPI programs (tests/apps).
    CheckApps,
    /// Measure; prints a table and writes bench/bench.jsonl in the target directory.
    Bench {
        /// Only these, separated by commas.
        #[arg(long)]
        only: Option<String>,
    },
    /// Compare with Linux and write a report to compare/report in the target directory; takes --only, --runs, --fresh, --list.
    Compare {
        /// For the comparison.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Compare counts of instructions and events with bench/baseline.tsv; fail when one is worse.
    Gate {
        /// Write the counts there instead.
        #[arg(long)]
        update: bool,
    },
    /// Make the mistakes of tests/mutants.txt in a copy of the tree; the test that each names must notice.
    Mutants {
        /// Only those whose name contains this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Install yod, the kernel, the PCT and the agent, the manual page and completions.
    Install {
        /// Where to: PREFIX/bin, PREFIX/lib/margay, PREFIX/share.
        #[arg(long)]
        prefix: PathBuf,
    },
    /// Remove what was installed.
    Uninstall {
        /// Where it was installed to.
        #[arg(long)]
        prefix: PathBuf,
    },
    /// Run the whole check and the benchmarks with KVM and write a report to send in.
    KvmReport,
    /// Measure a co-kernel beside the Linux of this machine and write a report to send in (docs/first-run.md).
    NativeReport,
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup => setup::all(),
        Task::Build => build::all(),
        Task::Programs => programs::all(),
        Task::Plugin => plugin::task(),
        Task::Cokernel { here } => cokernel::run(here),
        Task::Demo => demo::run(),
        Task::Check { only } => check::run(only.as_deref()),
        Task::CheckLong { only } => check::long(only.as_deref()),
        Task::CheckApps => check::apps(),
        Task::Bench { only } => build::bench(only.as_deref()),
        Task::Compare { args } => compare::run(&args),
        Task::Gate { update } => build::gate(update),
        Task::Mutants { only } => mutants::run(only.as_deref()),
        Task::Install { prefix } => install::run(&prefix),
        Task::Uninstall { prefix } => install::undo(&prefix),
        Task::KvmReport => kvm::run(),
        Task::NativeReport => native::run(),
    }
}
