//! A hostile host: while a rank makes all kinds of calls, random words are written into everything that the node shares with its
//! keeper and its proxies (docs/trust.md), for HOSTILE_SECONDS (5 unless set) by each of the emulator's ways of running CPUs.
//!
//! The node's own processes go on beside that, so that calls are in flight at every moment, and they see the words, too. What
//! must hold: the kernel does not panic, and the job ends at a signal, if not before. When only the words of one rank are
//! written, its proxy's, a second rank goes on.
//!
//! Each round prints its seed when it fails: HOSTILE_SEED set to it repeats that round first.

mod area;
mod host;
mod round;
mod tables;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use libtest_mimic::Arguments;
use margay_tests::random::Random;
use margay_tests::report::skipped;
use margay_tests::tree;
use margay_tests::trial::trial;

/// What a case does.
type Test = Box<dyn FnOnce() -> Result<()> + Send>;

fn main() {
    let arguments = Arguments::from_args();
    let time = Duration::from_secs(tree::number("HOSTILE_SECONDS", 5));
    let seed = Random::from_environment("HOSTILE_SEED");
    let possible = rustix::process::geteuid().is_root();
    if !possible {
        skipped("a hostile host needs root, to write into other processes' memory");
    }
    let case = |name, test: Test| trial(name, test).with_ignored_flag(!possible);
    let trials = vec![
        case("single", Box::new(move || play("single", seed, time))),
        case("multi", Box::new(move || play("multi", seed, time))),
        case("tables", Box::new(tables::are_not_mapped)),
        case("bell_never_decided", Box::new(round::hold_bells)),
        case("mappings_never_followed", Box::new(round::hold_mappings)),
        case("trace_never_read", Box::new(round::hold_trace)),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

/// Round after round.
fn play(threads: &'static str, seed: u64, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    let (mut rounds, mut words) = (0, 0);
    while rounds == 0 || Instant::now() < end {
        let seed = seed + rounds;
        words += round::play(threads, seed)
            .with_context(|| format!("repeat it with HOSTILE_SEED={seed}"))?;
        rounds += 1;
    }
    println!("{threads}: {rounds} rounds, {words} words");
    Ok(())
}
