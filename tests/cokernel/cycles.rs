//! Jobs one after the other in the guest, and jobs whose processes are killed at random moments: nothing of them stays, and Linux has
//! all that it had.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use margay_tests::clean::new_mark;
use margay_tests::process::{self, MARK, Role};
use margay_tests::random::Random;
use margay_tests::run::{HANG, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

use super::inside::{ALLOWED_KIB, State};

/// Memory is compared each time after so many jobs.
const WEIGHED: u64 = 10;
/// What Linux may have for itself after all of them, besides what may be missing: its uses of memory grow a little.
const OWN_KIB: i64 = 3072;
/// A job that does not end is hit so long after its ranks are there, at most.
const LATE_MS: u64 = 300;
/// A job that was over before it was hit is started again, so often.
const TRIES: u32 = 10;
const VICTIMS: [Role; 3] = [Role::Yod, Role::Keeper, Role::Proxy];
/// What a long job does when it is hit.
const WAYS: [&str; 5] = ["spin", "calls", "sleep", "map", "print"];

/// So many jobs that end, and so many that are killed.
pub fn run(jobs: u64, kills: u64, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let whole = job(&mut random)?; // what the first leaves in Linux's caches counts for none
    let before = State::now()?;
    for number in 0..jobs {
        job(&mut random).with_context(|| format!("job {number}"))?;
        check(&before, number)?;
    }
    for number in 0..kills {
        let mut longest = whole;
        let mut tries = 0;
        while !kill(longest, &mut random).with_context(|| format!("kill {number}"))? {
            tries += 1;
            longest /= 2;
            ensure!(tries < TRIES, "kill {number} never hit");
        }
        check(&before, number)?;
    }
    println!(
        "{jobs} jobs, {kills} kills: {}",
        before.settle(ALLOWED_KIB, OWN_KIB)?
    );
    Ok(())
}

/// CPUs and interrupts each time, memory now and then: for that, what Linux keeps of files is dropped.
fn check(before: &State, number: u64) -> Result<()> {
    before.settle_but_memory()?;
    if number % WEIGHED == WEIGHED - 1 {
        println!("{}: {}", number + 1, before.settle(ALLOWED_KIB, OWN_KIB)?);
    }
    Ok(())
}

fn command(ranks: u64, program: &str) -> Run {
    let program = tree::program("glibc-static", program);
    Run::yod(&["-n", &ranks.to_string(), "-m", "64M", "--oversubscribe"])
        .args(&["--", &program.to_string_lossy()])
}

/// One that ends by itself; how long that took.
fn job(random: &mut Random) -> Result<Duration> {
    let since = Instant::now();
    let status = i32::try_from(random.below(100))?;
    let ranks = 1 + random.below(4);
    let outcome = command(ranks, "exit_code")
        .args(&["return", &status.to_string()])
        .run()?;
    ensure!(
        outcome.status == Some(status),
        "{ranks} ranks: {:?}, not {status}: {}",
        outcome.status,
        outcome.stderr.text()
    );
    Ok(since.elapsed())
}

/// Kills a process of a job, half of them before it is up or as it ends; false if that was over before.
fn kill(longest: Duration, random: &mut Random) -> Result<bool> {
    let (scratch, mark) = (Scratch::new()?, new_mark());
    let victim = *random.pick(&VICTIMS);
    let way = random.once_in(2).then(|| *random.pick(&WAYS));
    let run = match way {
        Some(way) => command(1 + random.below(4), "endless").args(&[way]),
        None => command(1 + random.below(4), "hello"),
    };
    let started = run.env(&[(MARK, mark.as_str())]).start(&scratch)?;
    let yod = started.pid();
    let wait_for = |roles: &[Role]| process::wait_for(roles, &mark, yod);
    let moment = if way.is_some() {
        // Until it has its name the keeper looks like a proxy.
        wait_for(&[Role::Keeper, Role::Proxy]);
        Duration::from_millis(random.below(LATE_MS))
    } else {
        Duration::from_micros(random.below(longest.as_micros() as u64 + 1))
    };
    std::thread::sleep(moment);
    wait_for(&[victim]);
    let all = process::of_job(&mark, yod);
    let hit = all.iter().find(|process| process.role == victim);
    let hit = hit.is_some_and(|victim| process::kill(victim.pid));
    let what = format!("{victim:?} of {} after {moment:?}", way.unwrap_or("hello"));
    let outcome = started.finish(HANG)?;
    outcome.ended().with_context(|| what.clone())?;
    let left = process::left_over(&mark, HANG);
    ensure!(left.is_empty(), "{what}: still there: {left:?}");
    let unhurt = way.is_some() && outcome.status == Some(0);
    ensure!(!unhurt, "{what}: status 0");
    Ok(hit)
}
