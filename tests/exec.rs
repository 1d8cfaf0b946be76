//! A rank that becomes another program, as others see it: peers with windows, `--strace`, crash reports, kills. What the program
//! itself sees is in `programs/children/replaced.c`.
//!
//! EXEC_ROUNDS is how many programs follow each other (100 unless set).

use anyhow::{Result, ensure};
use margay_tests::clean;
use margay_tests::compare::checks_passed;
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
