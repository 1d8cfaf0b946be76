//! `make gate`: compares counts with bench/baseline.tsv, and fails when one differs; with `--update`, writes them there.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use margay_bench::gate::{self, Baseline};
use margay_bench::lab::Lab;
use margay_bench::plugin;
use margay_tests::tree;

/// In the repository.
const BASELINE: &str = "bench/baseline.tsv";

/// Compare counts of instructions and events with the baseline.
#[derive(Parser)]
struct Cli {
    /// Write what is found to the baseline.
    #[arg(long)]
    update: bool,
}

fn main() -> ExitCode {
    match run(Cli::parse().update) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("gate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(update: bool) -> Result<ExitCode> {
    let path = tree::root().join(BASELINE);
    let baseline = Baseline::read(&path)?;
    let measured = gate::measure(&Lab::set_up()?)?;
    let found = gate::compare(&baseline, &measured);
    print!("{}", found.differences);
    if !found.skipped.is_empty() {
        let names = found.skipped.join(", ");
        println!("skipped: {names}: {}", plugin::MISSING);
    }
    if update {
        baseline.updated(&measured).write(&path)?;
        println!(
            "gate: {} counts written to {BASELINE}",
            measured.counts.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let rows = baseline.rows().len() - found.skipped.len();
    if found.failed > 0 {
        println!(
            "gate: {} of {rows} counts are not as in {BASELINE}. When it has to be so: make gate UPDATE=1, and say why in the commit",
            found.failed
        );
        return Ok(ExitCode::FAILURE);
    }
    println!("gate: {rows} counts, all as in {BASELINE}");
    Ok(ExitCode::SUCCESS)
}
