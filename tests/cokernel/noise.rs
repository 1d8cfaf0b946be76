//! Noise beside a busy Linux: FWQ, FTQ and selfish on a co-kernel's core, while threads and processes keep all other CPUs busy. What the node's kernel counts
//! is judged (watch.rs); times are an emulator's.

use std::env;
use std::time::Duration;

use anyhow::{Result, ensure};
use margay_tests::bench;
use margay_tests::guest::files::Tree;
use margay_tests::guest::{self, Guest};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use super::{complaints, watch};

/// Of a boot with its programs, which takes half a minute on an idle host.
const LIMIT: Duration = Duration::from_secs(300);
/// Of a program, by the guest's clock.
const PROGRAM_LIMIT: Duration = Duration::from_secs(100);
/// Programs that run for longer than they are watched, and are ended then.
const PROGRAMS: [&str; 3] = [
    "fwq 2000 20000000",
    "ftq 10000 100000000",
    "selfish 100000000000",
];

/// Linux does not interrupt CPUs that it gave up.
pub fn quiet() -> Result<()> {
    let mut guest = Guest::new()?;
    guest.add_word("no_ipi_broadcast=1");
    watched(guest, &PROGRAMS.map(|program| ("quiet", program)))
}

/// As it is it does, which is counted and said.
pub fn loud() -> Result<()> {
    watched(Guest::new()?, &[("loud", PROGRAMS[2])])
}

fn watched(mut guest: Guest, programs: &[(&str, &str)]) -> Result<()> {
    let (scratch, this) = (Scratch::new()?, env::current_exe()?);
    guest.add_yod(&[])?;
    guest.add_files(&Tree::gather(&[], &this)?)?;
    guest.add("watch", &this)?;
    let busy = guest.folder().join("busy");
    guest::compile(&["tests/cokernel/busy.c"], &busy, &["-pthread"])?;
    guest.add("busy", &busy)?;
    guest.add_folder("program");
    for (wanted, program) in programs {
        let name = program.split(' ').next().unwrap_or_default();
        let file = bench::build(&scratch, name)?;
        guest.add(&format!("program/{name}"), &file)?;
        let command = format!("/watch {} {wanted} /program/{program}", watch::WORD);
        guest.run(0, PROGRAM_LIMIT, &command);
    }
    let accel = tree::accel();
    let options = ["-accel", &accel, "-cpu", "max", "-smp", "4", "-m", "2G"];
    let outcome = guest.boot(&options, LIMIT)?;
    ensure!(outcome.ran.len() == programs.len(), "{:?}", outcome.ran);
    for (ran, (wanted, program)) in outcome.ran.iter().zip(programs) {
        let good = format!("ok {wanted} /program/{program}");
        ensure!(
            ran.how == "status 0" && ran.output.contains(&good),
            "{program}: {}: {}",
            ran.how,
            ran.output
        );
    }
    let complaints = complaints(&outcome.log);
    ensure!(complaints.is_empty(), "{complaints}");
    Ok(())
}
