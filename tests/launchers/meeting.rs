//! Yods come at the same moment, late, or not together at all; and what each then writes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::report::Stderr;
use margay_tests::run::{Outcome, Run};
use rustix::process::Signal;

use crate::job::{Job, statuses, wait_for};

const HELLO: (&str, &str) = ("glibc-static", "hello");
const ENDLESS: (&str, &str) = ("glibc-static", "endless");

/// Every rank has said hello, by its own yod.
fn good(ended: &[Outcome]) -> Result<()> {
    for (rank, one) in ended.iter().enumerate() {
        let hello = format!("hello from rank {rank} of {}: ", ended.len());
        ensure!(
            one.status == Some(0) && one.stdout.text().starts_with(&hello),
            "{hello:?}: status {:?}, {:?}, {:?}",
            one.status,
            one.stdout.text(),
            one.stderr.text()
        );
    }
    Ok(())
}

#[test]
fn yods_at_the_same_moment_share_a_node() -> Result<()> {
    for size in [2, 8] {
        let job = Job::new(size)?;
        good(&job.run(&["--oversubscribe"], HELLO, &[])?)?;
    }
    Ok(())
}

/// Ranks of different yods write into each other's memory.
#[test]
fn ranks_of_different_yods_have_windows() -> Result<()> {
    let job = Job::new(4)?;
    let ended = job.run(&["--oversubscribe"], ("windows", "ring"), &[])?;
    let text = |one: &Outcome| one.stdout.text() + &one.stderr.text();
    let all: String = ended.iter().map(text).collect();
    let good = statuses(&ended) == [Some(0); 4] && !all.contains("FAIL");
    ensure!(good, "{:?}: {all}", statuses(&ended));
    Ok(())
}

/// Until all have come the first listens, in a directory that only its user may enter; then nothing of it is left.
#[test]
fn a_late_one_finds_the_first() -> Result<()> {
    let job = Job::new(2)?;
    let first = job.start_endless(1, "sleep")?;
    let entries = |path| fs::read_dir(path).into_iter().flatten().flatten();
    wait_for("a socket", || {
        let places = entries(job.temporary());
        let mut sockets = places.flat_map(|place| entries(place.path()));
        sockets.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
    })?;
    let place = entries(job.temporary()).next().context("no directory")?;
    let meta = place.metadata()?;
    ensure!(meta.mode() & 0o7777 == 0o700, "{:o}", meta.mode());
    ensure!(meta.uid() == rustix::process::geteuid().as_raw());
    let late = job.start_endless(0, "sleep")?;
    wait_for("two proxies", || {
        [&first, &late]
            .iter()
            .all(|yod| job.proxy(yod.pid()).is_ok())
    })?;
    wait_for("no file", || entries(job.temporary()).count() == 0)?;
    job.wait_for_endless()?;
    for yod in [&first, &late] {
        process::signal(yod.pid(), Signal::TERM);
    }
    let ended = job.finish(vec![first, late])?;
    ensure!(statuses(&ended) == [Some(143); 2], "{:?}", statuses(&ended));
    Ok(())
}

#[test]
fn jobs_at_the_same_time_are_apart() -> Result<()> {
    let jobs = [Job::new(2)?, Job::new(2)?];
    let started: Result<Vec<_>> = jobs
        .iter()
        .map(|job| job.start_all(&[], HELLO, &[]))
        .collect();
    for (job, yods) in jobs.iter().zip(started?) {
        good(&job.finish(yods)?)?;
    }
    Ok(())
}

/// Programs one after the other by the same process of a launcher are two jobs.
#[test]
fn one_after_the_other_is_another_job() -> Result<()> {
    let job = Job::new(2)?;
    let yods = (0..2).map(|rank| {
        let twice = ["/bin/sh", "-c", "\"$@\" && \"$@\"", "sh"];
        job.start(job.yod(rank, &[], HELLO, &[]).under(&twice))
    });
    let ended = job.finish(yods.collect::<Result<_>>()?)?;
    good(&ended)?;
    let twice = |one: &Outcome| one.stdout.text().lines().count() == 2;
    ensure!(ended.iter().all(twice));
    Ok(())
}

/// srun's variables; a rank has its yod's arguments and environment.
#[test]
fn steps_of_slurm_are_jobs() -> Result<()> {
    let job = Job::new(2)?;
    let yods = (0..2).map(|rank| {
        let variables = [
            ("SLURM_JOB_ID", format!("{}", std::process::id())),
            ("SLURM_STEP_ID", "0".into()),
            ("SLURM_LOCALID", rank.to_string()),
            ("SLURM_NODEID", "0".into()),
            ("SLURM_STEP_TASKS_PER_NODE", "2".into()),
        ];
        let program = margay_tests::tree::program(HELLO.0, HELLO.1);
        let run = Run::yod(&["-m", "32M", "--"]).args(&[program.to_string_lossy()]);
        job.start(job.place(run, variables))
    });
    good(&job.finish(yods.collect::<Result<_>>()?)?)
}

/// What is the node's is rank 0's to write, when all have ended; what is a rank's has a file of its own.
#[test]
fn reports_are_written_once() -> Result<()> {
    let job = Job::new(2)?;
    let options = [
        "--stats=json",
        "--strace=trace",
        "--kernel-log",
        "log",
        "--label",
    ];
    let ended = job.run(&options, HELLO, &[])?;
    for (rank, one) in ended.iter().enumerate() {
        let label = format!("[{rank}] hello from rank {rank} of 2: ");
        ensure!(
            one.stdout.text().starts_with(&label),
            "{}",
            one.stdout.text()
        );
        let trace = job.read(&format!("trace.{rank}"))?;
        let own = format!("[{rank}] ");
        let all_own = trace.lines().all(|line| line.starts_with(&own));
        ensure!(all_own && trace.contains("write(1, "), "{trace}");
    }
    let stats = Stderr::new(ended[0].stderr.head())?.stats;
    for rank in 0..2 {
        let path = format!("/ranks/{rank}/wait_status");
        ensure!(
            stats.number(&path)? == 0 && stats.number(&format!("/ranks/{rank}/peak_bytes"))? > 0
        );
    }
    ensure!(
        ended[1].stderr.text().is_empty(),
        "{}",
        ended[1].stderr.text()
    );
    let files: BTreeSet<String> = fs::read_dir(job.directory())?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    ensure!(
        files.iter().eq(["log", "trace.0", "trace.1"].iter()),
        "{files:?}"
    );
    Ok(())
}

/// The plan of all is printed once. The other yod ended before it was met.
#[test]
fn the_plan_is_that_of_all() -> Result<()> {
    let job = Job::new(2)?;
    let ended = job.run(&["--dry-run", "--oversubscribe"], HELLO, &[])?;
    let out: String = ended.iter().map(|one| one.stdout.text()).collect();
    let plans = out.matches("\nranks        2\n").count();
    ensure!(
        statuses(&ended) == [Some(0); 2] && plans == 1,
        "{:?}: {out}",
        statuses(&ended)
    );
    Ok(())
}

/// One keeper, one QEMU; each yod has its own rank's proxy, and is the parent of it.
#[test]
fn each_yod_has_its_own_rank() -> Result<()> {
    let job = Job::new(2)?;
    let yods = job.start_all(&[], ENDLESS, &["sleep"])?;
    wait_for("two proxies", || {
        yods.iter().all(|yod| job.proxy(yod.pid()).is_ok())
    })?;
    wait_for("a QEMU", || job.process(Role::Qemu).is_ok())?;
    let count = |role| job.processes().iter().filter(|p| p.role == role).count();
    ensure!((count(Role::Keeper), count(Role::Qemu)) == (1, 1));
    for yod in &yods {
        process::signal(yod.pid(), Signal::TERM);
    }
    job.finish(yods).map(drop)
}
