//! A rank that runs is looked into, by `yod --stack` and `yod --attach`, and goes on as if it had not been.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::process::wait_until;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use margay_tests::trial::trial;

use crate::host::build;
use crate::waiting::has;

pub fn all() -> Vec<Trial> {
    let case = |name: &str, test: fn() -> Result<()>| trial(format!("late: {name}"), test);
    vec![
        case("stacks", stacks),
        case("attached", attached),
        case("forbidden", forbidden),
        case("by a rank", by_a_rank),
        case("no rank", no_rank),
    ]
}

/// A rank that runs, until it has read from a pipe.
struct Running {
    scratch: Scratch,
    program: String,
}

impl Running {
    fn new() -> Result<Running> {
        let scratch = Scratch::new()?;
        let program = build(&scratch, "looked_into", &[])?;
        let running = Running { scratch, program };
        let made = Command::new("mkfifo").arg(running.pipe()).status()?;
        ensure!(made.success(), "no pipe");
        Ok(running)
    }

    fn pipe(&self) -> PathBuf {
        self.scratch.path().join("pipe")
    }

    fn start(&self, args: &[&str]) -> Result<Started<'_>> {
        let options = ["-m", "64M", "-d", "2", "--oversubscribe", "--"];
        let run = Run::yod(&options).args(&[&self.program]);
        let run = run.args(&[self.pipe().to_string_lossy()]).args(args);
        let started = run.output_to("out").start(&self.scratch)?;
        let out = self.scratch.path().join("cwd/out");
        let is_up = || fs::read_to_string(&out).is_ok_and(|text| text == "up\n");
        ensure!(wait_until(HANG, is_up), "it has not begun");
        Ok(started)
    }

    fn end(&self, started: Started<'_>) -> Result<()> {
        fs::File::options()
            .write(true)
            .open(self.pipe())?
            .write_all(b"b")?;
        let ended = started.finish(HANG)?;
        let said = ended.stderr.text();
        ensure!(
            ended.status == Some(3) && said.is_empty(),
            "{:?}: {said}",
            ended.status
        );
        Ok(())
    }
}

fn stack_of(pid: u32) -> Result<Outcome> {
    clean::run(Run::bare_yod(&["--stack", &pid.to_string()]))
}

/// Every thread with its call and its functions, again and again, of a node that was not started for gdb.
fn stacks() -> Result<()> {
    let running = Running::new()?;
    let started = running.start(&[])?;
    for _ in 0..5 {
        let shown = stack_of(started.pid())?;
        ensure!(
            shown.status == Some(0),
            "{:?}: {}",
            shown.status,
            shown.stderr.text()
        );
        has(
            &shown.stdout.text(),
            &[
                "process ",
                " (looked_into)\n",
                ", in no system call\n",
                "computes () at ",
                "main (argc=",
                ", in openat\n",
                "reads (path=",
                ", in futex\n",
                "waits (unused=",
            ],
        )?;
    }
    running.end(started)
}

/// gdb reads and writes variables, stops the rank again and leaves; then another may come.
fn attached() -> Result<()> {
    let running = Running::new()?;
    let started = running.start(&[])?;
    for turn in 1..3 {
        let commands = running.scratch.path().join("commands");
        fs::write(
            &commands,
            "info threads\nprint turns > 1000\nset var turns = 0\nprint turns\ndetach\nquit\n",
        )?;
        let pid = started.pid().to_string();
        let session = Run::bare_yod(&["--attach", &pid]).stdin_from(commands);
        let session = session.env(&[("HOME", "/nonexistent")]).limit(HANG);
        let ended = clean::run(session)?;
        let shown = ended.stdout.text();
        ensure!(
            ended.status == Some(0),
            "turn {turn}: {:?}: {shown}{}",
            ended.status,
            ended.stderr.text()
        );
        has(&shown, &["computes", "= 1", "= 0", "detached"])?;
    }
    running.end(started)
}

/// As ptrace(2) has it for such processes.
fn forbidden() -> Result<()> {
    let running = Running::new()?;
    let started = running.start(&["forbids"])?;
    let refused = stack_of(started.pid())?;
    clean::one_line(&refused, 69, "(looked_into) cannot be looked into: ")?;
    running.end(started)
}

/// A rank, and what it starts on Linux, looks into no other, whatever user it is.
fn by_a_rank() -> Result<()> {
    let running = Running::new()?;
    let started = running.start(&[])?;
    let yod = tree::yod();
    let script = format!("{} --stack {}; exit $?", yod.display(), started.pid());
    let other = Run::yod(&["-m", "64M", "--", "/bin/sh", "-c", &script]);
    let ended = clean::run(other)?;
    let said = ended.stderr.text();
    ensure!(
        ended.status == Some(69) && said.contains(" cannot be looked into: "),
        "{:?}: {said}{}",
        ended.status,
        ended.stdout.text()
    );
    running.end(started)
}

fn no_rank() -> Result<()> {
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn()?;
    let refused = stack_of(other.id())?;
    drop(other.stdin.take());
    other.wait()?;
    clean::one_line(&refused, 2, "(cat) is no rank and has started none")?;
    let gone = i32::MAX as u32;
    clean::one_line(&stack_of(gone)?, 2, "there is no process ").context("no process")
}
