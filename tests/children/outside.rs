//! Children and their parents as the host's other processes see and treat them: debuggers, and who stops and continues them.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::process::{self, MARK};
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::Signal;

use super::natively_and_on_a_node;

/// A field of /proc/PID/status; none when there is no such process any more.
fn field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let found = lines.find(|(key, _)| *key == name)?;
    Some(found.1.to_owned())
}

/// Its state's letter; `Z` when it is gone.
fn state(pid: u32) -> char {
    let state = field(pid, "State").and_then(|state| state.chars().next());
    state.unwrap_or('Z')
}

/// A copy of a shell that says who it is and waits; and a program that it becomes.
const WAITS: &str = "mkfifo gate; (read self rest </proc/self/stat; echo $self >new; mv new child; read x <gate; exit $x); echo status $?";
const BECOMES: &str =
    "mkfifo gate; dash -c 'echo $$ >new; mv new child; read x <gate; exit $x'; echo status $?";

/// gdb looks at it, then strace follows it to its end.
fn traced(run: Run, script: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let run = run.args(&["/bin/dash", "-c", script]);
    let started = run.start(&scratch)?;
    let cwd = scratch.path().join("cwd");
    let mut pid = 0;
    let read = || {
        fs::read_to_string(cwd.join("child"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let said = process::wait_until(HANG, || {
        read().is_some_and(|found| {
            pid = found;
            true
        })
    });
    ensure!(said, "there is no child");
    let gdb = Command::new("/usr/bin/gdb")
        .args(["-nx", "-batch", "-p", &pid.to_string()])
        .args(["-ex", "printf \"%d at %d\\n\", $_inferior, $rip != 0"])
        .stdin(Stdio::null())
        .output()?;
    let seen = String::from_utf8_lossy(&gdb.stdout);
    ensure!(
        gdb.status.success() && seen.contains("1 at 1"),
        "gdb: {seen}{}",
        String::from_utf8_lossy(&gdb.stderr)
    );
    let trace = scratch.path().join("trace");
    let mut strace = Command::new("/usr/bin/strace")
        .arg("-q")
        .args(["-p", &pid.to_string()])
        .arg("-o")
        .arg(&trace)
        .spawn()?;
    let follows = process::wait_until(HANG, || {
        field(pid, "TracerPid").is_some_and(|tracer| tracer != "0")
    });
    ensure!(follows, "strace does not follow it");
    fs::write(cwd.join("gate"), "5\n")?;
    let ended = process::wait(&mut strace, HANG)?;
    ensure!(
        ended.is_some_and(|status| status.success()),
        "strace: {ended:?}"
    );
    let calls = fs::read_to_string(&trace)?;
    ensure!(
        calls.contains("exit_group(5)") && calls.contains("+++ exited with 5 +++"),
        "{calls}"
    );
    let outcome = started.finish(HANG)?;
    ensure!(
        outcome.stdout.text() == "status 5\n",
        "{}{}",
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    Ok(())
}

#[test]
fn debuggers_attach_to_them() -> Result<()> {
    for script in [WAITS, BECOMES] {
        for run in natively_and_on_a_node() {
            let of = format!("{run:?} {script}");
            traced(run, script).context(of)?;
        }
    }
    Ok(())
}

/// The process of a job that is a child of this one.
fn child_of(parent: u32, mark: &str) -> Option<u32> {
    let all = process::of_job(mark, parent).into_iter();
    let mut pids = all.map(|process| process.pid);
    let wanted = Some(parent.to_string());
    pids.find(|pid| {
        field(*pid, "PPid") == wanted && field(*pid, "Name").as_deref() == Some("forks")
    })
}

/// One parent, stopped again and again while it makes children.
fn stopped(run: Run, is_native: bool) -> Result<()> {
    let (scratch, mark) = (Scratch::new()?, clean::new_mark());
    let started = run.env(&[(MARK, mark.as_str())]).start(&scratch)?;
    let first = started.pid();
    let mut parent = Some(first).filter(|_| is_native);
    process::wait_until(HANG, || {
        parent = parent.or_else(|| child_of(first, &mark));
        parent.is_some()
    });
    let parent = parent.context("there is no proxy")?;
    let mut stops = 0;
    while state(parent) != 'Z' {
        process::signal(parent, Signal::STOP);
        let stopped = process::wait_until(HANG, || matches!(state(parent), 'T' | 'Z'));
        ensure!(stopped, "it does not stop");
        process::signal(parent, Signal::CONT);
        process::signal(first, Signal::CONT); // a yod stops when all of its ranks have
        stops += 1;
    }
    let ended = process::wait_until(HANG, || {
        process::signal(first, Signal::CONT);
        state(first) == 'Z'
    });
    let outcome = started.finish(HANG)?;
    ensure!(
        ended && stops > 1 && outcome.status == Some(0),
        "stopped {stops} times: status {:?}: {}{}",
        outcome.status,
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    Ok(())
}

/// A rank whose proxy was stopped in the middle of a fork goes on with it, as a process does.
#[test]
fn are_made_by_a_parent_that_is_stopped_now_and_then() -> Result<()> {
    const CHILDREN: &str = "400";
    let program = tree::program("glibc-static", "forks");
    let program = program.to_string_lossy();
    for way in ["many", "many_vforks"] {
        let runs = natively_and_on_a_node().into_iter().zip([true, false]);
        for (run, is_native) in runs {
            let run = run.args(&[&*program, way, CHILDREN]);
            let of = format!("{run:?}");
            stopped(run, is_native).context(of)?;
        }
    }
    Ok(())
}
