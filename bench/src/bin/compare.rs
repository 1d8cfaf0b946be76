//! Margay beside other systems; see `margay_bench::compare`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use margay_bench::compare::catalogue::{CLAIMS, Job, wanted};
use margay_bench::compare::journal::Journal;
use margay_bench::compare::report::{Facts, Report};
use margay_bench::compare::runner::{INTERRUPTED, Runner};
use margay_bench::compare::system;
use margay_bench::lab::Lab;
use margay_bench::number::number;
use margay_bench::plugin;
use margay_tests::guest::files::Tree;

/// What a shell calls a program that SIGINT ended.
const INTERRUPTED_STATUS: u8 = 130;

/// Run the same programs on Margay and on other systems and write a report.
#[derive(Parser)]
#[command(name = "compare")]
struct Cli {
    /// Only these jobs, rows or claims, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Of each job on each system.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Forget what was measured before, instead of going on from there.
    #[arg(long)]
    fresh: bool,
    /// List jobs, rows and claims and do nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match compare(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Finds what a job needs besides its program.
///
/// # Errors
/// What is missing here.
fn needs(lab: &Lab, job: &Job) -> Result<Tree> {
    if job.mode.needs_plugin() {
        plugin::there(lab.output())?;
    }
    lab.build_mpi(job.launch, job.program)?;
    if job.tree.is_empty() {
        return Ok(Tree::default());
    }
    Tree::gather(job.tree, &lab.program(job.program))
}

fn compare(cli: &Cli) -> Result<ExitCode> {
    let mut jobs = wanted(&cli.only).map_err(|error| anyhow!(error))?;
    if cli.list {
        for job in jobs {
            let rows: Vec<&str> = job.rows.iter().map(|row| row.name).collect();
            println!("{}: {}\n    {}", job.name, job.about, rows.join(" "));
        }
        for claim in CLAIMS {
            println!(
                "{}: {}\n    of {}",
                claim.name,
                claim.title,
                claim.rows.join(" ")
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(cli.runs > 0, "--runs 0: at least one run is needed");
    ctrlc::set_handler(|| {
        // The second time is meant.
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED_STATUS.into());
        }
        eprintln!("\ncompare: ending; the report will have what there is (again: at once)");
    })
    .context("cannot wait for Ctrl-C")?;

    let lab = Lab::set_up()?;
    let mut trees = HashMap::new();
    let mut left_out = BTreeMap::new();
    jobs.retain(|job| match needs(&lab, job) {
        Ok(tree) => {
            trees.insert(job.name, tree);
            true
        }
        Err(error) => {
            left_out.insert(job.name, format!("{error:#}"));
            false
        }
    });
    for (job, reason) in &left_out {
        eprintln!("compare: {job} is left out: {reason}");
    }
    let output = lab.output().with_file_name("compare");
    fs::create_dir_all(&output).with_context(|| format!("cannot make {}", output.display()))?;
    let facts = Facts::find(&lab, cli.runs)?;
    let columns = system::all(&lab, &output);
    for alike in columns.chunk_by(|a, b| a.missing() == b.missing()) {
        if let Some(reason) = alike[0].missing() {
            let titles: Vec<&str> = alike.iter().map(|column| column.title).collect();
            eprintln!("compare: {}: {reason}", titles.join(" and "));
        }
    }
    let journal = Journal::open(&output.join("samples.jsonl"), cli.fresh)?;
    let runner = Runner {
        lab: &lab,
        columns: &columns,
        trees,
        journal: &journal,
        runs: cli.runs,
    };
    runner.run(&jobs)?;
    let report = Report::new(&runner, &jobs, left_out, facts)?;
    let directory = output.join("report");
    report.write(&directory)?;
    println!("the report is in {}", directory.display());
    let missed = report.missed();
    for (claim, value) in &missed {
        let most = claim.most.map(number).unwrap_or_default();
        let (name, value) = (claim.name, number(*value));
        eprintln!("compare: missed: {name} is {value}, and {most} at most is aimed at");
    }
    let well = report.complete() && missed.is_empty();
    Ok(match (INTERRUPTED.load(Ordering::Relaxed), well) {
        (true, _) => ExitCode::from(INTERRUPTED_STATUS),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}
