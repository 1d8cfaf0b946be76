//! Random programs on a node, seed after seed: one makes random system calls with random arguments, one returns through
//! hostile signal frames.

use anyhow::{Result, ensure};
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::tree;

use crate::Budget;

/// Calls of each run: most of its time should not be the boot of its node.
const CALLS: &str = "20000";
/// Signal frames of each run.
const FRAMES: &str = "20000";

pub fn random(mut budget: Budget) -> Result<()> {
    let program = tree::program("glibc-static", "syscall_fuzz");
    while budget.lasts() {
        let seed = budget.random.below(1 << 32).to_string();
        let run = Run::yod(&["-m", "128M", "--", &program.to_string_lossy()]).args(&[&seed, CALLS]);
        let outcome = clean::run(run)?;
        let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
        ensure!(
            outcome.status == Some(0) && stderr.is_empty(),
            "seed {seed}: status {:?}\n{stdout}{stderr}",
            outcome.status
        );
    }
    Ok(())
}

pub fn signal_frames(mut budget: Budget) -> Result<()> {
    let program = tree::program("glibc-static", "hostile_frames");
    let program = program.to_string_lossy();
    while budget.lasts() {
        let seed = budget.random.below(1 << 32).to_string();
        let args = [seed.as_str(), FRAMES];
        let native = Run::new([program.as_ref()]).args(&args).run()?;
        let run = Run::yod(&["-m", "128M", "--", &program]).args(&args);
        let outcome = clean::run(run)?;
        let stderr = outcome.stderr.text();
        ensure!(
            outcome.status == Some(0) && outcome.stdout == native.stdout && stderr.is_empty(),
            "seed {seed}: status {:?}, stdout differs: {}\n{stderr}",
            outcome.status,
            outcome.stdout != native.stdout
        );
    }
    Ok(())
}
