//! A rank that becomes another program, as others see it: peers with windows, `--strace`, crash reports, kills. What the program
//! itself sees is in `programs/children/replaced.c`.
//!
//! EXEC_ROUNDS is how many programs follow each other (100 unless set).

use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use margay_tests::clean;
use margay_tests::compare::checks_passed;
use margay_tests::report::Stderr;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

const CRASHED: i32 = 128 + 11;
const TIMED_OUT: i32 = 124;

fn program(kind: &str, name: &str) -> String {
    tree::program(kind, name).to_string_lossy().into_owned()
}

/// Peers' translations lead to the new program's memory or nowhere, whatever their cores remember.
#[test]
fn peers_see_the_program_that_there_is() -> Result<()> {
    let windows = program("windows", "replaced");
    for cores in ["1", "2"] {
        let yod = Run::yod(&["-n", "2", "-d", cores, "-m", "32M", "--oversubscribe", "--"]);
        checks_passed(&yod.args(&[&windows]).limit(2 * HANG).run()?)?;
    }
    Ok(())
}

/// No memory and no descriptor is lost; the program itself looks.
#[test]
fn many_programs_follow_each_other() -> Result<()> {
    let rounds = std::env::var("EXEC_ROUNDS").unwrap_or_else(|_| "100".into());
    let count = rounds.parse::<u32>()?;
    let yod = Run::yod(&[
        "-m",
        "32M",
        "--",
        &program("glibc-static", "replaced"),
        "many",
    ]);
    let yod = yod.env(&[("ROUNDS", rounds.as_str())]);
    checks_passed(&clean::run_in(
        yod.limit(HANG + HANG * count / 50),
        &Scratch::new()?,
    )?)
}

/// The end may come at any moment of it: while threads end, while the program is loaded, in between.
#[test]
fn nothing_stays_of_one_that_is_killed() -> Result<()> {
    for tenths in ["0.8", "1.1", "1.4", "1.7"] {
        let yod = Run::yod(&["-m", "32M", "--timeout", tenths, "--"]);
        let yod = yod.args(&[&program("glibc-static", "replaced"), "many"]);
        let outcome = clean::run(yod.env(&[("ROUNDS", "100000")]))?;
        ensure!(
            outcome.status == Some(TIMED_OUT),
            "status {:?}: {}",
            outcome.status,
            outcome.stderr.text()
        );
    }
    Ok(())
}

fn of_shell(options: &[&str], line: &str) -> Result<Outcome> {
    clean::run(Run::yod(options).args(&["-m", "64M", "--", "/bin/sh", "-c", line]))
}

/// As a launcher's wrappers are: what it starts on the way runs on Linux, what it becomes stays on the node. The program says so,
/// and so does the kernel, which has served its calls.
#[test]
fn a_wrapper_becomes_a_program_on_the_node() -> Result<()> {
    const WRAPPER: &str = "#!/bin/sh -e\nhost=$(uname -r | tr a-z A-Z)\nexport THREADS=4\n\
        exec /usr/bin/env HOST=\"$host\" uname \"$@\"\n";
    let scratch = Scratch::new()?;
    let path = scratch.path().join("wrapper");
    std::fs::write(&path, WRAPPER)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    let run = Run::yod(&[
        "-n",
        "2",
        "-m",
        "32M",
        "--oversubscribe",
        "--stats=json",
        "--",
    ]);
    let outcome = run.args(&[&*path.to_string_lossy(), "-r"]).run()?;
    let (said, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    outcome.ended_well()?;
    let stays = |line: &str| line.ends_with("-margay");
    ensure!(said.lines().map(stays).eq([true, true]), "{said}");
    ensure!(
        stderr.contains(r#"{"name":"uname","served":"local","count":2}"#),
        "{stderr}"
    );
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    for rank in 0..2 {
        let children = stats.number(&format!("/ranks/{rank}/children/count"))?;
        ensure!(children == 1, "{children} children: {stderr}");
    }
    Ok(())
}

#[test]
fn the_trace_goes_on_with_the_new_program() -> Result<()> {
    let outcome = of_shell(&["--strace"], "exec /bin/echo text")?;
    let (said, trace) = (outcome.stdout.text(), outcome.stderr.text());
    ensure!(
        outcome.status == Some(0) && said == "text\n",
        "{said}{trace}"
    );
    let parts = trace
        .split_once("execve(\"/bin/echo\", 0x")
        .map(|(_, rest)| rest);
    let rest = parts
        .and_then(|rest| rest.split_once(" = 0\n"))
        .map(|(_, rest)| rest);
    let rest = rest.unwrap_or_default();
    ensure!(
        rest.contains("write(1, \"text\\n\", 5) = 5") && rest.ends_with("+++ exited with 0 +++\n"),
        "{trace}"
    );
    Ok(())
}

#[test]
fn a_crash_is_reported_of_the_new_program() -> Result<()> {
    let crash = program("glibc-static", "crash");
    let outcome = of_shell(&[], &format!("exec {crash} null"))?;
    let report = outcome.stderr.text();
    ensure!(
        outcome.status == Some(CRASHED)
            && report.starts_with(&format!("yod: {crash}: segmentation fault")),
        "status {:?}: {report}",
        outcome.status
    );
    Ok(())
}
