//! Slurm: ranks that srun starts, and how Slurm ends them, on a cluster of one node that the test sets up (cluster.sh). That takes root
//! and namespaces.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use crate::job::{Job, wait_long_for};
use crate::mpi::{MPICH, Mpi, OPEN_MPI, gone};
use crate::namespaces::{Namespaces, same_lines};

/// What MPIs have to be started by.
const PMI: [(Mpi, &str); 2] = [(MPICH, "--mpi=pmi2"), (OPEN_MPI, "--mpi=pmix")];

/// The cluster.
struct Cluster {
    inside: Namespaces,
    logs: Scratch,
}

impl Cluster {
    /// Starts it; `None` where that is not possible.
    fn start() -> Result<Option<Cluster>> {
        let logs = Scratch::new()?;
        let argument = logs.path().to_string_lossy().into_owned();
        let Some(inside) = Namespaces::start("cluster.sh", &[&argument])? else {
            return Ok(None);
        };
        let cluster = Cluster { inside, logs };
        let idle = || {
            let state = cluster.inside.output_of(&["sinfo", "-h", "-o", "%T"]);
            state.is_ok_and(|state| state == "idle\n")
        };
        wait_long_for(3, "a cluster", idle).with_context(|| cluster.said())?;
        Ok(Some(cluster))
    }

    /// What its daemons have logged.
    fn said(&self) -> String {
        let log = |name| fs::read_to_string(self.logs.path().join(name)).unwrap_or_default();
        ["munged.log", "slurmctld.log", "slurmd.log"]
            .map(log)
            .concat()
    }

    /// srun with these options, of a command; under yod with these, if any.
    fn srun(&self, job: &Job, options: &[&str], yod: Option<&[&str]>, command: &[&str]) -> Run {
        let own = tree::yod().to_string_lossy().into_owned();
        let machine = tree::machine();
        let run = Run::new(["srun", "--quiet"]).args(options);
        let run = match yod {
            Some(options) => run
                .args(&[&*own, &machine, "--oversubscribe"])
                .args(options),
            None => run,
        };
        job.place(self.inside.within(job, run.args(command)), [])
    }

    /// Runs it to its end; nothing is left of it.
    fn outcome(&self, job: &Job, run: Run) -> Result<Outcome> {
        let outcome = job.start(run)?.finish(HANG * 3)?;
        outcome.ended()?;
        self.gone(job)?;
        Ok(outcome)
    }

    /// Once a job has printed its line, does something to it.
    fn act(&self, job: &Job, command: &[&str]) -> Result<()> {
        let out = job.directory().join("out");
        let begun = || fs::read_to_string(&out).is_ok_and(|text| text.ends_with('\n'));
        wait_long_for(3, "a running rank", begun).with_context(|| self.said())?;
        let number = self
            .inside
            .output_of(&["squeue", "-h", "-t", "running", "-o", "%i"])?;
        let words = command
            .iter()
            .map(|word| word.replace("JOB", number.trim()));
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // "now" is over where Slurm comes to it in the next second, and is refused.
        let mut taken = Ok(String::new());
        let is_taken = || {
            taken = self.inside.output_of(&words);
            taken.is_ok()
        };
        let waited = wait_long_for(1, "a command that Slurm takes", is_taken);
        taken.and(waited)
    }

    /// Neither processes are left, nor memory that ranks share, nor nodes.
    fn gone(&self, job: &Job) -> Result<()> {
        gone(job)?;
        let yod = tree::yod();
        let nodes = self.inside.output_of(&[&*yod.to_string_lossy(), "--ps"]);
        let nodes = nodes.with_context(|| self.said())?;
        ensure!(nodes == "no node of yours is running here\n", "{nodes}");
        // Ended ones may leave theirs natively, too.
        let left = self.inside.output_of(&["ls", "/dev/shm"])?;
        ensure!(!left.contains("margay"), "left behind: {left}");
        Ok(())
    }
}

/// Open MPI's PMIx handed its data over in files that srun's daemon and ranks map shared, and MPI_Init failed.
#[test]
fn srun_starts_ranks() -> Result<()> {
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    for (mpi, pmi) in PMI {
        let job = Job::new(2)?;
        let program = mpi.ring(&job)?;
        let command = [&*program.to_string_lossy(), "well"];
        let run = |yod| cluster.srun(&job, &["-n", "2", pmi], yod, &command);
        let native = cluster.outcome(&job, run(None))?;
        let ended = cluster.outcome(&job, run(Some(&["-m", "256M"])))?;
        ensure!(native.status == Some(0));
        same_lines(&native, &ended).context(pmi)?;
        let options = ["-n", "2", "--label", pmi];
        let labelled = cluster.srun(&job, &options, Some(&["-m", "256M", "--label"]), &command);
        let said = cluster.outcome(&job, labelled)?.stdout.text();
        for wanted in ["0: [0] rank 0 of 2 ", "1: [1] rank 1 of 2 "] {
            let is_it = |line: &str| line.starts_with(wanted);
            ensure!(said.lines().any(is_it), "{pmi}: no {wanted:?}: {said}");
        }
        let left = cluster.inside.output_of(&["ls", "/dev/shm"])?;
        ensure!(left.is_empty(), "{pmi}: left behind: {left}");
    }
    Ok(())
}

/// What a rank's own end means to the others is srun's to say.
#[test]
fn srun_ends_ranks_when_one_is_bad() -> Result<()> {
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    for (mpi, pmi) in PMI {
        let job = Job::new(2)?;
        let program = mpi.ring(&job)?;
        let options = ["-n", "2", "--kill-on-bad-exit=1", pmi];
        let command = [&*program.to_string_lossy(), "crash"];
        let run = cluster.srun(&job, &options, Some(&["-m", "256M"]), &command);
        let ended = cluster.outcome(&job, run)?;
        let said = ended.stderr.text();
        // Of the rank that has crashed, or of the one that was ended for it: it depends, natively, too.
        ensure!(
            [Some(139), Some(143)].contains(&ended.status)
                && said.contains("task 1: Segmentation fault")
                && !said.contains("yod: the node keeper"),
            "status {:?}: {said}",
            ended.status
        );
    }
    Ok(())
}

/// How Slurm ends what runs, or signals it.
struct Way<'a> {
    /// Options of srun.
    options: &'a [&'a str],
    /// MiB that the program touches.
    touched: &'a str,
    /// What to do once it has touched them, if anything; JOB is the job's number.
    command: &'a [&'a str],
    status: i32,
    /// It does not take long.
    is_quick: bool,
}

/// What Slurm sends to a job it sends to every process that it finds, also to a node's keeper and QEMU, which it ended: yod spoke of a
/// node that was killed, and status and output depended on who was quicker.
#[test]
fn slurm_ends_jobs_as_natively() -> Result<()> {
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    let ways = [
        Way {
            options: &[],
            touched: "1",
            command: &["scancel", "JOB"],
            status: 143,
            is_quick: true,
        },
        Way {
            options: &[],
            touched: "1",
            command: &["scancel", "--signal=USR1", "JOB"],
            status: 138,
            is_quick: true,
        },
        Way {
            options: &["--mem=400M"],
            touched: "600",
            command: &[],
            status: 137,
            is_quick: true,
        },
        // It looks for jobs whose time is over every 30 s.
        Way {
            options: &["--time=1"],
            touched: "1",
            command: &["scontrol", "update", "JobId=JOB", "EndTime=now"],
            status: 143,
            is_quick: false,
        },
    ];
    for way in ways {
        for yod in [None, Some(&["-m", "800M"][..])] {
            if yod.is_none() && !way.is_quick {
                continue;
            }
            let job = Job::new(1)?;
            let program = touch(&job)?;
            let command = [&*program.to_string_lossy(), way.touched];
            let options = [&["-n", "1"], way.options].concat();
            let run = cluster.srun(&job, &options, yod, &command);
            let started = job.start(run.output_to("out"))?;
            if !way.command.is_empty() {
                cluster.act(&job, way.command)?;
            }
            let ended = started.finish(HANG * 6)?;
            let context = || format!("{:?}, under yod: {}", way.command, yod.is_some());
            ended.ended().with_context(context)?;
            cluster.gone(&job).with_context(context)?;
            let said = ended.stderr.text();
            ensure!(
                ended.status == Some(way.status) && !has_needless_lines(&said, way.status),
                "{}: status {:?}: {said}{}",
                context(),
                ended.status,
                cluster.said()
            );
        }
    }
    Ok(())
}

/// SIGKILL cannot be ignored, and meets a job's processes one after the other: a yod that it finds after the keeper may say so.
fn has_needless_lines(said: &str, status: i32) -> bool {
    let killed = "yod: the node keeper was killed by signal 9 (SIGKILL), and the node with it";
    said.lines()
        .any(|line| line.contains("yod: ") && !(status == 137 && line == killed))
}

/// Compiles what touches memory.
fn touch(job: &Job) -> Result<PathBuf> {
    fs::create_dir_all(job.directory())?;
    let program = job.directory().join("touch");
    let source = tree::root().join("tests/launchers/touch.c");
    let mut compile = Command::new("gcc");
    let compile = compile.arg("-O1").arg("-o").args([&program, &source]);
    ensure!(compile.status()?.success(), "gcc failed");
    Ok(program)
}
