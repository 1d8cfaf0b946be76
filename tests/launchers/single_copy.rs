//! Long messages are copied once, from one rank's memory to the other's: Debian's MPIs find that out by themselves (Open MPI's
//! vader by Yama's scope, UCX by calling process_vm_writev), and have it with default settings.

use anyhow::{Context, Result, ensure};
use margay_tests::run::HANG;

use crate::job::Job;
use crate::mpi::{By, MPICH, Mpi, OPEN_MPI, gone};

/// What each of two ranks sends to the other in one message (ring.c).
const MESSAGE_BYTES: u64 = 1 << 20;

/// Bytes that the calls of a trace have moved: their results.
fn moved(trace: &str) -> u64 {
    let results = trace
        .lines()
        .filter(|line| line.contains("process_vm_readv"))
        .filter_map(|line| line.rsplit_once(" = ")?.1.parse::<u64>().ok());
    results.sum()
}

fn copies_once(mpi: &Mpi) -> Result<()> {
    let job = Job::new(2)?;
    let program = mpi.ring(&job)?;
    let options = [
        "--stats=stats.json",
        "--strace=calls",
        "--strace-only",
        "process_vm_readv",
    ];
    let run = mpi.run(&job, By::Launcher, &options, &program, "well");
    let ended = job.start(run)?.finish(HANG * 3)?;
    ensure!(
        ended.status == Some(0) && ended.stdout.text().matches(" 0 wrong").count() == 2,
        "status {:?}: {}{}",
        ended.status,
        ended.stdout.text(),
        ended.stderr.text()
    );
    let stats: serde_json::Value = serde_json::from_str(&job.read("stats.json")?)?;
    let calls = stats["calls"].as_array().context("calls")?;
    let counted = calls.iter().find(|call| call["name"] == "process_vm_readv");
    ensure!(
        counted.is_some_and(|call| call["served"] == "local" && call["count"].as_u64() >= Some(2)),
        "process_vm_readv was counted as {counted:?}"
    );
    for rank in 0..2 {
        let bytes = moved(&job.read(&format!("calls.{rank}"))?);
        ensure!(
            bytes >= MESSAGE_BYTES,
            "rank {rank} has read {bytes} bytes of the other"
        );
    }
    gone(&job)
}

#[test]
fn open_mpi_copies_long_messages_once() -> Result<()> {
    copies_once(&OPEN_MPI)
}

#[test]
fn mpich_copies_long_messages_once() -> Result<()> {
    copies_once(&MPICH)
}
