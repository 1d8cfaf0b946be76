//! A yod, a proxy, the keeper or QEMU is killed at a random moment, from the meeting to the last rank's end: all yods end, and nothing
//! stays. LAUNCHERS_ROUNDS jobs (12 unless set) of 2 ranks; LAUNCHERS_SEED repeats a run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::process::{self, Role};
use margay_tests::random::Random;
use margay_tests::tree;

use crate::job::{Job, statuses};

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

/// A job is hit so long after its start at most: a short one takes about half of it on a machine that is not busy.
const LATEST: Duration = Duration::from_millis(1000);

fn round(number: u64, random: &mut Random) -> Result<bool> {
    let job = Job::new(2)?;
    let victim = VICTIMS[(number % 6) as usize];
    let program = if random.below(2) == 0 {
        "hello"
    } else {
        "endless"
    };
    let moment = LATEST.mul_f64(random.below(1000) as f64 / 1000.0);
    // A yod that comes after the first was killed waits for it.
    let run = |rank| {
        let yod = job.yod(rank, &[], ("glibc-static", program), &["spin"]);
        job.start(yod.env(&[("MARGAY_BOOT_TIMEOUT_S", "8")]))
    };
    let yods = vec![run(0)?, run(1)?];
    std::thread::sleep(moment);
    let pid = match victim {
        Victim::Yod(rank) => Some(yods[rank].pid()),
        Victim::Proxy(rank) => job.proxy(yods[rank].pid()).ok(),
        Victim::Other(role) => job.process(role).ok(),
    };
    let hit = pid.is_some_and(process::kill);
    if !hit {
        yods.iter().for_each(|yod| {
            process::signal(yod.pid(), rustix::process::Signal::TERM);
        });
    }
    let ended = job
        .finish(yods)
        .with_context(|| format!("{victim:?} of {program} after {moment:?}"))?;
    let good = |status: &Option<i32>| *status == Some(0);
    let all = statuses(&ended);
    ensure!(
        program == "hello" || !all.iter().any(good),
        "{victim:?} of {program} after {moment:?}: {all:?}"
    );
    Ok(hit)
}

#[test]
fn whoever_is_killed_nothing_stays() -> Result<()> {
    let rounds = tree::number("LAUNCHERS_ROUNDS", 12);
    let seed = Random::from_environment("LAUNCHERS_SEED");
    let mut random = Random::new(seed);
    let mut hit = 0;
    for number in 0..rounds {
        let round = round(number, &mut random);
        hit += u64::from(round.with_context(|| format!("round {number}, LAUNCHERS_SEED={seed}"))?);
    }
    ensure!(hit * 3 >= rounds, "only {hit} of {rounds} were hit");
    Ok(())
}
