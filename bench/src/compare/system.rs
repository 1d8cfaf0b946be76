//! What it takes to be a column: booting a program, and saying where its output went.
//!
//! To compare another system, implement [`System`] for it and name it in [`all`]. `linux` is the example to go by: it boots a
//! kernel in QEMU with the machine that Margay's yod would start ([`Machine`](super::machine::Machine)), hands it the program
//! in an initial RAM disk, and finds the program's output between two marks on the serial console.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::linux::{Linux, Tuning};
use super::margay::{self, Margay};
use crate::lab::Lab;
use crate::launch::Launch;
use margay_tests::guest::files::Tree;

/// How a run is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Time, and what the program takes from the TSC: multi-threaded emulation, nothing else measured meanwhile.
    Wall,
    /// The TSC counts instructions (`-icount`): one CPU.
    Instructions,
    /// As `Wall`, and the kernel's own counters are read.
    Events,
    /// One CPU; a plugin of QEMU counts executed instructions, and those with interrupts off.
    Executed,
    /// As `Instructions`, and a plugin of QEMU models caches and TLBs between marks.
    Memory,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 5] = [
        Mode::Wall,
        Mode::Instructions,
        Mode::Executed,
        Mode::Memory,
        Mode::Events,
    ];

    /// What it is called in the report.
    pub fn title(self) -> &'static str {
        match self {
            Mode::Wall => "wall time",
            Mode::Instructions => "instructions",
            Mode::Events => "events",
            Mode::Executed => "executed",
            Mode::Memory => "memory cost",
        }
    }

    /// CPUs of the machine. Two for time, so that a tuned Linux has one to itself and one for the program.
    pub fn cpus(self) -> usize {
        match self {
            Mode::Wall | Mode::Events => 2,
            Mode::Instructions | Mode::Memory | Mode::Executed => 1,
        }
    }

    /// Whether time is a count of instructions: then other runs may go on meanwhile without changing the result.
    pub fn is_counted(self) -> bool {
        matches!(self, Mode::Instructions | Mode::Memory | Mode::Executed)
    }

    /// Whether the plugin of QEMU is needed.
    pub fn needs_plugin(self) -> bool {
        matches!(self, Mode::Memory | Mode::Executed)
    }

    /// Whether the kernel's own counters are read.
    pub fn has_events(self) -> bool {
        self == Mode::Events
    }
}

/// One run, as asked for.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The program.
    pub program: &'a Path,
    /// What it needs besides: of a static binary nothing.
    pub tree: &'a Tree,
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Arguments of a run before, in the same directory, that does not count; none: there is no such run.
    pub prepare: &'a [&'a str],
    /// How it is measured.
    pub mode: Mode,
    /// Processes of it.
    pub ranks: usize,
    /// How they are started.
    pub launch: Launch,
    /// Threads of a process that need a core each; 1: it has one core.
    pub threads: usize,
    /// Cores of this host that the machine may use, as taskset names them; as many as the machine has CPUs.
    pub cores: &'a str,
    /// The program's output is wanted at once and not only in the end: for timing its beginning.
    pub direct: bool,
    /// A plugin for QEMU, with its arguments, as `-plugin` takes it.
    pub plugin: Option<&'a str>,
    /// Longest time.
    pub limit: Duration,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Output {
    /// What the program printed.
    pub text: String,
    /// What the kernel counted, by name ("page_faults", "timer_interrupts", "interrupts"), per core or, with one value, of all.
    pub events: Vec<(String, Vec<f64>)>,
    /// From starting QEMU, or what starts it, to the program's first output.
    pub first_output_s: Option<f64>,
}

/// A system that runs programs.
pub trait System: Sync {
    /// Which version it is, and how it is set up for each way of measuring.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn about(&self) -> Result<String>;
    /// Files whose change makes earlier results void.
    fn files(&self) -> Vec<PathBuf>;
    /// Boots the system, runs the program, and ends the system.
    ///
    /// # Errors
    /// When anything of that fails or takes too long; the reason is for the report, so it has one line.
    fn run(&self, order: &Order<'_>) -> Result<Output>;
}

/// A column of the report: a system, or the reason why it cannot be had.
pub struct Column<'a> {
    /// Short name, for files.
    pub name: &'static str,
    /// Name in tables and plots.
    pub title: &'static str,
    /// The system.
    pub system: Result<Box<dyn System + 'a>, String>,
}

impl Column<'_> {
    /// The reason why it cannot be had, if so.
    pub fn missing(&self) -> Option<&str> {
        self.system.as_ref().err().map(String::as_str)
    }
}

/// Every system, in the order of the columns: first the one that is compared, last the one that claims are made against.
pub fn all<'a>(lab: &'a Lab, output: &'a Path) -> Vec<Column<'a>> {
    let linux = |tuning: Tuning| {
        let linux = Linux::new(lab, output, tuning);
        let system = linux.map(|linux| Box::new(linux) as Box<dyn System + 'a>);
        Column {
            name: tuning.name(),
            title: tuning.title(),
            system: system.map_err(|error| format!("{error:#}")),
        }
    };
    vec![
        Column {
            name: margay::NAME,
            title: margay::TITLE,
            system: Ok(Box::new(Margay::new(lab))),
        },
        linux(Tuning::Stock),
        linux(Tuning::Tuned),
    ]
}
