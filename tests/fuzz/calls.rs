//! A program on a node that makes random system calls, of those that do no harm whatever makes them, seed after seed.

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::run::Run;
use margay_tests::tree;

use crate::Budget;

/// Calls of each run: most of its time should not be the boot of its node, nor near the limit on a machine that is busy with
/// others.
const CALLS: &str = "5000";

pub fn random(mut budget: Budget) -> Result<()> {
    let program = tree::program("glibc-static", "syscall_fuzz");
    while budget.lasts() {
        let seed = budget.random.below(1 << 32).to_string();
        let run = Run::yod(&["-m", "128M", "--", &program.to_string_lossy()]).args(&[&seed, CALLS]);
        let outcome = clean::run(run).with_context(|| format!("seed {seed}"))?;
        let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
        ensure!(
            outcome.status == Some(0) && stderr.is_empty(),
            "seed {seed}: status {:?}\n{stdout}{stderr}",
            outcome.status
        );
    }
    Ok(())
}
