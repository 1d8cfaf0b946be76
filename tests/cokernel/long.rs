//! What takes too long for every check: COKERNEL_JOBS jobs (20 unless set) and a quarter as many that are killed (COKERNEL_KILLS), the whole conformance
//! suite (or the rows in whose names is one of COKERNEL_ROWS), and the attacks, as a user without rights (ATTACK_SECONDS).

use std::time::Duration;

use anyhow::Result;
use margay_tests::random::Random;
use margay_tests::tree;

use super::inside::WORD;
use super::suites::{Suite, shown, test_binary};

/// Of each guest: two orders of magnitude slower than this machine.
const LIMIT: Duration = Duration::from_secs(6 * 3600);
/// What Linux may keep for itself of what thousands of processes and files have had it allocate.
const OWN_KIB: u64 = 16 << 10;
/// What cannot be right there: parts of names of rows.
const CANNOT: &[&str] = &[
    // Files that are mapped shared: there is no agent that lays them over the pool (docs/cokernel.md).
    "memory/shared_file",
    "memory/more_shared",
    "memory/many_files",
    "memory/odd_files",
    "memory/stored",
    "env/own_memfd",
    "effects/effects_memory",
    "children/shares.memory",
    "children/shares.descendants",
    "children/shares.vforked",
    "children/shares.suite",
    "children/shares.locks",
    "children/shares.waiting_before",
    "children/shares.beside_threads",
    "children/file_locks.of_maps",
    "children/file_locks.of_append",
    "children/file_locks.of_second_map",
    // Segments of System V, likewise.
    "memory/segments",
    "children/shares.segment",
    "effects/effects_limits",
    // The guest's Linux is older than what is asked of it (PROCMAP_QUERY): not right natively either.
    "env/self_maps",
    // A node has no more CPUs than the guest can give: three.
    "four_cores",
    "rseq_sections.mapped_over",
];

/// Jobs that end, and jobs that are killed.
pub fn cycles() -> Result<()> {
    let Some(mut suite) = Suite::new()? else {
        return Ok(());
    };
    let jobs = tree::number("COKERNEL_JOBS", 20);
    let kills = tree::number("COKERNEL_KILLS", jobs / 4);
    let seed = Random::from_environment("COKERNEL_SEED");
    let own = shown(&std::env::current_exe()?);
    suite.add(LIMIT, &format!("{own} {WORD} cycles {jobs} {kills} {seed}"));
    let outcome = suite.boot(LIMIT)?;
    for ran in &outcome.ran {
        println!("{}", ran.output);
    }
    Ok(())
}

/// All rows but those that there cannot be.
pub fn conformance() -> Result<()> {
    let Some(mut suite) = Suite::new()? else {
        return Ok(());
    };
    let skipped: Vec<String> = CANNOT.iter().map(|name| format!("--skip {name}")).collect();
    let conformance = shown(&test_binary("conformance")?);
    // All, or those of some names.
    let names = std::env::var("COKERNEL_ROWS").unwrap_or_default();
    for name in names.split(',') {
        let command = format!(
            "{conformance} --test-threads 1 {} {name}",
            skipped.join(" ")
        );
        suite.add_watched(LIMIT, OWN_KIB, &command)?;
    }
    suite.boot(LIMIT).map(drop)
}

/// Attacks that cannot be right there: one is on files that ranks share; one compares with Linux of the guest, whose emulated CPU
/// does not refuse reserved bits of MXCSR.
const NO_ATTACKS: &str = "--skip files --skip frames";

/// By a user that is given the device.
pub fn attack() -> Result<()> {
    let Some(mut suite) = Suite::new()? else {
        return Ok(());
    };
    let seconds = tree::number("ATTACK_SECONDS", 5);
    let attack = shown(&test_binary("attack")?);
    suite.add(LIMIT, "/usr/bin/chmod 666 /dev/margay");
    let command = format!(
        "/usr/bin/env ATTACK_SECONDS={seconds} ATTACK_RANKS=1,2,3 {attack} --test-threads 1 {NO_ATTACKS}"
    );
    suite.add_watched(LIMIT, OWN_KIB, &command)?;
    suite.boot(LIMIT).map(drop)
}
