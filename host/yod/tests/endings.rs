//! Jobs that have to end although a process of theirs is stopped or gone. Skipped where no kernel is built.

mod common;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use common::job::{member, program, runs, small_yod, spawn, start, start_limited};
use common::{
    assert_gone, comm, descendants, finish, has_state, is_idle, is_stopped, run, signal, terminal,
    ticks, wait_for, yod, yod_path,
};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use wire::rank::state;

/// A rank that stopped itself stopped yod as well, and neither its time limit nor SIGTERM reached it any more.
#[test]
fn a_rank_that_stops_itself_meets_the_time_limit() {
    let Some((program, mut yod)) = program("stops-itself") else {
        return;
    };
    for ranks in ["1", "2"] {
        let ended = run(yod
            .args(["-n", ranks, "--timeout", "2"])
            .arg(&program)
            .arg("s"));
        assert_eq!(ended.status, 124, "{ended:?}");
        yod = small_yod();
    }
}

/// Starts a job of so many ranks in a process group of its own, which a rank stops.
fn spawn_group(yod: &mut Command, program: &Path, ranks: &str) -> Child {
    yod.process_group(0).args(["-n", ranks]);
    yod.arg(program).arg("g").spawn().expect("yod starts")
}

/// Whether a signal has stopped yod.
fn stopped(yod: &Child) -> bool {
    is_stopped(yod.id() as i32)
}

/// A rank that stopped its process group stopped yod with it, of which its keeper was not notified: neither its time limit nor
/// SIGTERM had an effect.
#[test]
fn a_rank_that_stops_its_group_meets_the_time_limit() {
    let Some((program, _)) = program("stops-group") else {
        return;
    };
    for ranks in ["1", "2"] {
        let child = spawn_group(&mut small_yod(), &program, ranks);
        wait_for("a stopped yod", || stopped(&child).then_some(()));
        let job = descendants(child.id() as i32);
        signal(child.id() as i32, Signal::TERM);
        assert_eq!(finish(child).status, 143, "-n {ranks}");
        assert_gone(&job);
        let child = start_limited(|yod| spawn_group(yod, &program, ranks), stopped);
        let job = descendants(child.id() as i32);
        assert_eq!(finish(child).status, 124, "-n {ranks}");
        assert_gone(&job);
    }
}

/// A rank that is to end is continued, whatever has stopped it meanwhile.
#[test]
fn a_rank_that_answers_by_stopping_its_group_ends() {
    let Some((program, mut yod)) = program("answers") else {
        return;
    };
    let child = start(&program, yod.process_group(0), "tw");
    signal(child.id() as i32, Signal::TERM);
    assert_eq!(finish(child).status, 7);
}

/// A signal that came when a rank had printed, and yod did not know yet that the node was up, ended the job as if no rank ran.
#[test]
fn a_rank_takes_a_signal_before_its_yod_knows_of_the_node() {
    let Some((program, mut yod)) = program("early") else {
        return;
    };
    let child = spawn(&program, yod.process_group(0), "tw");
    let pid = child.id() as i32;
    wait_for("a proxy", || {
        let job = descendants(pid);
        job.iter().find(|it| it.name == "program").map(|_| ())
    });
    signal(pid, Signal::STOP);
    wait_for("a running rank", || runs(&program).then_some(()));
    signal(pid, Signal::TERM);
    signal(pid, Signal::CONT);
    assert_eq!(finish(child).status, 7);
}

/// yod continued the ranks that it had seen stopped, before it looked which are.
#[test]
fn a_stopped_group_is_continued_with_its_yod() {
    let Some((program, mut yod)) = program("continues-group") else {
        return;
    };
    let child = spawn_group(&mut yod, &program, "1");
    wait_for("a stopped yod", || stopped(&child).then_some(()));
    let rank = member(&descendants(child.id() as i32), "program");
    // Its parent is notified when the last of its threads has stopped.
    wait_for("a stopped rank", || {
        let threads = std::fs::read_dir(format!("/proc/{rank}/task")).expect("a rank");
        let mut threads = threads
            .flatten()
            .filter_map(|it| it.file_name().into_string().ok());
        threads
            .all(|it| is_stopped(it.parse().expect("a number")))
            .then_some(())
    });
    signal(child.id() as i32, Signal::CONT);
    assert_eq!(finish(child).status, 0);
}

/// A yod that another process stopped stays so, whatever becomes of its ranks, until that continues it or its time is over.
#[test]
fn a_yod_that_somebody_stops_stays_stopped() {
    let Some((program, _)) = program("somebody") else {
        return;
    };
    for (end, status) in [
        (Some(Signal::HUP), 129),
        (Some(Signal::CONT), 143),
        (None, 124),
    ] {
        let child = match end {
            Some(_) => start(&program, yod().args(["-m", "64M"]), "w"),
            None => start_limited(|yod| spawn(&program, yod, "w"), |_| runs(&program)),
        };
        let pid = child.id() as i32;
        let job = descendants(pid);
        let rank = job.iter().position(|process| process.name == "program");
        let rank = &job[rank.expect("a rank")];
        signal(pid, Signal::STOP);
        wait_for("a stopped yod", || is_stopped(pid).then_some(()));
        if end != Some(Signal::HUP) {
            signal(rank.pid, Signal::TERM);
            assert_gone(std::slice::from_ref(rank));
        }
        if let Some(end) = end {
            signal(pid, end);
        }
        assert_eq!(finish(child).status, status, "{end:?}");
        assert_gone(&job);
    }
}

/// A yod that inherited SIGCHLD as ignored was never notified of its rank's end and could not wait for it: it hung, and SIGTERM
/// did not end it.
#[test]
fn a_job_ends_where_the_ends_of_children_are_ignored() {
    let Some((program, _)) = program("ignored") else {
        return;
    };
    let mut yod = Command::new("env");
    yod.args(["--ignore-signal=CHLD", yod_path()])
        .args(["-m", "64M"])
        .arg(&program)
        .stdout(std::process::Stdio::piped());
    let child = yod.spawn().expect("yod starts");
    let ended = finish(child);
    assert_eq!((ended.status, ended.out.as_str()), (0, "ready\n"));
}

/// Neither did SIGTERM.
#[test]
fn a_stopped_job_is_ended_by_sigterm() {
    let Some((program, mut yod)) = program("stopped-term") else {
        return;
    };
    let child = start(&program, &mut yod, "s");
    let pid = child.id() as i32;
    wait_for("a stopped yod", || is_stopped(pid).then_some(()));
    let job = descendants(pid);
    signal(pid, Signal::TERM);
    assert_eq!(finish(child).status, 143);
    assert_gone(&job);
}

/// A job that was stopped and has to stay so: its keeper must not continue it without a reason.
#[test]
fn a_stopped_job_stays_stopped_until_it_is_continued() {
    let Some((program, mut yod)) = program("stays") else {
        return;
    };
    let child = start(&program, yod.args(["--timeout", "60"]), "s");
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    let status = waitpid(Some(pid), WaitOptions::UNTRACED).expect("a child");
    assert!(status.is_some_and(|(_, status)| status.stopped()));
    // A signal that ends nothing is no reason; that nothing comes of it takes time to see.
    signal(child.id() as i32, Signal::USR1);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_stopped(child.id() as i32));
    signal(child.id() as i32, Signal::CONT);
    assert_eq!(finish(child).status, 138, "SIGUSR1");
}

/// Nothing notified a stopped yod that its rank was killed, or that its node was gone.
#[test]
fn a_stopped_job_notices_its_end() {
    let Some((program, _)) = program("stopped-end") else {
        return;
    };
    for victim in ["program", "qemu"] {
        let mut yod = yod();
        let child = start(&program, yod.args(["-m", "64M"]), "s");
        let pid = child.id() as i32;
        wait_for("a stopped yod", || is_stopped(pid).then_some(()));
        let job = descendants(pid);
        signal(member(&job, victim), Signal::KILL);
        assert_eq!(finish(child).status, 137, "{victim}");
        assert_gone(&job);
    }
}

/// A keeper that was stopped stayed when its yod was killed.
#[test]
fn a_stopped_keeper_ends_with_its_yod() {
    let Some((program, mut yod)) = program("keeper-stays") else {
        return;
    };
    let child = start(&program, &mut yod, "w");
    let job = descendants(child.id() as i32);
    signal(member(&job, "margay-keeper"), Signal::STOP);
    signal(child.id() as i32, Signal::KILL);
    assert_eq!(finish(child).status, 137);
    assert_gone(&job);
}

/// Linux reports only to the leader of a session that its terminal is gone: the ranks went on without one.
#[test]
fn closing_the_terminal_ends_a_job_that_leads_the_session() {
    let Some((program, _)) = program("hang-up") else {
        return;
    };
    for (ranks, what) in [("1", "w"), ("2", "c"), ("1", "s")] {
        let (master, other) = terminal();
        // The caller of the tests may ignore SIGHUP (nohup), which a program inherits.
        let mut command = Command::new("env");
        command
            .args([
                "--default-signal=HUP",
                "setsid",
                "--ctty",
                yod_path(),
                "-m",
                "64M",
                "-n",
                ranks,
            ])
            .arg(&program)
            .arg(what)
            .env("MARGAY_OVERSUBSCRIBE", "1")
            .env("XDG_RUNTIME_DIR", program.parent().expect("a directory"))
            .stdin(other.try_clone().expect("a descriptor"))
            .stdout(other.try_clone().expect("a descriptor"))
            .stderr(other);
        let child = command.spawn().expect("setsid runs");
        // Its own ends of the terminal would keep it open.
        drop(command);
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text).contains("ready") {
            let mut bytes = [0; 100];
            let read = rustix::io::read(&master, &mut bytes[..]).expect("output");
            text.extend(&bytes[..read]);
        }
        let job = descendants(child.id() as i32);
        drop(master);
        let status = finish(child).status;
        // With several ranks the hung-up terminal may be noticed by a write first.
        assert!(status == 129 || ranks == "2" && status == 71, "{status}");
        assert_gone(&job);
    }
}

/// yod waited for a stopped keeper for ever; QEMU, stopped, took no signals. Nor do yod and the rank spin meanwhile.
#[test]
fn a_job_ends_with_a_part_of_it_stopped() {
    let Some((program, _)) = program("keeper") else {
        return;
    };
    for victim in ["margay-keeper", "qemu", "program"] {
        for (by_time, status) in [(false, 143), (true, 124)] {
            let child = if by_time {
                start_limited(|yod| spawn(&program, yod, "w"), |_| runs(&program))
            } else {
                start(&program, yod().args(["-m", "64M"]), "w")
            };
            let pid = child.id() as i32;
            let job = descendants(pid);
            let mut spent = [pid, member(&job, "program")].map(|pid| (pid, [ticks(pid); 2]));
            signal(member(&job, victim), Signal::STOP);
            if !by_time {
                signal(pid, Signal::TERM);
            }
            wait_for(&format!("the end, {victim} stopped, {by_time}"), || {
                for (pid, [_, now]) in &mut spent {
                    *now = ticks(*pid).or(*now);
                }
                has_state(pid, 'Z').then_some(())
            });
            let ended = finish(child);
            assert_eq!(ended.status, status, "{victim}: {ended:?}");
            assert_gone(&job);
            for (_, [before, after]) in spent {
                let spent = after.zip(before).map(|(after, before)| after - before);
                assert!(spent.is_some_and(|ticks| ticks < 50), "{victim}: {spent:?}");
            }
        }
    }
}

/// yod waited for a keeper that was stopped before it handed over the node, and served nothing meanwhile.
#[test]
fn a_keeper_that_is_stopped_while_booting_is_given_up() {
    let Some((program, mut yod)) = program("keeper-boots") else {
        return;
    };
    let child = yod.arg(&program).arg("w").spawn().expect("yod starts");
    let pid = child.id() as i32;
    let keeper = wait_for("a keeper", || descendants(pid).first().map(|p| p.pid));
    signal(keeper, Signal::STOP);
    let job = descendants(pid);
    signal(pid, Signal::TERM);
    assert_eq!(finish(child).status, 143);
    assert_gone(&job);
}

/// The node was lost between a rank's last word and the doorbell after it: the proxy was never notified, and yod waited for it.
#[test]
fn a_rank_that_ended_with_its_node_is_reported() {
    let Some((program, mut yod)) = program("last-word") else {
        return;
    };
    for victim in ["qemu", "margay-keeper"] {
        let child = start(&program, &mut yod, "w");
        let job = descendants(child.id() as i32);
        let qemu = member(&job, "qemu");
        signal(qemu, Signal::STOP);
        wait_for("a node that stands still", || {
            is_stopped(qemu).then_some(())
        });
        let proxy = member(&job, "program");
        wait_for("a proxy that waits", || is_idle(proxy).then_some(()));
        comm::set_rank_state(qemu, 0, state::EXITED).expect("a node");
        signal(member(&job, victim), Signal::KILL);
        assert_eq!(finish(child).status, 0, "{victim}");
        assert_gone(&job);
        yod = small_yod();
    }
}
