//! Noise: what a program that only computes notices of the system, which is nothing.
//!
//! On one core under `-icount` every instruction counts, so the usual measures of noise (FWQ, FTQ, selfish detour, programs of
//! bench/programs) must find exactly none. On several cores the kernel's own counters say whether it was entered: they are
//! read while the node runs, from its memory, which disturbs nothing; a plugin of QEMU confirms it, where there is one. Each
//! test has a control in which there is noise.

mod barriers;
mod node;
mod pair;
mod team;
mod watched;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use margay_tests::bench::build;
use margay_tests::clean::new_mark;
use margay_tests::process::{self, MARK, Role};
use margay_tests::report::Stderr;
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::{Pid, Signal, kill_process};

use crate::pair::Pair;
use crate::watched::Watched;

/// The longest run, on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks, and between two signals.
const MOMENT: Duration = Duration::from_millis(10);
/// A core has settled when nothing entered the kernel for so long: a doorbell for what it did last would have come.
const SETTLED: Duration = Duration::from_millis(500);

// One core: instructions.

#[test]
fn fixed_work_quanta_all_take_the_same() -> Result<()> {
    exactly_none("fwq", &["1000"], fwq)
}

#[test]
fn fixed_time_quanta_all_hold_the_same_work() -> Result<()> {
    exactly_none("ftq", &["1000"], ftq)
}

#[test]
fn there_is_no_detour() -> Result<()> {
    exactly_none("selfish", &["3000000"], selfish)
}

/// Runs the program, which must be disturbed when signals come that do nothing, and must not be when none come.
fn exactly_none(name: &str, args: &[&str], noise: fn(&str) -> Result<f64>) -> Result<()> {
    let found = |signals| -> Result<f64> {
        let outcome = counted(name, args, signals)?;
        let text = outcome.stdout.text();
        outcome.ended_well()?;
        noise(&text).with_context(|| format!("{name} printed:\n{text}"))
    };
    let control = found(true)?;
    ensure!(
        control > 0.0,
        "{name} does not notice signals: it would notice nothing"
    );
    let ticks = found(false)?;
    ensure!(
        ticks == 0.0,
        "{name}: {ticks} instructions that are not its own"
    );
    Ok(())
}

/// Runs a program on a node of one core where the TSC counts instructions; with signals that are ignored, if wanted.
fn counted(name: &str, args: &[&str], signals: bool) -> Result<Outcome> {
    let (scratch, mark) = (Scratch::new()?, new_mark());
    let program = build(&scratch, name)?;
    let core = first_core()?;
    let yod = tree::yod();
    let run = Run::new(["/usr/bin/taskset", "--cpu-list", &core])
        .args(&[yod.to_string_lossy()])
        .args(&["-n", "1", "-m", "64M", "--accel", "tcg", "--"])
        .args(&[program.to_string_lossy()])
        .args(args)
        .env(&[("MARGAY_ICOUNT", "1"), (MARK, &mark)]);
    let started = run.start(&scratch)?;
    if signals {
        // To the program's own process, from before its start to its end.
        let end = Instant::now() + LIMIT;
        while alive(started.pid()) && Instant::now() < end {
            let family = process::of_job(&mark, started.pid());
            for proxy in family.iter().filter(|process| process.role == Role::Proxy) {
                send(proxy.pid, Signal::URG);
            }
            std::thread::sleep(MOMENT);
        }
    }
    started.finish(LIMIT)
}

fn fwq(text: &str) -> Result<f64> {
    let samples = series(text, "fwq_ticks")?;
    ensure!(samples.len() == 1000, "{} samples", samples.len());
    ensure!(spread(&samples) == number(text, "longest_detour_ticks")?);
    Ok(spread(&samples))
}

fn ftq(text: &str) -> Result<f64> {
    let counts = series(text, "ftq_count")?;
    ensure!(counts.len() == 1000, "{} samples", counts.len());
    Ok(spread(&counts) * number(text, "unit_ticks")?)
}

/// Turns of the loop that all took the same took together as many times the shortest.
fn selfish(text: &str) -> Result<f64> {
    let (longest, lost) = (
        number(text, "longest_detour_ticks")?,
        number(text, "lost_ticks")?,
    );
    ensure!(longest <= lost, "a detour is part of what is lost");
    ensure!(number(text, "loop_ticks")? > 0.0);
    Ok(lost)
}

fn spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most - least
}

// Several cores: entries into the kernel.

#[test]
fn a_rank_does_not_notice_another() -> Result<()> {
    let scratch = Scratch::new()?;
    let pair = Pair::start(&scratch)?;
    let before = pair.sample()?;
    pair.disturb_the_busy_one()?;
    let busy = pair.sample()?;
    busy.shows_progress_since(&before)?;
    pair.wait_for_the_busy_ones_end()?;
    std::thread::sleep(SETTLED);
    let after = pair.sample()?;
    for sample in [&busy, &after] {
        sample.quiet_since(&before)?;
    }
    // It has made no call since, and the kernel has not run: still it can be ended.
    let outcome = pair.interrupt()?;
    ensure!(
        outcome.status == Some(130),
        "status {:?} after SIGINT: {}",
        outcome.status,
        outcome.stderr.text()
    );
    let stats = Stderr::new(outcome.stderr.head())?.stats;
    let entries = stats.number("/cores/0/entries")?;
    ensure!(
        entries > after.quiet.entries.load(),
        "the signal that ended rank 0 did not enter the kernel on its core"
    );
    Ok(())
}

/// The same by another witness, who does not depend on what the kernel says of itself.
#[test]
#[ignore = "needs QEMU's plugin: the step `plugin` of the check builds and runs it"]
fn the_core_of_a_rank_executes_nothing_but_the_rank() -> Result<()> {
    let scratch = Scratch::new()?;
    let watched = Watched::new(scratch.path());
    let pair = Pair::start_watched(&scratch, Some(watched))?;
    let before = pair.sample()?;
    pair.disturb_the_busy_one()?;
    let busy = pair.sample()?;
    busy.shows_progress_since(&before)?;
    busy.watched_quiet_since(&before)?;
    pair.wait_for_the_busy_ones_end()?;
    std::thread::sleep(SETTLED);
    pair.sample()?.watched_quiet_since(&before)?;
    // A control: what does disturb it is seen.
    send(pair.pid(0)?, Signal::USR1);
    let seen = wait_until(|| Ok(pair.sample()?.watched_quiet_since(&before).is_err()))?;
    ensure!(seen, "the plugin does not see a signal to rank 0");
    pair.interrupt().map(|_| ())
}

#[test]
fn a_signal_is_noticed() -> Result<()> {
    let scratch = Scratch::new()?;
    let pair = Pair::start(&scratch)?;
    let before = pair.sample()?;
    send(pair.pid(0)?, Signal::USR1);
    let noticed = wait_until(|| Ok(pair.sample()?.quiet_since(&before).is_err()))?;
    ensure!(noticed, "a signal to rank 0 counts as quiet");
    pair.interrupt().map(|_| ())
}

// Programs and processes.

/// Number of a core that this process may use.
fn first_core() -> Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let cores = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .context("no Cpus_allowed_list")?;
    let digits = cores.trim().chars().take_while(char::is_ascii_digit);
    Ok(digits.collect())
}

/// Whether a child still runs that has not been waited for yet.
fn alive(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Sends a signal; the process may be gone.
fn send(process: u32, signal: Signal) {
    let pid = process.try_into().ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, signal));
}

/// Polls; false when it did not come true in time.
fn wait_until(mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if is_so()? {
            return Ok(true);
        }
        std::thread::sleep(MOMENT);
    }
    Ok(false)
}

/// The value of a line "name value".
fn number(text: &str, name: &str) -> Result<f64> {
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(found.with_context(|| format!("no {name}"))?.parse()?)
}

/// The values of a line "series name value value ...".
fn series(text: &str, name: &str) -> Result<Vec<f64>> {
    let begin = format!("series {name} ");
    let found = text.lines().find_map(|line| line.strip_prefix(&begin));
    let words = found.with_context(|| format!("no series {name}"))?;
    Ok(words.split(' ').map(str::parse).collect::<Result<_, _>>()?)
}
