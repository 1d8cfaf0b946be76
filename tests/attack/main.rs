//! Attacks: programs that do to a node whatever a program can, for ATTACK_SECONDS (5 unless set) each, with 1, 2 and 16 ranks in
//! turn (ATTACK_RANKS). Nothing may come of it but what Linux would do to the program: no panic, no hang, nothing left behind,
//! nothing reached that docs/trust.md says is out of reach.
//!
//! | target | what it does | what must hold |
//! |---|---|---|
//! | calls | random system calls: all numbers, wild and straddling pointers, windows, the kernel's half, while a thread moves what they point to | each rank goes on unharmed and ends with 0 |
//! | births | random fork, vfork, clone, clone3 and execve: wild flags, pointers, stacks and sizes, paths, arguments and environments, while a thread moves them, has children or becomes another program | each has an answer of Linux's, what is born and the next program have what they must, nothing is left, and each rank ends with 0 |
//! | frames | returns through signal frames with random contents | what comes of them is what natively does |
//! | memory | random memory calls against a model of each page | the model agrees, here and natively, and both runs are the same |
//! | races | every call that changes what is mapped, while other threads use the memory, by instructions and in calls, and other ranks by windows | no use of what is replaced fails; elsewhere it is made or refused; nothing of anybody else's is seen |
//! | files | ranks, two children and a stranger map, read, write, cut and sync one file | a model, which each has, agrees after every step |
//! | packets | what no gdb sends, right and damaged packets, to ranks under `--gdb` | the job ends by itself, or by its time limit; only the rank is harmed |
//! | launchers | yods with wrong variables of launchers, and process managers that answer MPI programs wrongly, by halves or not at all | each yod ends in time, with one line at most; what is right runs |
//! | images | programs with mutated headers | each ends in time, with a line or a status of its own; the node is not to blame |
//! | proc | paths to everything below /proc, spelled at random | nothing of proxies, yod, keeper and QEMU is reached |
//! | stale | pages of other ranks, read and written all the while their owner recycles memory and page tables and has children | nothing is ever seen there but that rank's own words |
//!
//! Each round prints its seed when it fails: ATTACK_SEED and ATTACK_RANKS set to it repeat that round first.

mod confined;
mod launchers;
mod packets;
mod targets;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use libtest_mimic::Arguments;
use margay_tests::random::Random;
use margay_tests::report::skipped;
use margay_tests::tree;
use margay_tests::trial::trial;

/// What a round is given.
#[derive(Clone, Copy)]
pub struct Round {
    /// Of its random choices.
    pub seed: u64,
    /// Of its job.
    pub ranks: u64,
}

/// Plays a round; how much was tried in it (calls, frames, files).
type Target = fn(Round) -> Result<u64>;

const TARGETS: &[(&str, Target)] = &[
    ("calls", targets::calls),
    ("births", targets::births),
    ("frames", targets::frames),
    ("memory", targets::memory),
    ("races", targets::races),
    ("files", targets::files),
    ("packets", packets::packets),
    ("launchers", launchers::launchers),
    ("images", targets::images),
    ("proc", targets::proc_paths),
    ("stale", targets::stale),
];

fn main() {
    let arguments = Arguments::from_args();
    let seconds = Duration::from_secs(tree::number("ATTACK_SECONDS", 5));
    let seed = Random::from_environment("ATTACK_SEED");
    let ranks = ranks();
    let trials = TARGETS.iter().map(|&(name, target)| {
        let ranks = ranks.clone();
        let trial = trial(name, move || {
            let tried = attack(target, seed, &ranks, seconds)?;
            println!("{name}: {tried}");
            Ok(())
        });
        trial.with_ignored_flag(!confined::possible())
    });
    let trials = trials.collect();
    if !confined::possible() {
        skipped("attacks need root, to run as somebody who owns nothing");
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// Numbers of ranks, in turn.
fn ranks() -> Vec<u64> {
    let set = std::env::var("ATTACK_RANKS").unwrap_or_else(|_| "1,2,16".into());
    let numbers = set.split(',').map(str::parse).collect::<Result<_, _>>();
    numbers.expect("ATTACK_RANKS has numbers, separated by commas")
}

/// Round after round, each number of ranks at least once.
fn attack(target: Target, seed: u64, ranks: &[u64], time: Duration) -> Result<String> {
    let end = Instant::now() + time;
    let (mut rounds, mut tried) = (0, 0);
    while rounds < ranks.len() || Instant::now() < end {
        let (seed, ranks) = (seed + rounds as u64, ranks[rounds % ranks.len()]);
        let round = Round { seed, ranks };
        tried += target(round)
            .with_context(|| format!("repeat it with ATTACK_SEED={seed} ATTACK_RANKS={ranks}"))?;
        rounds += 1;
    }
    Ok(format!("{rounds} rounds, {tried} in all"))
}
