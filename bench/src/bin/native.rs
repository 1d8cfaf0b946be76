//! Measures a co-kernel beside the Linux of this machine and writes the report that a volunteer sends: `make native-report`. See
//! the library's `native`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use margay_bench::native::{JOBS, Place, Report, Size, facts, measure};
use margay_bench::programs;
use margay_tests::tree;

/// Measure a co-kernel beside this machine's Linux.
#[derive(Parser)]
struct Cli {
    /// Where to write the report.
    #[arg(long)]
    to: PathBuf,
    /// What is measured, as git has it.
    #[arg(long, default_value = "unknown")]
    revision: String,
    /// Runs of each program on either side.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// The launcher; else as it is built.
    #[arg(long)]
    yod: Option<PathBuf>,
    /// Where the programs are; else they are built.
    #[arg(long)]
    programs: Option<PathBuf>,
    /// So little of everything that an emulator can do it: figures say nothing then.
    #[arg(long)]
    tiny: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("native: {failed} programs failed: the report has why; send it all the same");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("native: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many programs failed.
fn run(cli: &Cli) -> Result<usize> {
    let built = tree::target().join("bench/programs");
    if cli.programs.is_none() {
        programs::build(&built)?;
    }
    let mut place = Place {
        yod: cli.yod.clone().unwrap_or_else(tree::yod),
        programs: cli.programs.clone().unwrap_or(built),
        tsc_hz: 0.0,
    };
    let size = if cli.tiny { Size::Tiny } else { Size::Full };
    let cpus = place.cpus(1)?;
    println!("a node on CPU {}: tried first", cpus[0]);
    let fwq = JOBS.iter().find(|job| job.program == "fwq");
    let log = cli.to.with_extension("log");
    let tried = place.try_out(fwq.context("no FWQ")?, size, &log);
    let _ = fs::remove_file(&log); // its text is in the report
    let (stats, log) = tried?;

    let mut report = Report::new(&facts(cpus[0]), &cli.revision);
    let doctor = Command::new(&place.yod).arg("--doctor").output()?;
    report.add_text("yod --doctor", &String::from_utf8_lossy(&doctor.stdout));
    report.add_counts(&stats);
    report.begin_figures(cli.runs.into());
    for job in JOBS {
        println!("{} {}", job.program, job.full.join(" "));
        report.add(job, &measure(&place, job, size, cli.runs.into()));
    }
    report.add_text("The kernel's log", &log);
    let failed = report.failed();
    let home = std::env::var("HOME").ok();
    let text = report.finish(&tree::root(), home.as_deref());
    fs::write(&cli.to, text).with_context(|| format!("cannot write {}", cli.to.display()))?;
    ensure!(
        failed < JOBS.len(),
        "no program ran; see {}",
        cli.to.display()
    );
    println!("the report is in {}", cli.to.display());
    Ok(failed)
}
