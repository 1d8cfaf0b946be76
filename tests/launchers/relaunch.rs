//! `yod -n 2` of an MPI program becomes the launcher that its ranks need, found in PATH.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use margay_tests::clean::{self, one_line};
use margay_tests::process;
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::write_program;
use margay_tests::tree;
use rustix::process::Signal;

use crate::job::{Job, wait_for};
use crate::mpi::{By, MPICH, OPEN_MPI, gone};

/// The only line of yod's says what it becomes.
fn names_launcher(ended: &Outcome, launcher: &str) -> Result<()> {
    let lines = report::own_lines(ended.stderr.head());
    ensure!(
        lines.len() == 1 && lines[0].contains(&format!(": starting {launcher} -n 2 ")),
        "{lines:?}"
    );
    Ok(())
}

/// Each rank was the only one in its MPI_COMM_WORLD, and did what both were to share; then it was refused.
#[test]
fn ranks_find_each_other() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        let ended = mpi.as_natively(By::Yod, "well")?;
        names_launcher(&ended, mpi.launcher)?;
        ensure!(ended.stderr.text().lines().count() == 1);
    }
    Ok(())
}

#[test]
fn jobs_end_as_natively() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        names_launcher(&mpi.as_natively(By::Yod, "crash")?, mpi.launcher)?;
    }
    Ok(())
}

/// yod's process is the launcher's: who signals the one signals the other.
#[test]
fn yod_becomes_the_launcher() -> Result<()> {
    for (mpi, signal) in [(OPEN_MPI, Signal::TERM), (MPICH, Signal::INT)] {
        let job = Job::new(2)?;
        let started = mpi.endless(&job, By::Yod)?;
        let program = fs::read_link(format!("/proc/{}/exe", started.pid()))?;
        ensure!(
            program == Path::new(mpi.launcher).canonicalize()?,
            "{}",
            program.display()
        );
        process::signal(started.pid(), signal);
        started.finish(HANG)?;
        gone(&job)?;
    }
    Ok(())
}

/// All but `-n` is the started yods' to do.
#[test]
fn options_are_handed_on() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(2)?;
        let program = mpi.ring(&job)?;
        let options = [
            "-qd1",
            "--label",
            "--stats=stats.json",
            "--strace=calls",
            "--strace-only",
            "uname",
            "--env",
            "RING_WORD=two words",
        ];
        let run = mpi.run(&job, By::Yod, &options, &program, "well");
        let ended = job.start(run)?.finish(HANG * 3)?;
        let (out, err) = (ended.stdout.text(), ended.stderr.text());
        let labelled = |rank| out.contains(&format!("[{rank}] rank {rank} of 2 on "));
        ensure!(
            ended.status == Some(0)
                && labelled(0)
                && labelled(1)
                && out.matches(" two words\n").count() == 2
                && err.is_empty(),
            "status {:?}: {out}{err}",
            ended.status
        );
        let stats: serde_json::Value = serde_json::from_str(&job.read("stats.json")?)?;
        for rank in 0..2 {
            let its = &stats["ranks"][rank];
            ensure!(
                its["cores"] == 1 && its["partition_bytes"] == 256 << 20,
                "rank {rank}: {its}"
            );
            ensure!(job.read(&format!("calls.{rank}"))?.contains("uname("));
        }
        gone(&job)?;
    }
    Ok(())
}

/// Open MPI's mpirun may wait for ever when a rank ends while it starts; hydra does not.
#[test]
fn time_limits_and_gdb_are_handed_on() -> Result<()> {
    let job = Job::new(2)?;
    let program = MPICH.ring(&job)?;
    let run = MPICH.run(&job, By::Yod, &["--timeout", "3"], &program, "spin");
    let ended = job.start(run)?.finish(HANG)?;
    let said = ended.stderr.text();
    ensure!(
        ended.status != Some(0) && said.contains("timed out after 3 s (--timeout)"),
        "status {:?}: {said}",
        ended.status
    );
    gone(&job)?;
    let run = MPICH.run(&job, By::Yod, &["--gdb=gdb"], &program, "well");
    let started = job.start(run)?;
    wait_for("two sockets", || {
        let socket = |rank| job.directory().join(format!("gdb.{rank}"));
        (0..2).all(|rank| socket(rank).exists())
    })?;
    process::signal(started.pid(), Signal::INT);
    started.finish(HANG)?;
    gone(&job)
}

/// A directory for PATH with what may be called like a launcher.
struct Directory {
    job: Job,
}

impl Directory {
    fn new() -> Result<Directory> {
        let job = Job::new(2)?;
        fs::create_dir_all(job.directory())?;
        Ok(Directory { job })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.job.directory().join(name)
    }

    /// Two ranks of a program of the conformance set, with this directory alone in PATH.
    fn yod(&self, kind: &str, program: &str) -> Run {
        let program = tree::program(kind, program);
        let run = Run::yod(&["-n", "2", "--oversubscribe", "--"]);
        let run = run.args(&[program.to_string_lossy()]);
        run.env(&[("PATH", self.job.directory().to_string_lossy())])
    }

    fn refuses(&self, kind: &str, program: &str, part: &str) -> Result<()> {
        let ended = clean::run(self.yod(kind, program))?;
        one_line(&ended, 2, part)?;
        one_line(&ended, 2, "whose ranks find each other by their launcher; ")
    }
}

#[test]
fn without_a_launcher_there_is_one_line() -> Result<()> {
    let none = Directory::new()?;
    for (kind, program, package) in [
        ("openmpi", "groups", "openmpi-bin"),
        ("openmpi-fortran", "fortran", "openmpi-bin"),
        ("mpich", "groups", "mpich"),
        ("mpich-fortran", "fortran", "mpich"),
    ] {
        let part = format!(
            "there is none in PATH: install it (Debian's package is {package}) or add its directory to PATH"
        );
        none.refuses(kind, program, &part)?;
    }
    Ok(())
}

/// What has the name of a launcher need not be one.
#[test]
fn what_is_no_launcher_is_passed_over() -> Result<()> {
    type Make = fn(&Path) -> Result<()>;
    let cases: [(Make, &str); 5] = [
        (|at| Ok(fs::create_dir(at)?), "is a directory"),
        (
            |at| Ok(fs::write(at, "mpirun (Open MPI) 4.1.4\n")?),
            "not executable (chmod +x makes it so)",
        ),
        // It would start yod for ever, in an environment that shows nothing.
        (
            |at| {
                let yod = tree::yod();
                let script = format!("#!/bin/sh\nexec /usr/bin/env -i {} \"$@\"\n", yod.display());
                write_program(at, script.as_bytes(), 0o755)
            },
            "a script, which only you can start",
        ),
        (
            |at| Ok(symlink(MPICH.launcher, at)?),
            "its version is no Open MPI's",
        ),
        (
            |at| Ok(symlink(tree::yod(), at)?),
            "its version is no Open MPI's",
        ),
    ];
    for name in ["mpirun.openmpi", "mpirun"] {
        for (make, why) in cases {
            let directory = Directory::new()?;
            let file = directory.file(name);
            make(&file)?;
            let part = format!("there is none in PATH ({}: {why}): ", file.display());
            directory.refuses("openmpi", "groups", &part)?;
        }
    }
    let directory = Directory::new()?;
    symlink(OPEN_MPI.launcher, directory.file("mpiexec"))?;
    directory.refuses("mpich", "groups", "mpiexec: its version is no MPICH's")
}

/// A launcher by a name that Debian has not is one by its version.
#[test]
fn launchers_may_have_common_names() -> Result<()> {
    let job = Job::new(2)?;
    let program = MPICH.ring(&job)?;
    let directory = Directory::new()?;
    symlink(OPEN_MPI.launcher, directory.file("mpiexec"))?;
    symlink(MPICH.launcher, directory.file("mpirun"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let qemu = "qemu-system-x86_64";
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(qemu));
    let found = all.find(|file| file.exists()).context("QEMU")?;
    symlink(found, directory.file(qemu))?;
    let path = format!("{}:/nonexistent", directory.job.directory().display());
    let run = MPICH.run(&job, By::Yod, &["--dry-run"], &program, "well");
    let ended = job.start(run.env(&[("PATH", path)]))?.finish(HANG)?;
    let (plan, said) = (ended.stdout.text(), ended.stderr.text());
    let launcher = format!("launcher     {} -n 2 ", directory.file("mpirun").display());
    // The launcher was started, which had yods print the plan.
    ensure!(
        ended.status == Some(0) && said.is_empty() && plan.matches(&launcher).count() == 1,
        "status {:?}: {plan}{said}",
        ended.status
    );
    Ok(())
}

/// Each rank would have been the only one.
#[test]
fn a_launcher_without_variables_is_found_out() -> Result<()> {
    let directory = Directory::new()?;
    let source = tree::root().join("tests/launchers/forgetful.c");
    let mut compile = Command::new("gcc");
    let compile = compile.arg("-o").arg(directory.file("mpirun")).arg(source);
    ensure!(compile.status()?.success(), "gcc failed");
    // What yod was started with is what the launcher is started with.
    let signals = ["--ignore-signal=CHLD,PIPE,USR1", "--block-signal=USR2"];
    let under = [&["/usr/bin/env"][..], &signals].concat();
    let run = directory.yod("openmpi", "groups").under(&under);
    let ended = clean::run(run)?;
    let seen = ended.stdout.text();
    ensure!(seen == "ignored 10,13,17, blocked 12,\n", "{seen}");
    let lines = report::own_lines(ended.stderr.head());
    ensure!(
        ended.status == Some(69)
            && lines.len() == 2
            && lines[1].contains("has not set which rank this yod is"),
        "status {:?}: {lines:?}",
        ended.status
    );
    Ok(())
}

/// A second job of many ranks in one that has been started, and arguments that a launcher takes for its own.
#[test]
fn what_a_launcher_cannot_do_is_refused() -> Result<()> {
    let program = tree::program("mpich", "groups");
    let program = program.to_string_lossy();
    let two = ["-n", "2", "--oversubscribe", "--"];
    let run = Run::yod(&two).args(&[&*program, "a", ":", "b"]);
    let part = "an argument \":\" would end the arguments there";
    one_line(&clean::run(run)?, 2, part)?;
    let run = Run::yod(&two).args(&[&*program]);
    let run = run.env(&[("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "1")]);
    let part = "mpiexec has started this yod for one, leave -n out";
    one_line(&clean::run(run)?, 2, part)
}
