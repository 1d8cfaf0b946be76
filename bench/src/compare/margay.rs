//! Margay: yod does all that an adapter has to do.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::tree;

use super::system::{Order, Output, System};
use crate::lab::{How, Lab};
use crate::launch::Launch;
use crate::process;
use crate::scratch::Scratch;
use crate::stats::Stats;

/// Short name.
pub const NAME: &str = "margay";
/// Name in the report.
pub const TITLE: &str = "Margay";

/// Memory of a job, over all of its ranks. Other systems get the whole machine of such a job.
const MEMORY: [&str; 4] = ["1G", "512M", "256M", "256M"];

/// Margay in a lab.
pub struct Margay<'a>(&'a Lab);

impl<'a> Margay<'a> {
    /// The lab has built everything.
    pub fn new(lab: &'a Lab) -> Margay<'a> {
        Margay(lab)
    }
}

/// An order in yod's words.
pub fn how<'a>(order: &Order<'a>) -> How<'a> {
    How {
        icount: order.mode.is_counted(),
        ranks: order.ranks,
        launch: order.launch,
        cores: Some(order.cores),
        stats: order.mode.has_events(),
        trace: None,
        memory: MEMORY[order.ranks.min(MEMORY.len()) - 1],
        node_mib: None,
        fixed_environment: false,
        plugin: order.plugin,
    }
}

impl System for Margay<'_> {
    fn about(&self) -> Result<String> {
        let mut git = Command::new("git");
        git.args(["describe", "--always", "--dirty"])
            .current_dir(tree::root());
        let revision = process::run(&mut git, Duration::from_secs(20))
            .and_then(process::Outcome::good)
            .map_or_else(
                |_| "unknown".to_owned(),
                |outcome| outcome.stdout.trim().to_owned(),
            );
        Ok(format!(
            "revision {revision}; started by yod, as a user would"
        ))
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![
            self.0.kernel().to_path_buf(),
            self.0.kernel().with_file_name("pct"),
            self.0.yod().to_path_buf(),
        ]
    }

    fn run(&self, order: &Order<'_>) -> Result<Output> {
        let scratch = Scratch::new(self.0.output())?;
        let run = |args: &[&str]| {
            self.0
                .attempt_in(scratch.path(), how(order), order.program, args, order.limit)?
                .good()
        };
        if !order.prepare.is_empty() {
            run(order.prepare).context("the run before")?;
        }
        let outcome = run(order.args)?;
        if order.launch == Launch::Components {
            served_by_components(&outcome.stderr)?;
        }
        let events = if order.mode.has_events() {
            events(&Stats::parse(&outcome.stderr)?)
        } else {
            Vec::new()
        };
        Ok(Output {
            text: outcome.stdout,
            events,
            first_output_s: outcome.first_output_seconds,
        })
    }
}

/// Ranks with lib/mpi's components say whether these serve; otherwise Open MPI's own would be measured twice.
fn served_by_components(stderr: &str) -> Result<()> {
    let serves = stderr.contains("pml/smartmap: messages go through windows");
    let fallen = stderr
        .lines()
        .find(|line| line.contains("coll/smartmap: ") && line.contains("falls back"));
    ensure!(serves, "the messages of lib/mpi did not serve");
    ensure!(
        fallen.is_none(),
        "the collectives of lib/mpi did not serve: {}",
        fallen.unwrap_or_default()
    );
    Ok(())
}

/// The counters that other systems have, too.
fn events(stats: &Stats) -> Vec<(String, Vec<f64>)> {
    let per_core = |count: fn(&crate::stats::Counters) -> u64| -> Vec<f64> {
        stats.cores.iter().map(|core| count(core) as f64).collect()
    };
    vec![
        (
            "page_faults".to_owned(),
            vec![stats.total.page_faults as f64],
        ),
        (
            "timer_interrupts".to_owned(),
            per_core(|core| core.timer_interrupts),
        ),
        ("interrupts".to_owned(), per_core(|core| core.interrupts())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_that_do_not_serve_are_found_out() {
        let served = "[h:1] pml/smartmap: messages go through windows\n";
        assert!(served_by_components(served).is_ok());
        assert!(served_by_components("").is_err());
        let fallen =
            "[h:1] coll/smartmap: MPI_COMM_WORLD falls back: not all ranks reach each other";
        let error = served_by_components(&format!("{served}{fallen}\n"));
        assert!(error.expect_err("fallen").to_string().ends_with(fallen));
    }
}
