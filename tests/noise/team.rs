//! A rank of two threads, each computing on a core of its own: neither core is entered.

use std::time::Duration;

use anyhow::{Result, ensure};
use margay_tests::bench::build;
use margay_tests::clean::new_mark;
use margay_tests::process::MARK;
use margay_tests::report::Stderr;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use rustix::process::{Signal, kill_process_group};
use wire::stats::CpuStats;

use crate::node::{Node, calls, disturbances};
use crate::pair::group;
use crate::{LIMIT, SETTLED, wait_until};

/// As a number of turns or ticks, longer than any test.
const ENDLESS: &str = "1000000000000";
const CORES: usize = 2;

#[test]
fn two_threads_of_a_rank_are_left_alone() -> Result<()> {
    left_alone("omp_fwq", &["1000", ENDLESS])
}

#[test]
fn two_threads_with_fixed_time_quanta_are_left_alone() -> Result<()> {
    left_alone("omp_ftq", &["1000", ENDLESS])
}

#[test]
fn two_threads_that_count_detours_are_left_alone() -> Result<()> {
    left_alone("omp_selfish", &[ENDLESS])
}

/// With counters that do not count, it would be quiet as well: so what ends the threads has to show on both cores.
fn left_alone(name: &str, endless: &[&str]) -> Result<()> {
    let (scratch, mark) = (Scratch::new()?, new_mark());
    let program = build(&scratch, name)?;
    let started = Run::yod(&["-n", "1", "-d", "2", "-m", "64M", "--oversubscribe"])
        .args(&["--stats=json", "--", &program.to_string_lossy()])
        .args(endless)
        .env(&[(MARK, &mark)])
        .start(&scratch)?;
    let after = Node::of(&mark, started.pid()).and_then(|node| quiet_for_a_while(&node));
    // It ends whatever was seen; as by Ctrl-C.
    kill_process_group(group(&started)?, Signal::INT)?;
    let outcome = started.finish(LIMIT)?;
    let after = after?;
    ensure!(
        outcome.status == Some(130),
        "status {:?} after SIGINT: {}",
        outcome.status,
        outcome.stderr.text()
    );
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    for (core, after) in after.iter().enumerate() {
        let entries = stats.number(&format!("/cores/{core}/entries"))?;
        ensure!(
            entries > after.entries.load(),
            "the end of its thread did not enter the kernel on core {core}"
        );
    }
    Ok(())
}

/// What was counted on the cores before and after a while, in which nothing is to happen.
struct While([CpuStats; CORES], [CpuStats; CORES]);

impl While {
    fn of(node: &Node, time: Duration) -> Result<While> {
        let sample = || -> Result<_> { Ok([node.counters(0)?, node.counters(1)?]) };
        let before = sample()?;
        std::thread::sleep(time);
        Ok(While(before, sample()?))
    }

    /// Entries and interrupts of each core.
    fn disturbances(&self) -> [[u64; 2]; CORES] {
        [0, 1].map(|core| disturbances(&self.0[core], &self.1[core]))
    }
}

/// Waits until both threads compute, then watches their cores; returns the counters of the last look.
fn quiet_for_a_while(node: &Node) -> Result<[CpuStats; CORES]> {
    // Each thread binds itself before it computes; then the kernel has nothing more to do.
    let begun = wait_until(|| {
        let seen = While::of(node, SETTLED)?;
        let bound: u64 = seen.0.iter().map(|c| calls(c, "sched_setaffinity")).sum();
        Ok(bound == CORES as u64 && seen.disturbances() == [[0; 2]; CORES])
    })?;
    ensure!(begun, "the two threads did not begin to compute");
    let seen = While::of(node, 2 * SETTLED)?;
    ensure!(
        seen.disturbances() == [[0; 2]; CORES],
        "entries into the kernel and interrupts, of each core: {:?}",
        seen.disturbances()
    );
    Ok(seen.1)
}
