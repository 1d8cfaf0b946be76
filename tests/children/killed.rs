//! Parents and children that are killed at any moment: what natively would end ends, and nothing stays.
//!
//! CHILDREN_KILLS says how many rounds, CHILDREN_SEED which.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::clean::{self, GONE};
use margay_tests::process::{self, MARK, Role};
use margay_tests::random::Random;
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Rounds in the check.
const ROUNDS: u64 = 20;
/// Nodes boot and fork within this, on a quiet machine: a moment in it may be any.
const SPAN: Duration = Duration::from_millis(600);

/// How a rank makes children without end (programs/children/forks.c).
const WAYS: &[&str] = &["many", "many_vforks"];

/// One round: a rank forks without end, and one of its job's proxies or children is killed.
fn round(random: &mut Random) -> Result<()> {
    let scratch = Scratch::new()?;
    let temporary = scratch.path().join("tmp");
    std::fs::create_dir_all(&temporary)?;
    let (mark, before) = (clean::new_mark(), clean::shared_files());
    let program = tree::program("glibc-static", "forks");
    let run = Run::yod(&[
        "-m",
        "64M",
        "--",
        &program.to_string_lossy(),
        *random.pick(WAYS),
        "1000000",
    ]);
    let run = run.env(&[
        (MARK, mark.as_str()),
        ("TMPDIR", &temporary.to_string_lossy()),
    ]);
    let started = run.start(&scratch)?;
    std::thread::sleep(Duration::from_micros(random.below(SPAN.as_micros() as u64)));
    // Proxies and children: the last is a child as often as not. Before there are any, the job goes on.
    let mut victims: Vec<u32> = Vec::new();
    let found = process::wait_until(HANG, || {
        let all = process::of_job(&mark, started.pid()).into_iter();
        victims = all
            .filter(|process| process.role == Role::Proxy)
            .map(|process| process.pid)
            .collect();
        !victims.is_empty()
    });
    ensure!(found, "there is no proxy");
    let _ = process::kill(*random.pick(&victims));
    // A child that is killed is what the program finds wrong at its end: it is ended now.
    let yod = started.pid();
    process::signal(yod, rustix::process::Signal::TERM);
    let outcome = started.finish(HANG)?;
    outcome.ended()?;
    ensure!(
        process::left_over(&mark, GONE).is_empty(),
        "children are left"
    );
    clean::nothing_left(&mark, &temporary, &before)
}

#[test]
fn leave_nothing_whoever_is_killed() -> Result<()> {
    let seed = Random::from_environment("CHILDREN_SEED");
    let mut random = Random::new(seed);
    for number in 0..tree::number("CHILDREN_KILLS", ROUNDS) {
        round(&mut random).with_context(|| format!("seed {seed}, round {number}"))?;
    }
    Ok(())
}
