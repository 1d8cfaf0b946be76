//! Two hosts: each has its node, and ranks of both reach each other by the MPI's own TCP.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::tree;

use crate::job::{Job, wait_for, wait_long_for};
use crate::mpi::{By, MPICH, Mpi, OPEN_MPI, gone};
use crate::namespaces::{Namespaces, same_lines};

/// Instead of ssh.
const AGENT: &str = "/run/agent";

/// A job on both hosts.
struct Case<'a> {
    inside: &'a Namespaces,
    mpi: &'a Mpi,
    /// On each host.
    ranks: usize,
    way: &'static str,
}

impl Case<'_> {
    /// What starts it, natively or under yod.
    fn run(&self, job: &Job, under_yod: bool) -> Result<Run> {
        let program = self.mpi.ring(job)?;
        let (ranks, all) = (self.ranks.to_string(), (2 * self.ranks).to_string());
        let hosts = format!("host-a:{ranks},host-b:{ranks}");
        let launch = match self.mpi.name {
            // Both hosts are this machine, of which each would bind its ranks to the same first cores: the other then idles.
            "Open MPI" => {
                let agent = ["--mca", "plm_rsh_agent", AGENT];
                [&agent[..], &["--host", &hosts, "--bind-to", "none"]].concat()
            }
            _ => {
                let agent = ["-launcher", "ssh", "-launcher-exec", AGENT];
                let hosts = ["-hosts", "host-a,host-b", "-ppn", &ranks];
                [&agent[..], &hosts].concat()
            }
        };
        let run = Run::new([self.mpi.launcher]);
        let run = run.args(&launch).args(&["-n", &all]);
        let (own, machine) = (tree::yod(), tree::machine());
        let run = if under_yod {
            let options = [&machine, "--oversubscribe", "-m", "256M"];
            run.args(&[own.to_string_lossy()]).args(&options)
        } else {
            run
        };
        let run = run.args(&[&*program.to_string_lossy(), self.way]);
        let run = self.inside.within(job, run.env(self.mpi.variables));
        Ok(job.place(run, []))
    }

    /// Runs it to its end; nothing is left of it.
    fn outcome(&self, under_yod: bool) -> Result<Outcome> {
        let job = Job::new(2)?;
        let ended = job.start(self.run(&job, under_yod)?)?.finish(HANG * 3)?;
        ended.ended()?;
        gone(&job)?;
        Ok(ended)
    }

    /// Waits until its ranks have met, which then never end, and has the launcher end them; what they have printed. Nothing is left
    /// of it.
    fn ended_by_signal(&self, under_yod: bool) -> Result<Vec<String>> {
        let job = Job::new(2)?;
        let started = job.start(self.run(&job, under_yod)?.output_to("out"))?;
        let out = job.directory().join("out");
        let mut lines = Vec::new();
        wait_long_for(3, "ranks that have met", || {
            let text = fs::read_to_string(&out).unwrap_or_default();
            lines = text.lines().map(str::to_owned).collect();
            lines.len() == 2 * self.ranks && text.ends_with('\n')
        })?;
        let launcher = Path::new(self.mpi.launcher).file_name();
        let launcher = launcher.context("a name")?.to_string_lossy();
        // In its namespace there is no other.
        self.inside.output_of(&["pkill", "-INT", "-x", &launcher])?;
        started.finish(HANG)?;
        gone(&job)?;
        lines.sort();
        Ok(lines)
    }
}

fn hosts() -> Result<Option<Namespaces>> {
    let Some(inside) = Namespaces::start("hosts.sh", &[])? else {
        return Ok(None);
    };
    wait_for("two hosts", || {
        inside.output_of(&["ls", "/run/ready"]).is_ok()
    })?;
    Ok(Some(inside))
}

/// Whether each host has its ranks, by the lines that they print.
fn on_both<'a>(lines: impl Iterator<Item = &'a str> + Clone, ranks: usize) -> bool {
    [" on host-a: ", " on host-b: "]
        .into_iter()
        .all(|host| lines.clone().filter(|line| line.contains(host)).count() == ranks)
}

#[test]
fn nodes_of_two_hosts_are_one_job_of_open_mpi() -> Result<()> {
    let Some(inside) = hosts()? else {
        return Ok(());
    };
    for (ranks, way) in [(1, "well"), (2, "well"), (1, "crash")] {
        let case = Case {
            inside: &inside,
            mpi: &OPEN_MPI,
            ranks,
            way,
        };
        let (native, ended) = (case.outcome(false)?, case.outcome(true)?);
        let what = || format!("{ranks} on each host, {way}");
        same_lines(&native, &ended).with_context(what)?;
        let said = ended.stdout.text();
        ensure!(on_both(said.lines(), ranks), "{}: {said}", what());
    }
    Ok(())
}

/// Debian's MPICH with UCX over TCP may wait for itself in MPI_Finalize for ever, natively, too: its ranks do not come there.
#[test]
fn nodes_of_two_hosts_are_one_job_of_mpich() -> Result<()> {
    let Some(inside) = hosts()? else {
        return Ok(());
    };
    let case = Case {
        inside: &inside,
        mpi: &MPICH,
        ranks: 2,
        way: "spin",
    };
    let (native, said) = (case.ended_by_signal(false)?, case.ended_by_signal(true)?);
    ensure!(said == native, "{said:?} instead of {native:?}");
    ensure!(on_both(said.iter().map(String::as_str), 2), "{said:?}");
    Ok(())
}

/// What jobs may leave on a host that has no other users: processes, files and segments of memory that ranks share.
fn left(inside: &Namespaces) -> Result<String> {
    inside.output_of(&[
        "/bin/sh",
        "-c",
        "ps -e -o comm= && ls -A /dev/shm && cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg",
    ])
}

/// LAUNCHERS_JOBS jobs (4 unless set) one after the other.
#[test]
fn jobs_leave_nothing() -> Result<()> {
    let Some(inside) = hosts()? else {
        return Ok(());
    };
    let before = left(&inside)?;
    let starts = [By::Launcher, By::Yod].map(|by| [(OPEN_MPI, by), (MPICH, by)]);
    let jobs = 0..tree::number("LAUNCHERS_JOBS", 4);
    for (number, (mpi, by)) in jobs.zip(starts.iter().flatten().cycle()) {
        let job = Job::new(2)?;
        let program = mpi.ring(&job)?;
        let run = mpi.run(&job, *by, &[], &program, "well");
        let ended = job.start(inside.within(&job, run))?.finish(HANG * 3)?;
        let which = || format!("job {number}, {}", mpi.name);
        ended.ended_well().with_context(which)?;
        gone(&job)?;
        let nothing = || left(&inside).is_ok_and(|now| now == before);
        let what = || format!("job {number}, {}: {:?}", mpi.name, left(&inside));
        wait_for("nothing is left", nothing).with_context(what)?;
    }
    Ok(())
}
