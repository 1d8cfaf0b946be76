//! Ranks: 2, 4, 16 and 64 of them start and end, each with an equal contiguous partition of memory and its cores: of its own
//! where there are enough, else shared evenly.
//!
//! The kernel's records say what each rank was given; the programs say where they ran (getcpu) and that they had it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result, ensure};
use margay_tests::report::{Stats, Stderr};
use margay_tests::run::{Outcome, Run, SECONDS_TO_BEGIN};
use margay_tests::tree;

/// Bytes of a partition, as yod takes them and as the kernel counts them.
const PARTITION: (&str, u64) = ("16M", 16 << 20);

/// Runs the program that says who and where it is, on so many ranks.
fn hello(ranks: u64) -> Result<(Outcome, Stats)> {
    let program = tree::program("glibc-static", "hello");
    let outcome = Run::yod(&[
        "-n",
        &ranks.to_string(),
        "-m",
        PARTITION.0,
        "--oversubscribe",
        "--stats=json",
        "--",
    ])
    .args(&[program.to_string_lossy()])
    .run()?;
    let stderr = Stderr::new(outcome.stderr.head()).with_context(|| outcome.stderr.text())?;
    ensure!(
        outcome.status == Some(0),
        "status {:?}: {}",
        outcome.status,
        outcome.stderr.text()
    );
    ensure!(
        stderr.rest.is_empty(),
        "stderr: {}",
        String::from_utf8_lossy(&stderr.rest)
    );
    Ok((outcome, stderr.stats))
}

/// Numbers that follow a word in the lines of an output.
fn numbers_after(text: &str, word: &str) -> Vec<u64> {
    let lines = text.lines().filter_map(|line| line.split_once(word));
    let digits = |rest: &str| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    lines
        .filter_map(|(_, rest)| digits(rest).parse().ok())
        .collect()
}

fn partitions_and_cores(ranks: u64) -> Result<()> {
    let (outcome, stats) = hello(ranks)?;
    ensure!(
        stats.ranks() as u64 == ranks,
        "{} ranks in the records",
        stats.ranks()
    );
    let (mut partitions, mut cores) = (Vec::new(), Vec::new());
    for rank in 0..ranks {
        let number = |name: &str| stats.number(&format!("/ranks/{rank}/{name}"));
        ensure!(
            number("partition_bytes")? == PARTITION.1,
            "rank {rank}: {} bytes",
            number("partition_bytes")?
        );
        ensure!(
            number("wait_status")? == 0,
            "rank {rank}: status {}",
            number("wait_status")?
        );
        ensure!(number("peak_bytes")? > 0, "rank {rank} used no memory");
        partitions.push(number("partition_base")?);
        cores.push(number("first_core")?..number("first_core")? + number("cores")?);
    }
    evenly_placed(&cores, stats.cores())?;
    partitions.sort_unstable();
    let apart = partitions
        .windows(2)
        .all(|pair| pair[1] - pair[0] >= PARTITION.1);
    ensure!(apart, "partitions overlap: {partitions:x?}");
    said_by_ranks(&outcome.stdout.text(), &cores)
}

/// Every rank has cores, and no core has two ranks more than another; as long as there are enough, none has two.
fn evenly_placed(ranks: &[Range<u64>], node_cores: usize) -> Result<()> {
    let mut tenants: BTreeMap<u64, usize> = (0..node_cores as u64).map(|core| (core, 0)).collect();
    for (rank, cores) in ranks.iter().enumerate() {
        ensure!(!cores.is_empty(), "rank {rank} has no core");
        for core in cores.clone() {
            *tenants.get_mut(&core).context("a core of the node")? += 1;
        }
    }
    let (each, more) = (ranks.len() / node_cores, ranks.len().div_ceil(node_cores));
    ensure!(
        tenants.values().all(|count| (each..=more).contains(count)),
        "{node_cores} cores for {} ranks: {tenants:?}",
        ranks.len()
    );
    Ok(())
}

/// Each rank printed its own process id and one of its cores.
fn said_by_ranks(text: &str, cores: &[Range<u64>]) -> Result<()> {
    let ranks = cores.len();
    let pids: BTreeSet<_> = numbers_after(text, "process ").into_iter().collect();
    ensure!(pids.len() == ranks, "{} process ids:\n{text}", pids.len());
    let (who, on) = (numbers_after(text, "rank "), numbers_after(text, "CPU "));
    ensure!(who.len() == ranks && on.len() == ranks, "{text}");
    for (rank, core) in who.into_iter().zip(on) {
        let own = &cores[rank as usize];
        ensure!(own.contains(&core), "rank {rank} of {own:?} ran on {core}");
    }
    Ok(())
}

#[test]
fn two_ranks() -> Result<()> {
    partitions_and_cores(2)
}

#[test]
fn four_ranks() -> Result<()> {
    partitions_and_cores(4)
}

#[test]
fn sixteen_ranks() -> Result<()> {
    partitions_and_cores(16)
}

#[test]
fn sixty_four_ranks() -> Result<()> {
    partitions_and_cores(64)
}

/// The most there are, in small partitions. Not run by itself: on a loaded host it may take longer than a run may.
/// `cargo test -p margay-tests --test ranks -- --ignored`.
#[test]
#[ignore = "takes seconds that grow with the host's load"]
fn as_many_ranks_as_there_can_be() -> Result<()> {
    let program = tree::program("glibc-static", "hello");
    let outcome = Run::yod(&["-n", "255", "-m", "4M", "--oversubscribe", "--"])
        .args(&[program.to_string_lossy()])
        .run()?;
    let (said, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    ensure!(
        outcome.status == Some(0),
        "status {:?}: {stderr}",
        outcome.status
    );
    let who: BTreeSet<_> = numbers_after(&said, "rank ").into_iter().collect();
    ensure!(who == (0..255).collect(), "of 255 came {who:?}");
    Ok(())
}

/// Ranks that share one core: one that computes without a call keeps none of the others from starting, from computing,
/// from being shipped or from ending, with a status that is the job's.
#[test]
fn a_rank_that_spins_lets_others_of_its_core_go_on() -> Result<()> {
    const SCRIPT: &str = "
        if test $MARGAY_RANK != 15; then while :; do :; done; fi
        i=0; while test $i != 1000; do i=$((i + 1)); done
        echo rank 15 counted to $i; exit 15";
    let outcome = Run::yod(&["-n", "16", "-m", PARTITION.0, "--oversubscribe", "--"])
        .args(&["/bin/sh", "-c", SCRIPT])
        .on_core(0)
        .run()?;
    ensure!(
        outcome.status == Some(15) && outcome.stdout.text() == "rank 15 counted to 1000\n",
        "status {:?}: {:?} {}",
        outcome.status,
        outcome.stdout.text(),
        outcome.stderr.text()
    );
    Ok(())
}

#[test]
fn every_rank_enters_the_kernel_on_its_core() -> Result<()> {
    let (_, stats) = hello(4)?;
    for rank in 0..4 {
        let core = stats.number(&format!("/ranks/{rank}/first_core"))?;
        let entries = stats.number(&format!("/cores/{core}/entries"))?;
        ensure!(entries > 0, "no entry on core {core} of rank {rank}");
    }
    Ok(())
}

/// With -d a rank has so many cores, in the kernel's records and by what it finds out itself: nproc counts what
/// sched_getaffinity gives.
#[test]
fn ranks_get_as_many_cores_as_requested() -> Result<()> {
    let options = ["-n", "2", "-d", "3", "-m", PARTITION.0, "--oversubscribe"];
    let outcome = Run::yod(&options)
        .args(&["--stats=json", "--", "nproc"])
        .run()?;
    let stderr = outcome.stderr.text();
    ensure!(
        outcome.status == Some(0),
        "status {:?}: {stderr}",
        outcome.status
    );
    let said = outcome.stdout.text();
    ensure!(said == "3\n3\n", "nproc said {said:?}");
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    for rank in 0..2 {
        let number = |name: &str| stats.number(&format!("/ranks/{rank}/{name}"));
        let cores = (number("first_core")?, number("cores")?);
        ensure!(cores == (3 * rank, 3), "rank {rank}: {cores:?}");
    }
    Ok(())
}

#[test]
fn labels_distinguish_ranks() -> Result<()> {
    let program = tree::program("glibc-static", "hello");
    let outcome = Run::yod(&[
        "-n",
        "3",
        "-m",
        PARTITION.0,
        "--oversubscribe",
        "--label",
        "--",
    ])
    .args(&[program.to_string_lossy()])
    .run()?;
    let text = outcome.stdout.text();
    for rank in 0..3 {
        let label = format!("[{rank}] hello");
        ensure!(
            text.lines().filter(|line| line.starts_with(&label)).count() == 1,
            "no {label:?}:\n{text}"
        );
    }
    Ok(())
}

/// Once the PCT waited for the second rank's proxy on the first one's core, and was woken there: where the first rank
/// computed without a call, the second was never loaded.
/// Both try to change the clock page, which they share with the kernel, unmap it, and find theirs right.
#[test]
fn the_clock_of_a_rank_is_safe_from_another() -> Result<()> {
    let program = tree::program("glibc-static", "kernels_pages");
    let outcome = Run::yod(&["-n", "2", "-m", PARTITION.0, "--oversubscribe", "--"])
        .args(&[program.to_string_lossy()])
        .run()?;
    let text = outcome.stdout.text();
    ensure!(
        outcome.status == Some(0) && !text.contains("FAIL"),
        "status {:?}: {text}{}",
        outcome.status,
        outcome.stderr.text()
    );
    let ends = numbers_after(&text, " checks, ");
    ensure!(ends == [0, 0], "{text}");
    Ok(())
}

#[test]
fn a_rank_that_makes_no_call_does_not_hold_up_another() -> Result<()> {
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        let mut waiting = Vec::new();
        for seconds in SECONDS_TO_BEGIN {
            waiting = not_begun_within(seconds)?;
            if waiting.is_empty() {
                break;
            }
        }
        ensure!(waiting.is_empty(), "ranks that never begin: {waiting:?}");
    }
    Ok(())
}

/// Which of two ranks that compute without a call have made none at all when their time is over.
fn not_begun_within(seconds: &str) -> Result<Vec<u64>> {
    let program = tree::program("glibc-static", "endless");
    let outcome = Run::yod(&[
        "-n",
        "2",
        "-m",
        PARTITION.0,
        "--oversubscribe",
        "--stats=json",
    ])
    .args(&[
        "--timeout",
        seconds,
        "--",
        &program.to_string_lossy(),
        "spin",
    ])
    .run()?;
    ensure!(
        outcome.status == Some(124),
        "status {:?}: {}",
        outcome.status,
        outcome.stderr.text()
    );
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    let mut waiting = Vec::new();
    for rank in 0..2 {
        let core = stats.number(&format!("/ranks/{rank}/first_core"))?;
        if stats.number(&format!("/cores/{core}/local_calls"))? == 0 {
            waiting.push(rank);
        }
    }
    Ok(waiting)
}

/// The stack of each rank ends elsewhere. Once a lower limit on it held in the first rank alone.
#[test]
fn limits_hold_in_each_rank() -> Result<()> {
    let program = tree::program("glibc-static", "of_limits");
    let outcome = Run::yod(&["-n", "2", "-m", "256M", "--oversubscribe", "--label", "--"])
        .args(&[program.to_string_lossy()])
        .run()?;
    let text = outcome.stdout.text();
    ensure!(!text.contains("FAIL"), "{text}");
    for rank in ["[0] ", "[1] "] {
        let held = |line: &str| line.starts_with(rank) && line.contains("1 MiB is too deep");
        ensure!(text.lines().any(held), "{text}");
    }
    Ok(())
}
