//! Ends of jobs that were not planned: yod, the keeper, QEMU or a proxy is hit at a random moment, and nothing stays.
//!
//! What hits it: SIGKILL; SIGSTOP; SIGHUP; SIGKILL while all that the job writes goes to a full disk; and the end of the
//! terminal whose session yod leads. KILL_ROUNDS jobs (100 unless set) of 1, 2 or 4 ranks; half of them are short, so that
//! the moment falls into their boot or their exit, half are in the middle of something. A short one that was over before is
//! started again, to be hit sooner. Afterwards no process of the job lives longer than two seconds, no file or socket is
//! left, and the user got one line, unless yod is what was killed. KILL_SEED repeats a run.

mod round;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use margay_tests::process::Role;
use margay_tests::random::Random;
use margay_tests::tree;
use margay_tests::trial::trial;

use round::{Blow, Round};

const BLOWS: &[Blow] = &[Blow::Kill, Blow::Stop, Blow::HangUp, Blow::KillOnFullDisk];
const VICTIMS: &[Role] = &[Role::Qemu, Role::Keeper, Role::Proxy, Role::Yod];

/// So often a short job is started to be hit. All but the first few times that is as soon as its victim is there.
const TRIES: u32 = 20;

fn main() {
    let arguments = Arguments::from_args();
    let (rounds, seed) = (
        tree::number("KILL_ROUNDS", 100),
        Random::from_environment("KILL_SEED"),
    );
    let pairs = BLOWS.iter().flat_map(|&blow| {
        let pair = move |&victim| (blow, victim);
        VICTIMS.iter().map(pair)
    });
    // The terminal's end is yod's to notice.
    let lanes: Vec<_> = pairs.chain([(Blow::CloseTerminal, Role::Yod)]).collect();
    let each = rounds.div_ceil(lanes.len() as u64);
    let trials = lanes.into_iter().zip(seed..).map(|((blow, victim), seed)| {
        let name = format!("{blow:?} {victim:?}").to_lowercase();
        trial(name, move || lane(blow, victim, each, seed))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// All rounds with one kind of blow and of victim.
fn lane(blow: Blow, victim: Role, rounds: u64, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let whole = usual_time()?;
    for number in 0..rounds {
        let mut round = Round::new(blow, victim, number, whole, &mut random);
        let mut tries = 1;
        while !round.run().with_context(|| round.name())? {
            ensure!(tries < TRIES, "{} was never hit", round.name());
            tries += 1;
            round.sooner();
        }
    }
    Ok(())
}

/// How long a short job takes on this machine.
fn usual_time() -> Result<Duration> {
    let since = Instant::now();
    let outcome = round::short_job(1).run()?;
    ensure!(
        outcome.status == Some(0),
        "it does not even run: {}",
        outcome.stderr.text()
    );
    Ok(since.elapsed())
}
