//! Jobs as batch systems start them: limits, command lines that differ, other users, labels, a launcher's own time limit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use margay_tests::run::{Outcome, Run, Started};
use margay_tests::scratch::write_program;
use margay_tests::tree;

use crate::job::Job;
use crate::mpi::{By, MPICH, OPEN_MPI};
use crate::rough::{ended_with, said};

/// Of each rank's yod there was a line of its own, or one that spoke of another's end; or all waited for one that had given up.
#[test]
fn limits_of_batch_systems_are_lived_with_or_named_once() -> Result<()> {
    const FINE: &[(&str, &str)] = &[
        ("-n", "256"),
        ("-l", "64"),
        ("-s", "unlimited"),
        ("-c", "0"),
    ];
    const BAD: &[(&str, &str)] = &[("-v", "4000000"), ("-f", "1000")];
    for mpi in [OPEN_MPI, MPICH] {
        let run = |limits: &[(&str, &str)], status| -> Result<Outcome> {
            let job = Job::new(2)?;
            let program = mpi.ring(&job)?;
            let run = mpi.run(&job, By::Launcher, &[], &program, "well");
            let set = |run: Run, (option, value): &(&str, &str)| run.ulimit(option, value);
            let run = limits.iter().fold(run, set);
            let ended = ended_with(&job, job.start(run)?, status);
            ended.with_context(|| format!("{}: {limits:?}", mpi.name))
        };
        let ended = run(FINE, 0)?;
        ensure!(said(&ended).is_empty(), "{}", ended.stderr.text());
        for limit in BAD {
            let said = said(&run(&[*limit], 71)?);
            let named = format!("ulimit {}", limit.0);
            ensure!(said.len() == 1 && said[0].contains(&named), "{said:?}");
        }
    }
    Ok(())
}

/// So many ranks of a program as a launcher's command line has them, by this yod with this option.
fn words(ranks: &str, yod: &Path, option: [&str; 2], program: &Path) -> Vec<String> {
    let (yod, machine, program) = (
        yod.to_string_lossy(),
        tree::machine(),
        program.to_string_lossy(),
    );
    let words = ["-n", ranks, &*yod, &machine, "--oversubscribe"];
    let words = words.into_iter().chain(option).chain([&*program]);
    words.map(str::to_owned).collect()
}

/// Launchers start several command lines as one job.
#[test]
fn yods_that_differ_are_refused_once() -> Result<()> {
    let copy = tree::target().join(format!("release/yod-{}-rough", std::process::id()));
    write_program(&copy, &fs::read(tree::yod())?, 0o755)?;
    let checked = yods_that_differ(&copy);
    fs::remove_file(&copy)?;
    checked
}

fn yods_that_differ(copy: &Path) -> Result<()> {
    let (yod, missing) = (tree::yod(), Path::new("/nonexistent/program"));
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(2)?;
        let ring = mpi.ring(&job)?;
        let plain = words("1", &yod, ["-m", "256M"], &ring);
        for (other, status, part) in [
            (
                words("1", &yod, ["-m", "128M"], &ring),
                2,
                ": all yods of a job need the same options",
            ),
            (
                words("1", copy, ["-m", "256M"], &ring),
                2,
                ": all yods of a job must be the same program",
            ),
            (
                words("1", &yod, ["-m", "256M"], missing),
                127,
                "/nonexistent/program: no such file",
            ),
        ] {
            let run = Run::new([mpi.launcher])
                .args(&plain)
                .args(&[":"])
                .args(&other);
            let run = job.place(run.env(mpi.variables), []);
            let said = said(&ended_with(&job, job.start(run)?, status)?);
            ensure!(
                said.len() == 1 && said[0].contains(part),
                "{}: {said:?}",
                mpi.name
            );
        }
    }
    Ok(())
}

/// Their sockets, nodes and segments are apart.
#[test]
fn jobs_of_two_users_do_not_meet() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    for mpi in [OPEN_MPI, MPICH] {
        let jobs = [Job::new(2)?, Job::new(2)?];
        let start = |job| -> Result<Started<'_>> {
            let program = mpi.ring(job)?;
            // For the user "nobody", too.
            for path in [job.temporary(), job.directory()] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
            }
            let run = mpi.run(job, By::Launcher, &[], &program, "well");
            job.start(if std::ptr::eq(job, &jobs[0]) {
                run
            } else {
                run.as_nobody()
            })
        };
        let started = [start(&jobs[0])?, start(&jobs[1])?];
        for (job, started) in jobs.iter().zip(started) {
            let ended = ended_with(job, started, 0).context(mpi.name)?;
            let ranks = ended.stdout.text().matches("0 wrong").count();
            ensure!(ranks == 2, "{}: {}", mpi.name, ended.stdout.text());
        }
    }
    Ok(())
}

/// yod's own numbers stand beside those of the launcher.
#[test]
fn labels_of_launchers_and_of_yod_agree() -> Result<()> {
    for (mpi, option, before) in [
        (
            OPEN_MPI,
            "--tag-output",
            "[1,RANK]<stdout>:[RANK] rank RANK of 2",
        ),
        (MPICH, "-l", "[RANK] [RANK] rank RANK of 2"),
    ] {
        let job = Job::new(2)?;
        let program = mpi.ring(&job)?;
        let run = Run::new([mpi.launcher, option]).args(&words(
            "2",
            &tree::yod(),
            ["-m256M", "--label"],
            &program,
        ));
        let run = job.place(run.env(mpi.variables), []);
        let ended = ended_with(&job, job.start(run)?, 0)?;
        let said = ended.stdout.text();
        for rank in ["0", "1"] {
            let wanted = before.replace("RANK", rank);
            ensure!(
                said.lines().any(|line| line.starts_with(&wanted)),
                "no {wanted:?}: {said}"
            );
        }
    }
    Ok(())
}

/// The launcher's time is over: it ends its job, with its own status.
#[test]
fn time_limits_of_launchers_end_jobs_as_natively() -> Result<()> {
    for (mpi, status) in [(OPEN_MPI, 110), (MPICH, 255)] {
        for by in [By::Native, By::Launcher] {
            let job = Job::new(2)?;
            let program = mpi.ring(&job)?;
            let run = mpi.run(&job, by, &[], &program, "spin");
            let run = run.env(&[("MPIEXEC_TIMEOUT", "6")]);
            let ended = ended_with(&job, job.start(run)?, status)?;
            ensure!(said(&ended).is_empty(), "{}", ended.stderr.text());
        }
    }
    Ok(())
}
