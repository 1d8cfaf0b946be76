//! gprof: a program that is linked with -pg writes a profile when it ends, with samples that ITIMER_PROF takes.

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Trial;
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::trial::trial;
use std::process::Command;

use crate::host::build;

pub fn all() -> Vec<Trial> {
    vec![trial("profile: as native", is_sampled)]
}

/// A line of the flat profile.
struct Function {
    /// Of all samples.
    percent: f64,
    seconds: f64,
    calls: u64,
}

/// ITIMER_PROF was refused: the profile was there, with calls and without a sample.
fn is_sampled() -> Result<()> {
    for native in [true, false] {
        let scratch = Scratch::new()?;
        let program = build(&scratch, "profiled", &["-pg"])?;
        let run = match native {
            true => Run::new([&program]),
            false => Run::yod(&["-m", "64M", "--", &program]),
        };
        let outcome = clean::run_in(run, &scratch)?;
        outcome.ended_well()?;
        let text = flat_profile(&scratch, &program)?;
        let works = function(&text, "works").with_context(|| text.clone())?;
        ensure!(works.percent > 90.0 && works.seconds > 0.0, "{text}");
        ensure!(works.calls > 0, "{text}");
    }
    Ok(())
}

fn flat_profile(scratch: &Scratch, program: &str) -> Result<String> {
    let mut gprof = Command::new("gprof");
    let gprof = gprof.args(["-b", "-p", program, "gmon.out"]);
    let output = gprof
        .current_dir(scratch.path().join("cwd"))
        .output()
        .context("gprof")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "gprof: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Columns: percent, seconds with those above, seconds, calls, two more, name.
fn function(text: &str, name: &str) -> Option<Function> {
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let columns = lines.find(|columns| columns.len() == 7 && columns[6] == name)?;
    Some(Function {
        percent: columns[0].parse().ok()?,
        seconds: columns[2].parse().ok()?,
        calls: columns[3].parse().ok()?,
    })
}
