//! The place where measurements are made: yod, the kernel, the programs, and runs of one on the other.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::launch::{self, Launch};
use crate::output::Results;
use crate::plugin::{self, Report};
use crate::process::{self, Outcome};
use crate::programs;
use crate::scratch::Scratch;
use crate::stats::Stats;

/// Time limit of a run; the longest takes well under a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// What a login leaves, besides the PATH, which is this process's: QEMU is found by it.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "root"),
    ("SHELL", "/bin/sh"),
    ("TERM", "dumb"),
    ("USER", "root"),
];

/// Where everything is.
#[derive(Debug)]
pub struct Lab {
    yod: PathBuf,
    kernel: PathBuf,
    output: PathBuf,
}

/// How a program is run on Margay.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// The TSC counts instructions, on one core.
    pub icount: bool,
    /// Processes.
    pub ranks: usize,
    /// How they are started.
    pub launch: Launch,
    /// Cores of this host to run on, as taskset names them; the node has as many.
    pub cores: Option<&'a str>,
    /// The kernel counts calls and times.
    pub stats: bool,
    /// Memory of the rank, as yod's -m. Not yod's default, which depends on what the host has free.
    pub memory: &'a str,
    /// A plugin for QEMU, with its arguments.
    pub plugin: Option<&'a str>,
    /// Where calls are written, as yod's --strace.
    pub trace: Option<&'a Path>,
    /// Memory of the node besides the partitions in MiB, when it is to be less than yod would give it.
    pub node_mib: Option<u64>,
    /// The environment is [`ENVIRONMENT`], not this process's: a C library takes some 700 instructions for each variable.
    pub fixed_environment: bool,
}

impl Default for How<'_> {
    fn default() -> Self {
        How {
            icount: false,
            ranks: 1,
            launch: Launch::None,
            cores: None,
            stats: false,
            trace: None,
            memory: "1G",
            node_mib: None,
            fixed_environment: false,
            plugin: None,
        }
    }
}

/// A run that went well.
#[derive(Debug)]
pub struct Ran {
    /// What the program printed.
    pub results: Results,
    /// What the kernel counted, when it was asked to.
    pub stats: Option<Stats>,
    /// Of yod.
    pub outcome: Outcome,
}

impl Ran {
    /// # Errors
    /// When the kernel was not asked to count.
    pub fn stats(&self) -> Result<&Stats> {
        self.stats.as_ref().context("no statistics")
    }
}

impl Lab {
    /// Finds yod (MARGAY_YOD, or as it is built to be used) and builds the programs.
    ///
    /// # Errors
    /// When something is missing.
    pub fn set_up() -> Result<Lab> {
        let this = std::env::current_exe().context("cannot find out where this program is")?;
        let target = this.parent().and_then(Path::parent);
        let target = target.context("this program is not in a target directory")?;
        let named =
            |variable, otherwise| std::env::var_os(variable).map_or(otherwise, PathBuf::from);
        let lab = Lab {
            yod: named("MARGAY_YOD", target.join("release/yod")),
            kernel: named("MARGAY_KERNEL", target.join("margay/margay.elf")),
            output: target.join("bench"),
        };
        for part in [&lab.yod, &lab.kernel] {
            ensure!(
                part.is_file(),
                "{} is missing: make builds it",
                part.display()
            );
        }
        fs::create_dir_all(&lab.output)?;
        programs::build(&lab.program_dir())?;
        Ok(lab)
    }

    /// Where results go.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// yod.
    pub fn yod(&self) -> &Path {
        &self.yod
    }

    /// The kernel with its symbols.
    pub fn kernel(&self) -> &Path {
        &self.kernel
    }

    /// The conformance programs, where the tests have them built.
    pub fn conformance_dir(&self) -> PathBuf {
        self.output.with_file_name("programs")
    }

    fn program_dir(&self) -> PathBuf {
        self.output.join("programs")
    }

    /// A benchmark program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.program_dir().join(name)
    }

    /// Compiles a program of an MPI; what it needs besides is there.
    ///
    /// # Errors
    /// When the MPI is not installed, or lib/mpi not built.
    pub fn build_mpi(&self, launch: Launch, name: &str) -> Result<()> {
        let Some(mpi) = launch.mpi() else {
            return Ok(());
        };
        launch.is_built(self.target())?;
        programs::build_mpi(&self.program_dir(), mpi, name)
    }

    /// The target directory.
    pub fn target(&self) -> &Path {
        self.output.parent().unwrap_or(&self.output)
    }

    /// Runs a benchmark program on Margay.
    ///
    /// # Errors
    /// When it fails, or the kernel's counters cannot be read.
    pub fn margay(&self, how: How<'_>, name: &str, args: &[&str]) -> Result<Ran> {
        let outcome = self.attempt(how, &self.program(name), args, LIMIT)?;
        let outcome = outcome
            .good()
            .with_context(|| format!("{name} failed on Margay"))?;
        let stats = how
            .stats
            .then(|| Stats::parse(&outcome.stderr))
            .transpose()?;
        Ok(Ran {
            results: Results::parse(&outcome.stdout),
            stats,
            outcome,
        })
    }

    /// As [`Lab::margay`] on one core under -icount, and what the plugin counted: instructions, and by the flag how long interrupts
    /// were off.
    ///
    /// # Errors
    /// As [`Lab::margay`]; or there is no plugin.
    pub fn watched(&self, how: How<'_>, name: &str, args: &[&str]) -> Result<(Ran, Report)> {
        let library = plugin::there(&self.output)?;
        let scratch = Scratch::new(&self.output)?;
        let out = scratch.path().join("counts.json");
        let argument = format!(
            "{},out={},model=off,irqs=on",
            library.display(),
            out.display()
        );
        let how = How {
            icount: true,
            plugin: Some(&argument),
            ..how
        };
        let ran = self.margay(how, name, args)?;
        Ok((ran, Report::read(&out)?))
    }

    /// Runs any program on Margay; it may fail.
    ///
    /// # Errors
    /// When yod cannot be run or does not end in time.
    pub fn attempt(
        &self,
        how: How<'_>,
        program: &Path,
        args: &[&str],
        limit: Duration,
    ) -> Result<Outcome> {
        let scratch = Scratch::new(&self.output)?;
        self.attempt_in(scratch.path(), how, program, args, limit)
    }

    /// As [`Lab::attempt`], in a working directory where the program may leave files.
    ///
    /// # Errors
    /// As [`Lab::attempt`].
    pub fn attempt_in(
        &self,
        directory: &Path,
        how: How<'_>,
        program: &Path,
        args: &[&str],
        limit: Duration,
    ) -> Result<Outcome> {
        let mut command = self.command(how, &[], program, args);
        process::run(command.current_dir(directory), limit)
    }

    /// What yod would do for a program: its `--dry-run`.
    ///
    /// # Errors
    /// When it refuses.
    pub fn plan(&self, how: How<'_>, program: &Path) -> Result<String> {
        let mut command = self.command(how, &["--dry-run"], program, &[]);
        Ok(process::run(&mut command, LIMIT)?.good()?.stdout)
    }

    fn command(&self, how: How<'_>, options: &[&str], program: &Path, args: &[&str]) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        // One host core gives a node of one core. A second one would add its own instructions to the count.
        let one = how.icount.then(|| allowed_cores()[0].to_string());
        if let Some(cores) = how.cores.or(one.as_deref()) {
            words.extend(["taskset", "--cpu-list", cores].map(OsString::from));
        }
        let cpus = how
            .cores
            .map_or(how.ranks, |cores| cores.split(',').count());
        if let Some(mpi) = how.launch.mpi() {
            words.extend(
                mpi.launcher(how.ranks, cpus)
                    .into_iter()
                    .map(OsString::from),
            );
        }
        words.push(self.yod.clone().into());
        if how.launch == Launch::None {
            let ranks = how.ranks.to_string();
            words.extend(["-n", &ranks].map(OsString::from));
        }
        words.extend(["-m", how.memory, "--accel", "tcg"].map(OsString::from));
        words.extend(options.iter().map(OsString::from));
        if how.icount && how.ranks > 1 || how.ranks > cpus {
            words.push("--oversubscribe".into());
        }
        if how.stats {
            words.push("--stats=json".into());
        }
        if let Some(trace) = how.trace {
            words.push(format!("--strace={}", trace.display()).into());
        }
        if how.node_mib.is_some() {
            // The pool is not the node's own memory.
            words.extend(["--shared-memory", "0"].map(OsString::from));
        }
        words.push("--".into());
        if how.launch == Launch::Components {
            words.push(launch::wrapper().into());
        }
        words.push(program.into());
        words.extend(args.iter().map(OsString::from));
        let mut command = Command::new(&words[0]);
        if how.fixed_environment {
            command.env_clear().envs(ENVIRONMENT);
            command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        }
        command.args(&words[1..]).env("MARGAY_KERNEL", &self.kernel);
        if let Some(mpi) = how.launch.mpi() {
            command.envs(mpi.variables().iter().copied());
        }
        if how.launch == Launch::Components {
            command.env("SMARTMAP_TARGET", self.target());
            command.env("SMARTMAP_VERBOSE", "1");
        }
        if how.icount {
            command.env("MARGAY_ICOUNT", "1");
        }
        if let Some(plugin) = how.plugin {
            command.env("MARGAY_QEMU_PLUGIN", plugin);
        }
        if let Some(mib) = how.node_mib {
            command.env("MARGAY_NODE_MIB", mib.to_string());
        }
        command
    }

    /// Runs a benchmark program on this host's Linux.
    ///
    /// # Errors
    /// When it fails.
    pub fn native(&self, name: &str, args: &[&str]) -> Result<Results> {
        let mut command = Command::new(self.program(name));
        let outcome = process::run(command.args(args), LIMIT)?;
        let outcome = outcome
            .good()
            .with_context(|| format!("{name} failed natively"))?;
        Ok(Results::parse(&outcome.stdout))
    }
}

/// The cores that this process may use.
pub fn allowed_cores() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None);
    allowed.map_or_else(
        |_| vec![0],
        |set| {
            (0..rustix::thread::CpuSet::MAX_CPU)
                .filter(|&core| set.is_set(core))
                .collect()
        },
    )
}
