//! What jobs meet with outside of laboratories: ranks that crash or are killed where others wait for them, hosts that lack something.
//! Debian's launchers start them; statuses are as natively, yod says one line at most, and nothing is left.

use std::fs;

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Started};

use crate::job::{Job, wait_long_for};
use crate::mpi::{By, MPICH, Mpi, OPEN_MPI, gone};
use crate::namespaces::are_possible;

/// What yods have said. Other lines are of the MPI and its launcher.
pub fn said(ended: &Outcome) -> Vec<String> {
    report::own_lines(ended.stderr.head())
}

/// Waits for the end of a job, of which nothing is left; its status is this one.
pub fn ended_with(job: &Job, started: Started<'_>, status: i32) -> Result<Outcome> {
    ended_as(job, started, status, |ended| ended.status == Some(status))
}

/// The same; `is_right` says whether it ended as it had to, which usually is with this status.
fn ended_as(
    job: &Job,
    started: Started<'_>,
    status: i32,
    is_right: impl Fn(&Outcome) -> bool,
) -> Result<Outcome> {
    let ended = started.finish(HANG * 3)?;
    gone(job)?;
    ensure!(
        is_right(&ended),
        "status {:?} instead of {status}: {}{}",
        ended.status,
        ended.stdout.text(),
        ended.stderr.text()
    );
    Ok(ended)
}

/// hydra's mpiexec ends by an assertion of its own, now and then, when a rank is gone before all have begun: natively in 6 of 100
/// jobs beside busy loops.
fn hydra_gave_up(ended: &Outcome) -> bool {
    let own = "HYDT_dmxu_poll_wait_for_event";
    let text = ended.stderr.text();
    ended.status == Some(255) && text.contains("assert (!closed) failed") && text.contains(own)
}

/// The other ranks wait for one that crashes: in MPI_Init.
#[test]
fn ranks_that_crash_before_they_meet_end_the_job_as_natively() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        for way in ["before", "inside"] {
            let run = |by, status| -> Result<Outcome> {
                let job = Job::new(2)?;
                let program = mpi.compile(&job, "rough")?;
                let started = job.start(mpi.run(&job, by, &[], &program, way))?;
                ended_as(&job, started, status, |ended| {
                    ended.status == Some(status) || hydra_gave_up(ended)
                })
            };
            let status = if mpi.name == "MPICH" { 11 } else { 139 };
            let what = || format!("{}, {way}", mpi.name);
            run(By::Native, status).with_context(what)?;
            let ended = run(By::Launcher, status).with_context(what)?;
            let of_others = |line: &String| !line.contains(" at address 0x8");
            let others: Vec<_> = said(&ended).into_iter().filter(of_others).collect();
            ensure!(others.is_empty(), "{}: {others:?}", what());
        }
    }
    Ok(())
}

/// Ranks that reduce for ever, and their processes of this name.
fn reducing<'a>(mpi: &Mpi, job: &'a Job, by: By, name: &str) -> Result<(Started<'a>, Vec<u32>)> {
    let program = mpi.compile(job, "rough")?;
    let run = mpi.run(job, by, &[], &program, "reduce");
    let started = job.start(run.output_to("out"))?;
    let begun = || {
        job.read("out")
            .map_or(0, |text| text.matches(" reduces\n").count())
    };
    wait_long_for(3, "ranks that reduce", || begun() == job.size())?;
    let is_it = |pid: u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == name)
    };
    let all = job.processes().into_iter().map(|process| process.pid);
    let mut pids: Vec<u32> = all.filter(|&pid| is_it(pid)).collect();
    pids.sort_unstable();
    ensure!(pids.len() == job.size(), "{name}: {pids:?}");
    Ok((started, pids))
}

/// Kills some of the ranks, whose processes have this name, in the middle of their collectives; the status.
fn killed(mpi: &Mpi, ranks: usize, victims: usize, by: By, name: &str) -> Result<Option<i32>> {
    let job = Job::new(ranks)?;
    let (started, pids) = reducing(mpi, &job, by, name)?;
    // The launcher may see the first one's end, and end the others, before they are hit.
    let hit = pids[..victims].iter().filter(|pid| process::kill(**pid));
    ensure!(hit.count() > 0, "{name}: {pids:?} were gone");
    let ended = started.finish(HANG * 3)?;
    gone(&job)?;
    let said = said(&ended);
    let is_right = |line: &String| line.contains("the yod or the proxy of rank ");
    ensure!(
        said.len() <= 1 && said.iter().all(is_right),
        "{name}: {said:?}"
    );
    Ok(ended.status)
}

/// A launcher is notified by what it has started: a rank's end, or its yod's, which is the same to it.
#[test]
fn ranks_that_are_killed_in_collectives_end_the_job_as_natively() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        for (ranks, victims, name) in [(2, 1, "rough"), (4, 2, "yod")] {
            let native = killed(&mpi, ranks, victims, By::Native, "rough")?;
            ensure!(native.is_some_and(|status| status != 0), "{native:?}");
            let status = killed(&mpi, ranks, victims, By::Launcher, name)?;
            ensure!(
                status == native,
                "{}, {victims} of {ranks}, {name}: {status:?} instead of {native:?}",
                mpi.name
            );
        }
    }
    Ok(())
}

/// Some other yod ended first, and the launcher dropped what the one that was to report it wrote: of two in three jobs under hydra.
#[test]
fn the_end_of_a_node_is_reported_under_launchers() -> Result<()> {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(2)?;
        let started = mpi.endless(&job, By::Launcher)?;
        ensure!(process::kill(job.process(Role::Qemu)?));
        let ended = started.finish(HANG)?;
        gone(&job)?;
        let said = said(&ended);
        let part = "the node (QEMU) was killed by signal 9";
        ensure!(
            ended.status != Some(0) && said.len() == 1 && said[0].contains(part),
            "{}: status {:?}: {said:?}",
            mpi.name,
            ended.status
        );
    }
    Ok(())
}

/// A host that lacks something.
struct Host {
    name: &'static str,
    /// What makes it so, in namespaces of its own.
    script: &'static str,
    /// Statuses of Open MPI and MPICH, natively and under yod.
    statuses: [[i32; 2]; 2],
}

const HOSTS: [Host; 4] = [
    // Debian's MPICH uses it natively; under yod it has segments of System V.
    Host {
        name: "a full /dev/shm",
        script: "ip link set lo up; mount -t tmpfs -o size=64k none /dev/shm",
        statuses: [[1, 1], [15, 0]],
    },
    Host {
        name: "no /dev/shm",
        script: "ip link set lo up; mount -t tmpfs none /mnt; mkdir /mnt/pts; mount --bind /dev/pts /mnt/pts
            for node in null zero full random urandom tty; do : >/mnt/$node; mount --bind /dev/$node /mnt/$node; done
            mount --rbind /mnt /dev",
        statuses: [[0, 0], [0, 0]],
    },
    // Open MPI's own daemons cannot talk.
    Host {
        name: "no network",
        script: "true",
        statuses: [[1, 1], [0, 0]],
    },
    Host {
        name: "a name that does not resolve",
        script: "ip link set lo up; hostname nowhere.invalid",
        statuses: [[0, 0], [0, 0]],
    },
];

#[test]
fn hosts_that_lack_something_are_as_natively() -> Result<()> {
    if !are_possible("hosts that lack something")? {
        return Ok(());
    }
    for host in HOSTS {
        for (mpi, statuses) in [OPEN_MPI, MPICH].into_iter().zip(host.statuses) {
            for (by, status) in [By::Native, By::Launcher].into_iter().zip(statuses) {
                let what = || format!("{}: {}, {by:?}", host.name, mpi.name);
                on(&host, &mpi, by, status).with_context(what)?;
            }
        }
    }
    Ok(())
}

/// A job on such a host ends with this status; of one that goes well both ranks' output is there.
fn on(host: &Host, mpi: &Mpi, by: By, status: i32) -> Result<()> {
    let job = Job::new(2)?;
    let program = mpi.ring(&job)?;
    let script = format!("mount --make-rprivate / && {}\nexec \"$@\"", host.script);
    let run = mpi.run(&job, by, &[], &program, "well");
    let there = [
        "/usr/bin/unshare",
        "-m",
        "-n",
        "-u",
        "-i",
        "/bin/sh",
        "-ec",
        &script,
        "sh",
    ];
    let run = run.under(&there);
    let ended = ended_with(&job, job.start(run)?, status)?;
    let ranks = ended
        .stdout
        .text()
        .matches("token 2, sum 1, 0 wrong")
        .count();
    ensure!(
        ranks == if status == 0 { 2 } else { 0 } && said(&ended).is_empty(),
        "{}{}",
        ended.stdout.text(),
        ended.stderr.text()
    );
    Ok(())
}
