//! Killing: QEMU, the keeper, a proxy or yod itself is killed with SIGKILL at a random moment, and nothing stays.
//!
//! KILL_ROUNDS jobs (100 unless set) of 1, 2 or 4 ranks; half of them are short, so that the moment falls into their boot or
//! their exit, half are in the middle of something. Afterwards no process of the job lives longer than two seconds, no file
//! is left, and the user was told in one line, unless yod is what was killed. KILL_SEED repeats a run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Trial};
use margay_tests::clean::{self, new_mark, nothing_left};
use margay_tests::process::{self, MARK, Role};
use margay_tests::random::Random;
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

const VICTIMS: &[Role] = &[Role::Qemu, Role::Keeper, Role::Proxy, Role::Yod];
const RANKS: &[u64] = &[1, 2, 4];
/// What a long job does when it is hit.
const WAYS: &[&str] = &["spin", "calls", "read", "sleep", "ignore", "print"];
/// SIGKILL, as shells show it.
const KILLED: i32 = 137;
/// A long job is hit so long after its node is up, at most.
const LATE: Duration = Duration::from_millis(300);

/// One job and how it is to be hit.
struct Round {
    victim: Role,
    ranks: u64,
    /// How a long job passes its time; a short one has none.
    way: Option<&'static str>,
    moment: Duration,
}

fn main() {
    let arguments = Arguments::from_args();
    let (rounds, seed) = (
        tree::number("KILL_ROUNDS", 100),
        Random::from_environment("KILL_SEED"),
    );
    let trials = VICTIMS.iter().zip(seed..).map(|(&victim, seed)| {
        let name = format!("{victim:?}").to_lowercase();
        Trial::test(name, move || {
            Ok(lane(victim, rounds.div_ceil(VICTIMS.len() as u64), seed)?)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// All rounds with one kind of victim.
fn lane(victim: Role, rounds: u64, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let whole = usual_time()?;
    let mut hit = 0;
    for number in 0..rounds {
        let round = Round::new(victim, number, whole, &mut random);
        let what = format!(
            "round {number}: {victim:?} of {} ranks, {}, after {:?}",
            round.ranks,
            round.way.unwrap_or("short"),
            round.moment
        );
        hit += u64::from(round.run().context(what)?);
    }
    // Short jobs may be over before the shot: but this test must not miss all the time.
    ensure!(hit * 3 >= rounds, "only {hit} of {rounds} shots hit");
    Ok(())
}

/// How long a short job takes on this machine.
fn usual_time() -> Result<Duration> {
    let since = Instant::now();
    let outcome = Round::short(1).run()?;
    ensure!(
        outcome.status == Some(0),
        "it does not even run: {}",
        outcome.stderr.text()
    );
    Ok(since.elapsed())
}

impl Round {
    fn new(victim: Role, number: u64, whole: Duration, random: &mut Random) -> Round {
        let way = (number % 2 == 1).then(|| *random.pick(WAYS));
        let (from, range) = if way.is_some() {
            (whole, LATE)
        } else {
            (Duration::ZERO, whole)
        };
        let moment = from + Duration::from_micros(random.below(range.as_micros() as u64 + 1));
        Round {
            victim,
            ranks: *random.pick(RANKS),
            way,
            moment,
        }
    }

    fn short(ranks: u64) -> Run {
        Round::yod("hello", ranks)
    }

    fn yod(program: &str, ranks: u64) -> Run {
        let program = tree::program("glibc-static", program);
        Run::yod(&[
            "-n",
            &ranks.to_string(),
            "-m",
            "64M",
            "--oversubscribe",
            "--",
            &program.to_string_lossy(),
        ])
    }

    /// True when the victim was there to be hit.
    fn run(&self) -> Result<bool> {
        let scratch = Scratch::new()?;
        let (mark, before) = (new_mark(), clean::shared_files());
        let run = match self.way {
            Some(way) => Round::yod("endless", self.ranks).args(&[way]),
            None => Round::short(self.ranks),
        };
        let temporary = scratch.path().join("tmp");
        std::fs::create_dir(&temporary)?;
        let run = run.env(&[
            (MARK, mark.as_str()),
            ("TMPDIR", &temporary.to_string_lossy()),
        ]);
        let started = run.start(&scratch)?;
        std::thread::sleep(self.moment);
        let hit = self.shoot(&mark, started.pid());
        if !hit && self.way.is_some() {
            // It would never end by itself.
            ensure!(
                process::kill(started.pid()),
                "yod is gone, and nobody killed it"
            );
        }
        let outcome = started.finish(HANG)?;
        nothing_left(&mark, &temporary, &before)?;
        self.told(&outcome, hit)
            .with_context(|| format!("stderr:\n{}", outcome.stderr.text()))?;
        Ok(hit)
    }

    fn shoot(&self, mark: &str, yod: u32) -> bool {
        let family = process::of_job(mark, yod);
        let victim = family.iter().find(|process| process.role == self.victim);
        victim.is_some_and(|victim| process::kill(victim.pid))
    }

    /// What the user saw.
    fn told(&self, outcome: &Outcome, hit: bool) -> Result<()> {
        let status = outcome.status.context("it hung")?;
        let lines = report::own_lines(outcome.stderr.head()).len();
        ensure!(
            outcome.stderr.text().lines().count() == lines,
            "somebody else speaks"
        );
        match status {
            // The shot came too late to matter: everything must have been done.
            0 => {
                let said = outcome.stdout.text().matches("hello").count() as u64;
                ensure!(
                    lines == 0 && said >= self.ranks,
                    "status 0 with {lines} lines, {said} ranks were heard"
                );
            }
            _ if !hit || self.victim == Role::Yod => ensure!(status == KILLED, "status {status}"),
            // To Linux a rank's proxy is the rank: with one rank, nobody else can say that it was killed.
            KILLED if self.victim == Role::Proxy && self.ranks == 1 => {
                ensure!(lines <= 1, "{lines} lines")
            }
            _ => ensure!(lines == 1, "{lines} lines for status {status}"),
        }
        Ok(())
    }
}
