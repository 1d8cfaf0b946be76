//! Two ranks of an MPI that compute and meet in between, by memory that they share: nothing interrupts them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use margay_tests::clean::new_mark;
use margay_tests::process::MARK;
use margay_tests::run::Run;
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::{Signal, kill_process_group};
use wire::stats::CpuStats;

use crate::node::{Node, disturbances};
use crate::pair::group;
use crate::{LIMIT, SETTLED, send, wait_until};

const RANKS: usize = 2;

/// Debian's MPICH, whose ranks make no system call to meet: what enters the kernel on their cores would be the system's.
#[test]
fn ranks_of_an_mpi_that_meet_are_left_alone() -> Result<()> {
    let (scratch, mark) = (Scratch::new()?, new_mark());
    let program = scratch.path().join("barriers");
    let source = tree::root().join("tests/noise/barriers.c");
    let mut compile = Command::new("mpicc.mpich");
    let compile = compile.arg("-O2").arg("-o").args([&program, &source]);
    ensure!(compile.status()?.success(), "mpicc.mpich failed");
    let yod = tree::yod();
    let started = Run::new(["/usr/bin/mpiexec.hydra", "-n", "2", &yod.to_string_lossy()])
        .args(&[
            &tree::machine(),
            "-m",
            "256M",
            "--oversubscribe",
            "--stats=stats.json",
        ])
        .args(&[program.to_string_lossy()])
        .output_to("out")
        .env(&[(MARK, &mark)])
        .start(&scratch)?;
    let out = scratch.path().join("cwd/out");
    let seen = Node::of(&mark, started.pid()).and_then(|node| {
        let begun = || {
            let text = fs::read_to_string(&out).unwrap_or_default();
            Ok(text.matches(" begins\n").count() == RANKS)
        };
        ensure!(wait_until(begun)?, "the ranks did not begin");
        let seen = quiet_for_a_while(&node)?;
        send(node.rank(0)?.host.pid.load().try_into()?, Signal::USR1);
        Ok(seen)
    });
    if seen.is_err() {
        let _ = kill_process_group(group(&started)?, Signal::KILL);
    }
    let outcome = started.finish(LIMIT)?;
    let seen = seen?;
    let said = fs::read_to_string(&out)?;
    ensure!(
        outcome.status == Some(0) && said.matches(" has met ").count() == RANKS,
        "status {:?}: {said}{}",
        outcome.status,
        outcome.stderr.text()
    );
    // A control: the signal that ended it was counted, and what came after it.
    let stats = fs::read_to_string(scratch.path().join("cwd/stats.json"))?;
    let stats: serde_json::Value = serde_json::from_str(&stats)?;
    for (core, seen) in seen.iter().enumerate() {
        let entries = stats["cores"][core]["entries"]
            .as_u64()
            .context("entries")?;
        ensure!(
            entries > seen.entries.load(),
            "core {core}: {entries} entries"
        );
    }
    Ok(())
}

/// Counters of both cores after a while in which nothing entered the kernel on either.
fn quiet_for_a_while(node: &Node) -> Result<[CpuStats; RANKS]> {
    let sample = || -> Result<_> { Ok([node.counters(0)?, node.counters(1)?]) };
    let seen_for = |time| -> Result<_> {
        let before = sample()?;
        std::thread::sleep(time);
        let after = sample()?;
        let seen = [0, 1].map(|core| disturbances(&before[core], &after[core]));
        Ok((seen, after))
    };
    // What the start has left under way comes to its end.
    let settled = wait_until(|| Ok(seen_for(SETTLED)?.0 == [[0; 2]; RANKS]))?;
    let (seen, after) = seen_for(2 * SETTLED)?;
    ensure!(
        settled && seen == [[0; 2]; RANKS],
        "entries into the kernel and interrupts, of each core: {seen:?}"
    );
    Ok(after)
}
