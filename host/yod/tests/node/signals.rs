//! Signals from outside: to the job's process group, to yod, and to what it has started.

use std::os::unix::process::CommandExt;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::common::{assert_gone, descendants, dir, finish, signal, wait_for, yod};
use super::program;

/// A job in a process group of its own, as a shell starts it, once its ranks run.
fn job(program: &std::path::Path, args: &[&str], what: &str) -> (Child, Pid) {
    let mut yod = yod();
    let out = dir(&format!(
        "job-{}-{what}",
        program
            .parent()
            .and_then(|p| p.file_name())
            .map_or("", |n| n.to_str().unwrap_or(""))
    ));
    let out = out.join("out");
    let file = std::fs::File::create(&out).expect("a file");
    yod.args(args)
        .arg(program)
        .arg(what)
        .env("MARGAY_OVERSUBSCRIBE", "1")
        .stdout(file)
        .process_group(0);
    let child = yod.spawn().expect("yod starts");
    wait_for("a running rank", || {
        std::fs::metadata(&out)
            .is_ok_and(|meta| meta.len() > 0)
            .then_some(())
    });
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    (child, pid)
}

#[test]
fn the_interrupt_key_ends_the_ranks() {
    let Some((program, _)) = program("interrupt") else {
        return;
    };
    for what in ["spin", "sleep"] {
        let (child, group) = job(&program, &["-n", "2"], what);
        let family = descendants(child.id() as i32);
        kill_process_group(group, Signal::INT).expect("sent");
        let ended = finish(child);
        assert_eq!(ended.status, 130, "{what}: {ended:?}");
        assert_gone(&family);
    }
}

#[test]
fn a_signal_to_yod_reaches_the_rank() {
    let Some((program, _)) = program("term") else {
        return;
    };
    let (child, _) = job(&program, &[], "sleep");
    signal(child.id() as i32, Signal::TERM);
    assert_eq!(finish(child).status, 143);
}

#[test]
fn the_job_stops_and_goes_on() {
    let Some((program, _)) = program("stop") else {
        return;
    };
    let (child, group) = job(&program, &["-n", "2"], "spin");
    for _ in 0..2 {
        kill_process_group(group, Signal::TSTP).expect("sent");
        let stopped = wait_for("a stopped yod", || {
            let status =
                waitpid(Some(group), WaitOptions::UNTRACED | WaitOptions::NOHANG).expect("a child");
            status.map(|(_, status)| status.stopped())
        });
        assert!(stopped);
        kill_process_group(group, Signal::CONT).expect("sent");
        let continued = wait_for("a yod that goes on", || {
            let options = WaitOptions::CONTINUED | WaitOptions::NOHANG;
            let status = waitpid(Some(group), options).expect("a child");
            status.map(|(_, status)| status.continued())
        });
        assert!(continued);
    }
    kill_process_group(group, Signal::TERM).expect("sent");
    assert_eq!(finish(child).status, 143);
}

/// Batch systems send these to every process of a job, for its ranks: QEMU ended, and the job was said to have lost its node.
#[test]
fn a_machine_ignores_signals_for_the_ranks() {
    let Some((program, _)) = program("machine-signals") else {
        return;
    };
    for with in [Signal::HUP, Signal::INT, Signal::TERM] {
        let child = yod().args(["-m", "64M"]).arg(&program).arg("sleep").spawn();
        let child = child.expect("yod starts");
        let qemu = wait_for("QEMU", || {
            let job = descendants(child.id() as i32);
            job.iter()
                .find(|p| p.name.starts_with("qemu"))
                .map(|p| p.pid)
        });
        signal(qemu, with);
        signal(child.id() as i32, Signal::TERM);
        let ended = finish(child);
        assert_eq!(ended.status, 143, "{with:?}: {ended:?}");
        assert!(!ended.err.contains("QEMU"), "{with:?}: {ended:?}");
    }
}
