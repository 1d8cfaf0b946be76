//! What can go wrong with yods that a launcher has started: one clear line, true statuses, nothing left.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::write_program;
use margay_tests::tree;
use rustix::process::Signal;

use crate::job::{Job, one_line, parent, statuses, wait_for};

const HELLO: (&str, &str) = ("glibc-static", "hello");
const ENDLESS: (&str, &str) = ("glibc-static", "endless");

fn ended_with(ended: &[Outcome], wanted: &[i32], part: &str) -> Result<()> {
    let wanted: Vec<_> = wanted.iter().copied().map(Some).collect();
    let all: Vec<String> = ended.iter().map(|one| one.stderr.text()).collect();
    ensure!(statuses(ended) == wanted, "{:?}: {all:?}", statuses(ended));
    one_line(ended, part)
}

/// Two ranks that never end.
fn endless(job: &Job) -> Result<Vec<Started<'_>>> {
    let yods = (0..2).map(|rank| job.start_endless(rank, "spin"));
    let yods = yods.collect::<Result<_>>()?;
    job.wait_for_endless()?;
    Ok(yods)
}

/// Whichever yod or proxy is killed, the other rank does not wait for ever.
#[test]
fn a_rank_that_is_lost_ends_the_job() -> Result<()> {
    for rank in 0..2 {
        for kill_yod in [true, false] {
            let job = Job::new(2)?;
            let yods = endless(&job)?;
            let yod = yods[rank].pid();
            let victim = if kill_yod { yod } else { job.proxy(yod)? };
            ensure!(process::kill(victim));
            let ended = job.finish(yods)?;
            let line = format!("the yod or the proxy of rank {rank} is gone");
            ended_with(&ended, &[137, 137], &line)?;
        }
    }
    Ok(())
}

#[test]
fn all_yods_killed_at_once_leave_nothing() -> Result<()> {
    let job = Job::new(2)?;
    let yods = endless(&job)?;
    for yod in &yods {
        ensure!(process::kill(yod.pid()));
    }
    let ended = job.finish(yods)?;
    ensure!(statuses(&ended) == [Some(137); 2], "{:?}", statuses(&ended));
    Ok(())
}

/// QEMU's death is reported by one yod. How the keeper ended only its parent can find out.
#[test]
fn the_end_of_the_node_is_reported() -> Result<()> {
    let job = Job::new(2)?;
    let yods = endless(&job)?;
    ensure!(process::kill(job.process(Role::Qemu)?));
    ended_with(
        &job.finish(yods)?,
        &[137, 137],
        "the node (QEMU) was killed by signal 9",
    )?;
    let job = Job::new(2)?;
    let yods = endless(&job)?;
    ensure!(process::kill(job.process(Role::Keeper)?));
    let ended = job.finish(yods)?;
    let mut seen = statuses(&ended);
    seen.sort_unstable();
    ensure!(seen == [Some(70), Some(137)], "{seen:?}");
    for one in &ended {
        one_line(std::slice::from_ref(one), "the node keeper ")?;
    }
    Ok(())
}

/// Launchers end a job when one of its yods ends, and drop what the others still write: so none leaves before one has reported.
#[test]
fn yods_stay_until_one_has_reported_the_nodes_end() -> Result<()> {
    let job = Job::new(2)?;
    let yods = endless(&job)?;
    let telling = parent(job.process(Role::Keeper)?);
    let others = || yods.iter().filter(|yod| Some(yod.pid()) != telling);
    let telling = telling.context("the keeper has no parent")?;
    ensure!(others().count() == 1);
    // A debugger holds it: one that a signal has stopped is continued when the node ends.
    let mut debugger = Command::new("gdb")
        .args(["-nx", "-quiet", "-p", &telling.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("gdb")?;
    let status = format!("/proc/{telling}/status");
    let is_held = || fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tt"));
    ensure!(process::wait_until(HANG, is_held), "gdb does not hold it");
    ensure!(process::kill(job.process(Role::Qemu)?));
    let has_ended = |pid| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    };
    let left = process::wait_until(Duration::from_secs(1), || {
        others().any(|yod| has_ended(yod.pid()))
    });
    // At the end of its commands it lets go.
    drop(debugger.stdin.take());
    debugger.wait()?;
    ended_with(
        &job.finish(yods)?,
        &[137, 137],
        "the node (QEMU) was killed by signal 9",
    )?;
    ensure!(!left, "the other yod has not waited");
    Ok(())
}

/// Batch systems send what they have for a job to all its processes. Keeper and QEMU died of it before the ranks, or with them, and
/// yods spoke of a node that had been killed.
#[test]
fn signals_for_every_process_are_the_ranks() -> Result<()> {
    const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    let job = Job::new(2)?;
    let yods = endless(&job)?;
    for role in [Role::Keeper, Role::Qemu] {
        let pid = job.process(role)?;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let status = fs::read_to_string(thread.path().join("status"))?;
            let set = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            };
            let deaf = set("SigBlk:").unwrap_or(0) | set("SigIgn:").unwrap_or(0);
            let deaf_to = |signal: Signal| deaf >> (signal.as_raw() - 1) & 1 != 0;
            ensure!(ENDING.into_iter().all(deaf_to), "{role:?}: {deaf:x}");
        }
        for signal in ENDING.into_iter().chain([Signal::USR1, Signal::USR2]) {
            ensure!(process::signal(pid, signal));
        }
    }
    for yod in &yods {
        process::signal(yod.pid(), Signal::TERM);
    }
    let ended = job.finish(yods)?;
    let said: String = ended.iter().map(|one| one.stderr.text()).collect();
    ensure!(
        statuses(&ended) == [Some(143); 2] && said.is_empty(),
        "{:?}: {said}",
        statuses(&ended)
    );
    Ok(())
}

/// What a rank's own end means for the others is the launcher's decision.
#[test]
fn ends_of_ranks_are_their_yods() -> Result<()> {
    let job = Job::new(2)?;
    let other = job.start(job.yod(0, &[], ENDLESS, &["spin"]))?;
    let failing = job.start(job.yod(1, &[], ("glibc-static", "exit_code"), &["exit", "7"]))?;
    let failed = failing.finish(HANG)?;
    ensure!(failed.status == Some(7), "{:?}", failed.status);
    ensure!(job.proxy(other.pid()).is_ok(), "it goes on");
    process::signal(other.pid(), Signal::TERM);
    let ended = job.finish(vec![other])?;
    ensure!(statuses(&ended) == [Some(143)], "{:?}", statuses(&ended));
    Ok(())
}

#[test]
fn yods_that_differ_are_named_with_the_difference() -> Result<()> {
    for (option, less, more) in [("-d", "1", "2"), ("--shared-memory", "16M", "32M")] {
        let job = Job::new(2)?;
        let less = job.start(job.yod(0, &[option, less], HELLO, &[]))?;
        let more = job.start(job.yod(1, &[option, more], HELLO, &[]))?;
        let ended = job.finish(vec![less, more])?;
        ended_with(&ended, &[2, 2], ": all yods of a job need the same options")?;
    }

    let job = Job::new(2)?;
    let copy = tree::target()
        .join("release")
        .join(format!("yod-{}", std::process::id()));
    write_program(&copy, &fs::read(tree::yod())?, 0o755)?;
    let program = tree::program(HELLO.0, HELLO.1);
    let variables = [
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1".into()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2".into()),
        ("PMIX_NAMESPACE", job.mark().into()),
    ];
    let other = Run::new([copy.to_string_lossy()]).args(&["-m", "32M", &tree::machine()]);
    let other = other.args(&[program.to_string_lossy()]);
    let yods = vec![
        job.start(job.yod(0, &[], HELLO, &[]))?,
        job.start(job.place(other, variables))?,
    ];
    let ended = job.finish(yods);
    fs::remove_file(&copy)?;
    ended_with(
        &ended?,
        &[2, 2],
        ": all yods of a job must be the same program",
    )
}

#[test]
fn more_ranks_than_cores_are_refused_once() -> Result<()> {
    let job = Job::new(2)?;
    let yods = (0..2).map(|rank| job.start(job.yod(rank, &[], HELLO, &[]).on_core(0)));
    let ended = job.finish(yods.collect::<Result<_>>()?)?;
    ended_with(&ended, &[2, 2], "-n 2: only 1 cores are available here")
}

#[test]
fn a_rank_that_does_not_come_is_named() -> Result<()> {
    let job = Job::new(3)?;
    let yods = [0, 2].map(|rank| {
        let run = job.yod(rank, &[], HELLO, &[]);
        job.start(run.env(&[("MARGAY_BOOT_TIMEOUT_S", "2")]))
    });
    let ended = job.finish(yods.into_iter().collect::<Result<_>>()?)?;
    ended_with(&ended, &[69, 69], "no yod came for rank 1 within 2 s")
}

/// The first waits for the others no longer than it may.
#[test]
fn waiting_ends_by_signals_and_time_limits() -> Result<()> {
    let job = Job::new(2)?;
    let yod = job.start(job.yod(0, &["--timeout", "1"], HELLO, &[]))?;
    ended_with(&job.finish(vec![yod])?, &[124], "timed out after 1 s")?;
    let yod = job.start(job.yod(0, &[], HELLO, &[]))?;
    wait_for("a meeting", || {
        fs::read_dir(job.temporary()).is_ok_and(|dir| dir.count() > 0)
    })?;
    let since = Instant::now();
    process::signal(yod.pid(), Signal::TERM);
    ended_with(
        &job.finish(vec![yod])?,
        &[143],
        "ended by signal 15 (SIGTERM)",
    )?;
    ensure!(since.elapsed() < Duration::from_secs(10));
    Ok(())
}

/// The first is killed while it waits: the next one that comes clears up.
#[test]
fn the_first_is_killed_while_it_waits() -> Result<()> {
    let job = Job::new(3)?;
    let first = job.start(job.yod(0, &[], HELLO, &[]))?;
    wait_for("a meeting", || {
        fs::read_dir(job.temporary()).is_ok_and(|dir| dir.count() > 0)
    })?;
    let second = job.start(job.yod(1, &[], HELLO, &[]))?;
    ensure!(process::kill(first.pid()));
    let ended = [first.finish(HANG)?];
    ensure!(statuses(&ended) == [Some(137)]);
    // It had come before, or comes after and finds a socket without a listener.
    let third = job.start(
        job.yod(0, &[], HELLO, &[])
            .env(&[("MARGAY_BOOT_TIMEOUT_S", "2")]),
    )?;
    let ended = job.finish(vec![second, third])?;
    let failed = |one: &Outcome| one.status == Some(69);
    ensure!(ended.iter().all(failed), "{:?}", statuses(&ended));
    Ok(())
}

/// A program that a rank starts has the launcher's variables, too.
#[test]
fn a_second_yod_for_a_rank_is_refused() -> Result<()> {
    let job = Job::new(3)?;
    let first = job.start(job.yod(0, &[], HELLO, &[]))?;
    wait_for("a meeting", || {
        fs::read_dir(job.temporary()).is_ok_and(|dir| dir.count() > 0)
    })?;
    let second = job.start(job.yod(0, &[], HELLO, &[]))?.finish(HANG)?;
    ended_with(&[second], &[2], "rank 0 of this job is another yod")?;
    process::signal(first.pid(), Signal::TERM);
    ended_with(&job.finish(vec![first])?, &[143], "ended by signal 15")
}

#[test]
fn launchers_and_options_that_contradict() -> Result<()> {
    let job = Job::new(2)?;
    let yod = job.start(job.yod(0, &["-n", "2"], HELLO, &[]))?;
    let part = "-n 2: mpirun has started this yod for one rank of 2, leave -n out";
    ended_with(&job.finish(vec![yod])?, &[2], part)?;
    let yod = job.start(job.yod(5, &[], HELLO, &[]))?;
    ended_with(&job.finish(vec![yod])?, &[2], "rank 5 of 2")?;
    let yods = vec![
        job.start(job.yod(0, &[], ENDLESS, &["spin"]))?,
        job.start(job.yod(1, &[], ("glibc-static", "no-such-program"), &[]))?,
    ];
    ended_with(
        &job.finish(yods)?,
        &[127, 127],
        "no-such-program: no such file",
    )
}
