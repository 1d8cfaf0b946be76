//! A yod, a proxy, the keeper or QEMU is killed at a random moment, from the meeting to the last rank's end: all yods end, and nothing
//! stays. LAUNCHERS_ROUNDS jobs (12 unless set) of 2 ranks; LAUNCHERS_SEED repeats a run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::random::Random;
use margay_tests::run::Started;
use margay_tests::tree;

use crate::job::{Job, statuses, wait_for};

#[derive(Clone, Copy, Debug)]
enum Victim {
    Yod(usize),
    Proxy(usize),
    Other(Role),
}

const VICTIMS: [Victim; 6] = [
    Victim::Yod(0),
    Victim::Yod(1),
    Victim::Proxy(0),
    Victim::Proxy(1),
    Victim::Other(Role::Keeper),
    Victim::Other(Role::Qemu),
];

/// A short job is hit so long after its start at most, on a machine that is not busy about twice its time; an endless one so long
/// after its victim is there.
const LATEST: Duration = Duration::from_millis(1000);

/// A yod that comes after the first was killed waits for it.
fn start<'a>(job: &'a Job, program: &str) -> Result<Vec<Started<'a>>> {
    let run = |rank| {
        let yod = job.yod(rank, &[], ("glibc-static", program), &["spin"]);
        job.start(yod.env(&[("MARGAY_BOOT_TIMEOUT_S", "8")]))
    };
    Ok(vec![run(0)?, run(1)?])
}

impl Victim {
    /// Its process id, once it is there.
    fn pid(self, job: &Job, yods: &[Started<'_>]) -> Option<u32> {
        match self {
            Victim::Yod(rank) => Some(yods[rank].pid()),
            Victim::Proxy(rank) => job.proxy(yods[rank].pid()).ok(),
            Victim::Other(role) => job.process(role).ok(),
        }
    }
}

/// A job that would never end is hit for certain, however slow the machine is; one that ends by itself may be over.
fn round(victim: Victim, program: &str, random: &mut Random) -> Result<()> {
    let job = Job::new(2)?;
    let moment = LATEST.mul_f64(random.below(1000) as f64 / 1000.0);
    let yods = start(&job, program)?;
    let ends = program == "hello";
    let is_there = || victim.pid(&job, &yods).is_some();
    let is_hit = || victim.pid(&job, &yods).is_some_and(process::kill);
    if ends {
        std::thread::sleep(moment);
        is_hit();
    } else {
        wait_for("the victim", is_there)?;
        std::thread::sleep(moment);
        wait_for("the victim is hit", is_hit)?;
    }
    let ended = job
        .finish(yods)
        .with_context(|| format!("after {moment:?}"))?;
    let all = statuses(&ended);
    ensure!(ends || !all.contains(&Some(0)), "after {moment:?}: {all:?}");
    Ok(())
}

#[test]
fn whoever_is_killed_nothing_stays() -> Result<()> {
    let rounds = tree::number("LAUNCHERS_ROUNDS", 12);
    let seed = Random::from_environment("LAUNCHERS_SEED");
    let mut random = Random::new(seed);
    let kinds = ["endless", "hello"].into_iter();
    let all: Vec<_> = kinds
        .flat_map(|program| VICTIMS.map(|victim| (program, victim)))
        .collect();
    for (number, (program, victim)) in (0..rounds).zip(all.into_iter().cycle()) {
        round(victim, program, &mut random).with_context(|| {
            format!("round {number}: {victim:?} of {program}, LAUNCHERS_SEED={seed}")
        })?;
    }
    Ok(())
}
