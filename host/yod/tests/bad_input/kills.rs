//! A process of a job is killed while its node boots.

use crate::common::{Ended, assert_gone, descendants, dir, finish, signal, wait_for};
use crate::{HANGS, program, with_qemu};
use rustix::process::Signal;

/// Kills one of the processes of a job whose node hangs; nothing may be left.
fn kill_one(test: &str, ranks: &str, who: &str, with: Signal) -> Ended {
    let dir = dir(test);
    let program = program(&dir);
    let child = with_qemu(&dir, HANGS)
        .args(["-n", ranks])
        .arg(&program)
        .env("MARGAY_OVERSUBSCRIBE", "1")
        .spawn();
    let child = child.expect("yod starts");
    let pid = child.id() as i32;
    let job = wait_for("a job", || {
        let job = descendants(pid);
        let there = |name: &str| job.iter().any(|p| p.name == name);
        (there("sleep") && there("margay-keeper") && there("program")).then_some(job)
    });
    let victim = if who == "yod" {
        pid
    } else {
        job.iter().find(|p| p.name == who).expect("there").pid
    };
    signal(victim, with);
    let ended = finish(child);
    assert_gone(&job);
    ended
}

#[test]
fn a_killed_keeper() {
    kill_one("kill-keeper", "1", "margay-keeper", Signal::KILL)
        .one_line(137, "the node keeper was killed by signal 9");
}

#[test]
fn a_killed_qemu() {
    kill_one("kill-qemu", "2", "sleep", Signal::KILL)
        .one_line(69, "the node (QEMU) was killed by signal 9 (SIGKILL)");
}

#[test]
fn a_killed_proxy() {
    let ended = kill_one("kill-proxy", "2", "program", Signal::KILL);
    ended.one_line(137, "was killed by signal 9 (SIGKILL); ended rank");
    let ended = kill_one("kill-only-proxy", "1", "program", Signal::KILL);
    assert_eq!((ended.status, ended.err.as_str()), (137, ""));
}

#[test]
fn a_killed_yod() {
    assert_eq!(kill_one("kill-yod", "2", "yod", Signal::KILL).status, 137);
}

#[test]
fn a_yod_that_a_signal_ends_while_booting() {
    kill_one("term-yod", "2", "yod", Signal::TERM).one_line(143, "ended by signal 15 (SIGTERM)");
}
