//! `make gate`: compares counts with bench/baseline.tsv, and fails when one is worse; with `--update`, writes them there.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use margay_bench::gate::{self, Baseline};
use margay_bench::lab::Lab;

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
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(BASELINE);
    let baseline = Baseline::read(&path)?;
    let counts = gate::measure(&Lab::set_up()?)?;
    let found = gate::compare(&baseline, &counts);
    print!("{}", found.differences);
    if update {
        baseline.updated(&counts).write(&path)?;
        println!("gate: {} counts written to {BASELINE}", counts.len());
        return Ok(ExitCode::SUCCESS);
    }
    let rows = baseline.rows().len();
    if found.failed > 0 {
        println!(
            "gate: {} of {rows} counts are not as in {BASELINE}. When it has to be so: make gate UPDATE=1, and say why in the commit",
            found.failed
        );
        return Ok(ExitCode::FAILURE);
    }
    if found.better > 0 {
        println!(
            "gate: {} counts are better than in {BASELINE}: make gate UPDATE=1 keeps it so",
            found.better
        );
    }
    println!("gate: {rows} counts, none worse");
    Ok(ExitCode::SUCCESS)
}
