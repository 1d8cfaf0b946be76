//! Debian's MPIs: their launchers start yod, and ranks find each other and end as natively.
//!
//! Messages go through memory that the MPIs have ranks share, as natively.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, MARK};
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::tree;
use rustix::process::Signal;

use crate::job::{Job, wait_long_for};

/// Memory of a rank.
const PARTITION: &str = "256M";

/// Who starts the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The launcher, without yod.
    Native,
    /// The launcher, yods.
    Launcher,
    /// yod with `-n`, the launcher.
    Yod,
}

/// An MPI as Debian packages it.
pub struct Mpi {
    /// For people.
    pub name: &'static str,
    compiler: &'static str,
    /// Its launcher's path.
    pub launcher: &'static str,
    /// What lets root start it where there are few cores.
    pub variables: &'static [(&'static str, &'static str)],
    /// What leaves it no way for messages but memory that ranks share.
    by_memory: (&'static str, &'static str),
}

pub const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI",
    compiler: "mpicc.openmpi",
    launcher: "/usr/bin/mpirun.openmpi",
    variables: &[
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        // It binds two ranks to two cores, which the host may not have.
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ],
    by_memory: ("OMPI_MCA_btl", "self,vader"),
};

pub const MPICH: Mpi = Mpi {
    name: "MPICH",
    compiler: "mpicc.mpich",
    launcher: "/usr/bin/mpiexec.hydra",
    variables: &[],
    by_memory: ("UCX_TLS", "self,sysv,cma"),
};

impl Mpi {
    /// Compiles the program that passes a token around.
    pub fn ring(&self, job: &Job) -> Result<PathBuf> {
        self.compile(job, "ring")
    }

    /// Compiles a program of this folder; its functions may take the place of libraries'.
    pub fn compile(&self, job: &Job, name: &str) -> Result<PathBuf> {
        let directory = job.directory();
        std::fs::create_dir_all(&directory)?;
        let program = directory.join(name);
        let source = tree::root().join(format!("tests/launchers/{name}.c"));
        let mut compile = Command::new(self.compiler);
        let made = compile
            .args(["-O1", "-rdynamic", "-o"])
            .args([&program, &source])
            .status();
        let made = made.with_context(|| format!("cannot run {}", self.compiler))?;
        ensure!(made.success(), "{} failed", self.compiler);
        Ok(program)
    }

    /// What starts a job's ranks of the program.
    pub fn run(&self, job: &Job, by: By, options: &[&str], program: &Path, way: &str) -> Run {
        let options = [&["-m", PARTITION], options].concat();
        let run = self.launch(job, by, &options);
        run.args(&[&*program.to_string_lossy(), way])
    }

    /// What starts a job's ranks, as yods with these options if at all; the program follows.
    pub fn launch(&self, job: &Job, by: By, options: &[&str]) -> Run {
        let (yod, machine, size) = (tree::yod(), tree::machine(), job.size().to_string());
        let yod = yod.to_string_lossy();
        let of_yod = [&machine, "--oversubscribe"];
        let run = match by {
            By::Native => Run::new([self.launcher, "-n", &size]),
            By::Launcher => Run::new([self.launcher, "-n", &size, &yod])
                .args(&of_yod)
                .args(options),
            By::Yod => Run::new([&*yod, "-n", &size]).args(&of_yod).args(options),
        };
        job.place(run.env(self.variables), [])
    }

    /// Runs it to its end, no process is left.
    fn outcome(&self, by: By, way: &str) -> Result<Outcome> {
        self.outcome_with(by, way, &[])
    }

    fn outcome_with(&self, by: By, way: &str, variables: &[(&str, &str)]) -> Result<Outcome> {
        let job = Job::new(2)?;
        let program = self.ring(&job)?;
        let run = self.run(&job, by, &[], &program, way).env(variables);
        let started = job.start(run)?;
        let outcome = started.finish(HANG * 3)?;
        outcome.ended()?;
        gone(&job)?;
        Ok(outcome)
    }

    /// The same output, in any order, and the same status as natively.
    pub fn as_natively(&self, by: By, way: &str) -> Result<Outcome> {
        let (native, ended) = (self.outcome(By::Native, way)?, self.outcome(by, way)?);
        let lines = |outcome: &Outcome| {
            let text = outcome.stdout.text();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.retain(|line| line.starts_with("rank "));
            lines.sort();
            lines
        };
        ensure!(
            (ended.status, lines(&ended)) == (native.status, lines(&native))
                && lines(&ended).len() == 2,
            "{way}: status {:?} instead of {:?}:\n{}instead of\n{}{}",
            ended.status,
            native.status,
            ended.stdout.text(),
            native.stdout.text(),
            ended.stderr.text()
        );
        Ok(ended)
    }

    /// A job whose ranks have met and never end, and its launcher. Ended by a signal while it starts, mpirun may wait for itself for ever,
    /// natively, too.
    pub fn endless<'a>(&self, job: &'a Job, by: By) -> Result<Started<'a>> {
        let program = self.ring(job)?;
        let run = self.run(job, by, &[], &program, "spin");
        let started = job.start(run.output_to("out"))?;
        let lines = |text: String| text.lines().filter(|l| l.starts_with("rank ")).count();
        let met = || job.read("out").map_or(0, lines);
        wait_long_for(3, "ranks that have met", || met() == 2)?;
        Ok(started)
    }

    /// At a signal the launcher ends everything; returns its status.
    fn ended_by_signal(&self, signal: Signal) -> Result<Option<i32>> {
        let job = Job::new(2)?;
        let started = self.endless(&job, By::Launcher)?;
        process::signal(started.pid(), signal);
        let ended = started.finish(HANG)?;
        gone(&job)?;
        Ok(ended.status)
    }

    /// A launcher that is killed cannot; its daemons' ends are seen by what they have started.
    fn killed(&self) -> Result<()> {
        let job = Job::new(2)?;
        let started = self.endless(&job, By::Launcher)?;
        ensure!(process::kill(started.pid()));
        started.finish(HANG)?;
        gone(&job)
    }
}

/// No process is left, and no directory of ours; Open MPI may leave its own.
pub fn gone(job: &Job) -> Result<()> {
    let left = process::left_over(job.mark(), HANG);
    ensure!(left.is_empty(), "still running: {left:?} ({MARK})");
    for entry in std::fs::read_dir(job.temporary())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        ensure!(!name.contains("margay"), "left behind: {name}");
    }
    Ok(())
}

#[test]
fn open_mpi_passes_a_token_around() -> Result<()> {
    let ended = OPEN_MPI.as_natively(By::Launcher, "well")?;
    ensure!(ended.stderr.text().is_empty(), "{}", ended.stderr.text());
    Ok(())
}

#[test]
fn mpich_passes_a_token_around() -> Result<()> {
    let ended = MPICH.as_natively(By::Launcher, "well")?;
    ensure!(ended.stderr.text().is_empty(), "{}", ended.stderr.text());
    Ok(())
}

/// Natively each is alone. Open MPI's ended in MPI_Init, since the variables that the launcher's own MPI needs are others.
#[test]
fn ranks_of_another_mpi_are_alone_and_it_is_said() -> Result<()> {
    for (options, lines) in [(&[][..], 1), (&["-q"][..], 0)] {
        let job = Job::new(2)?;
        let program = OPEN_MPI.ring(&job)?;
        let run = MPICH.run(&job, By::Launcher, options, &program, "well");
        let ended = job.start(run.env(OPEN_MPI.variables))?.finish(HANG * 3)?;
        gone(&job)?;
        let (seen, said) = (ended.stdout.text(), ended.stderr.text());
        let part =
            " is linked with Open MPI, whose ranks do not find each other by the mpiexec of MPICH ";
        ensure!(
            ended.status == Some(0)
                && seen.matches("rank 0 of 1 ").count() == 2
                && (said.lines().count(), said.matches(part).count()) == (lines, lines),
            "status {:?}: {seen}{said}",
            ended.status
        );
    }
    Ok(())
}

/// Ranks could share no memory, so messages had to go over TCP, and windows that ranks share did not exist.
#[test]
fn messages_go_through_shared_memory() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        let ended = mpi.outcome_with(By::Launcher, "well", &[mpi.by_memory])?;
        let said = ended.stdout.text();
        ensure!(
            ended.status == Some(0) && said.matches("rank ").count() == 2,
            "{}: status {:?}: {said}{}",
            mpi.compiler,
            ended.status,
            ended.stderr.text()
        );
    }
    Ok(())
}

#[test]
fn aborted_jobs_end_as_natively() -> Result<()> {
    OPEN_MPI.as_natively(By::Launcher, "abort")?;
    MPICH.as_natively(By::Launcher, "abort").map(drop)
}

/// To the launcher the yod is the rank: it dies of the same signal.
#[test]
fn crashed_ranks_end_the_job_as_natively() -> Result<()> {
    let ended = OPEN_MPI.as_natively(By::Launcher, "crash")?;
    let named = "exited on signal 11 (Segmentation fault)";
    ensure!(
        ended.stderr.text().contains(named),
        "{}",
        ended.stderr.text()
    );
    MPICH.as_natively(By::Launcher, "crash").map(drop)
}

#[test]
fn launchers_end_their_jobs() -> Result<()> {
    for signal in [Signal::INT, Signal::TERM] {
        let status = OPEN_MPI.ended_by_signal(signal)?;
        ensure!(status.is_some_and(|status| status != 0), "{status:?}");
    }
    // Natively its status is 0, too.
    MPICH.ended_by_signal(Signal::INT).map(|_| ())
}

#[test]
fn launchers_that_are_killed_leave_nothing() -> Result<()> {
    OPEN_MPI.killed()?;
    MPICH.killed()
}
