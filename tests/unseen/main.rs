//! What no ordinary program would notice: counters that do not count, memory that is lost little by little, interrupts that have to
//! wait. Each of these once went wrong on purpose, and every other test passed.

use anyhow::{Context, Result, ensure};
use margay_tests::bench::{build, numbers};
use margay_tests::report::{Stats, Stderr};
use margay_tests::run::{Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// Bytes of a partition, as yod takes them and as a number.
const PARTITION: (&str, f64) = ("64M", (64 << 20) as f64);

/// Runs a program of bench/programs on Margay; it must go well.
fn run(options: &[&str], counted: bool, name: &str, args: &[&str]) -> Result<(Outcome, Stats)> {
    run_under(&[], options, counted, name, args)
}

/// As [`run`], with yod as an argument of another command.
fn run_under(
    command: &[&str],
    options: &[&str],
    counted: bool,
    name: &str,
    args: &[&str],
) -> Result<(Outcome, Stats)> {
    let scratch = Scratch::new()?;
    let program = build(&scratch, name)?;
    // But for TCG there is no count of instructions.
    let machine = if counted {
        "--accel=tcg"
    } else {
        &tree::machine()
    };
    let mut run = Run::bare_yod(&["--stats=json", "--oversubscribe", machine])
        .args(options)
        .args(&["--", &program.to_string_lossy()])
        .args(args);
    if counted {
        // The TSC counts instructions of one core, whatever the host does meanwhile.
        run = run.on_core(first_core()?).env(&[("MARGAY_ICOUNT", "1")]);
    }
    let outcome = run.under(command).run_in(&scratch)?;
    outcome.ended_well()?;
    let said = outcome.stderr.text();
    let stats = Stderr::new(outcome.stderr.head()).context(said)?.stats;
    Ok((outcome, stats))
}

/// A core that this process may use.
fn first_core() -> Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let cores = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .context("no Cpus_allowed_list")?;
    let digits = cores.trim().chars().take_while(char::is_ascii_digit);
    Ok(digits.collect::<String>().parse()?)
}

/// The counter of page faults could be dead: where none is expected, none was found.
#[test]
fn page_faults_are_counted() -> Result<()> {
    let (_, stats) = run(&["-m", PARTITION.0], false, "events", &["faults", "37"])?;
    let faults = stats.number("/total/page_faults")?;
    ensure!(faults == 37, "{faults} page faults counted of 37");
    Ok(())
}

/// So could that of timer interrupts, and that of entries.
#[test]
fn timer_interrupts_are_counted() -> Result<()> {
    let (_, stats) = run(&["-m", PARTITION.0], false, "events", &["ticks", "23"])?;
    let ticks = stats.number("/total/timer_interrupts")?;
    ensure!(ticks == 23, "{ticks} timer interrupts counted of 23");
    let calls = stats.number("/total/local_calls")? + stats.number("/total/shipped_calls")?;
    let entries = stats.rank_entries()?;
    ensure!(
        entries >= calls + 23,
        "{entries} entries, {calls} calls and 23 interrupts"
    );
    Ok(())
}

/// Barriers for all processes that ordered the accesses of the caller's rank only: of two ranks with a core each, neither
/// interrupted the other.
#[test]
fn barriers_for_all_reach_other_ranks() -> Result<()> {
    let options = ["-n", "2", "-m", PARTITION.0];
    let (_, stats) = run(&options, false, "events", &["barriers", "50"])?;
    let ipis = stats.number("/total/ipis")?;
    // Two may be taken at once while the other rank makes one itself.
    ensure!(ipis >= 50, "{ipis} interrupts by 100 barriers");
    Ok(())
}

/// Preemption points that never let anything in: a timer of 1 ms interrupts a call that takes 8 ms, and not only its end.
#[test]
fn preemption_points_let_interrupts_in() -> Result<()> {
    interrupts_come_in(&["-m", "160M"], &["copied", "64"])
}

/// The same of memory that is cleared, which has no such points: interrupts are on.
#[test]
fn clearing_lets_interrupts_in() -> Result<()> {
    interrupts_come_in(&["-m", "96M"], &["cleared", "64"])
}

fn interrupts_come_in(options: &[&str], call: &[&str]) -> Result<()> {
    let (_, stats) = run(options, true, "events", call)?;
    let ticks = stats.number("/total/timer_interrupts")?;
    ensure!(ticks >= 5, "{ticks} timer interrupts during a long call");
    Ok(())
}

/// A timer of a microsecond whose signal waits, or is ignored, interrupted its core at each expiration, whatever ran there.
#[test]
fn what_sends_nothing_interrupts_no_core() -> Result<()> {
    let (_, stats) = run(&["-m", PARTITION.0], true, "events", &["untaken", "10"])?;
    let ticks = stats.number("/total/timer_interrupts")?;
    // One before the signal waits, one when it was taken, one when it is ignored.
    ensure!(
        (1..=4).contains(&ticks),
        "{ticks} timer interrupts of a timer that could send two or three signals"
    );
    Ok(())
}

/// The timer of a core that two threads shared went on when one of them had ended.
#[test]
fn a_core_that_is_not_shared_any_more_has_no_timer() -> Result<()> {
    let ticks = |kind| -> Result<u64> {
        let (_, stats) = run(&["-m", PARTITION.0], true, "events", &[kind, "10"])?;
        stats.number("/total/timer_interrupts")
    };
    let (shared, left) = (ticks("shared")?, ticks("left")?);
    ensure!(
        shared >= 10,
        "{shared} timer interrupts while two threads shared a core"
    );
    // The last slice may end when the other thread is gone.
    ensure!(
        left <= shared + 1,
        "{left} timer interrupts instead of {shared} when one of two threads went on alone"
    );
    Ok(())
}

/// Threads that wait in calls for a peer that does nothing looked for it again and again.
#[test]
fn blocked_threads_cost_nothing() -> Result<()> {
    const TIMED: [&str; 4] = [
        "/bin/bash",
        "-c",
        "TIMEFORMAT=$'user_s %U\nsystem_s %S'; time \"$@\"",
        "bash",
    ];
    const BLOCKED_S: f64 = 4.0;
    // Interrupts of slices as the threads start, and doorbells, more or less.
    const FEW: u64 = 20;
    let blocked = |ms: &str| -> Result<([u64; 2], f64)> {
        let options = ["-m", "256M", "-d", "2"];
        let (outcome, stats) = run_under(&TIMED, &options, false, "events", &["blocked", ms])?;
        let text = outcome.stderr.text();
        let seconds = numbers(&text, "user_s")?[0] + numbers(&text, "system_s")?[0];
        let counted = [
            stats.rank_entries()?,
            stats.number("/total/timer_interrupts")?,
        ];
        Ok((counted, seconds))
    };
    let (before, start_s) = blocked("1")?;
    let (after, all_s) = blocked(&(BLOCKED_S * 1000.0).to_string())?;
    for (what, before, after) in [
        ("entries into the kernel", before[0], after[0]),
        ("timer interrupts", before[1], after[1]),
    ] {
        ensure!(
            after <= before + FEW,
            "{after} {what} by threads that waited for {BLOCKED_S} s, {before} by those that did not"
        );
    }
    let took_s = all_s - start_s;
    // What polls uses a processor all the time; how long a start takes is up to the host.
    ensure!(
        took_s < BLOCKED_S / 2.0,
        "{took_s} s of processor time in {BLOCKED_S} s in which all threads waited"
    );
    Ok(())
}

/// A core that two threads wake in turn never polled before it halted; or one did that only its own timer wakes.
#[test]
fn cores_poll_that_others_wake() -> Result<()> {
    let polls = |cores: &str, name: &str, args: &[&str]| -> Result<u64> {
        let (_, stats) = run(&["-m", PARTITION.0, "-d", cores], false, name, args)?;
        stats.number("/total/halt_polls")
    };
    let by_threads = polls("2", "round_trip", &["500"])?;
    let by_timer = polls("1", "timers", &["1000", "50"])?;
    ensure!(
        by_threads > 0 && by_timer == 0,
        "{by_threads} polls of cores that wake each other, {by_timer} of one that its timer wakes"
    );
    Ok(())
}

/// What enters the kernel between regions of OpenMP besides futexes: then there is more of it in a run with more regions.
#[test]
fn regions_of_openmp_enter_by_futexes_alone() -> Result<()> {
    // Doorbells, and interrupts by the other core, that come while a thread computes; ticks of a core that a new thread shares until
    // it binds itself.
    const FEW: u64 = 20;
    type Args = &'static [&'static str];
    let programs: [(_, Args, Args, _); 2] = [
        ("omp_stream", &["20000", "5"], &["20000", "105"], 400),
        (
            "omp_cg",
            &["16", "16", "16", "5"],
            &["16", "16", "16", "65"],
            300,
        ),
    ];
    for (name, few, many, regions) in programs {
        let besides = |args| -> Result<u64> {
            let (_, stats) = run(&["-m", PARTITION.0, "-d", "2"], false, name, args)?;
            let faults = stats.number("/total/page_faults")?;
            let ticks = stats.number("/total/timer_interrupts")?;
            ensure!(
                faults == 0 && ticks <= FEW,
                "{name}: {faults} page faults, {ticks} timer interrupts"
            );
            let futexes = stats.calls("futex");
            ensure!(futexes > 0, "{name}: no futex is counted");
            Ok(stats.rank_entries()? - futexes)
        };
        let (before, after) = (besides(few)?, besides(many)?);
        ensure!(
            after <= before + FEW,
            "{name}: {after} entries besides futexes, {before} with {regions} regions less"
        );
    }
    Ok(())
}

/// Interval timers and sleeps that took twice as long as requested.
#[test]
fn interval_timers_keep_their_interval() -> Result<()> {
    let (outcome, _) = run(&["-m", PARTITION.0], true, "timers", &["1000", "20"])?;
    let text = outcome.stdout.text();
    let one = |name| -> Result<f64> { Ok(numbers(&text, name)?[0]) };
    // A tick is a nanosecond under icount.
    for (name, wanted) in [
        ("first_ticks", 1e6),
        ("interval_ticks", 1e6),
        ("sleep_ticks", 1e6),
        ("left_us", 1e3),
        ("interval_left_us", 1e3),
    ] {
        let found = one(name)?;
        ensure!(
            (found - wanted).abs() <= wanted / 100.0,
            "{name} is {found}, not about {wanted}"
        );
    }
    Ok(())
}

/// Rank 1 that had 8 MiB less than rank 0: the test read the kernel's own record of it.
#[test]
fn every_rank_can_have_its_whole_partition() -> Result<()> {
    let (outcome, _) = run(
        &["-n", "3", "-m", PARTITION.0, "--label"],
        false,
        "fill",
        &[],
    )?;
    let had = numbers(&outcome.stdout.text(), "before_bytes")?;
    ensure!(had.len() == 3, "{} ranks", had.len());
    // A partition has the stack, an eighth of it, and the program in it.
    let least = PARTITION.1 * 7.0 / 8.0 - f64::from(4 << 20);
    ensure!(
        had.iter().all(|&bytes| bytes == had[0] && bytes > least),
        "ranks could have {had:?} bytes of {}",
        PARTITION.1
    );
    Ok(())
}

/// Ranks that had as many threads, queued signals and regions as they may have left others without memory of the kernel for theirs.
#[test]
fn every_rank_can_have_its_regions() -> Result<()> {
    const RANKS: usize = 16;
    let options = ["-n", &RANKS.to_string(), "-m", "32M", "--label"];
    let (outcome, _) = run(&options, false, "most", &[])?;
    let had = numbers(&outcome.stdout.text(), "regions")?;
    ensure!(had.len() == RANKS, "{} ranks", had.len());
    ensure!(
        had.iter().all(|&regions| regions == had[0]),
        "ranks could have {had:?} regions"
    );
    Ok(())
}

/// Frames that were never given back: only a program that had to run out of memory noticed.
#[test]
fn no_frame_is_lost() -> Result<()> {
    const ROUNDS: &str = "1000";
    // Page tables that may be kept for later.
    const KEPT_BYTES: f64 = (256 << 10) as f64;
    let (outcome, _) = run(&["-m", PARTITION.0], false, "fill", &[ROUNDS])?;
    let text = outcome.stdout.text();
    let (before, after) = (
        numbers(&text, "before_bytes")?[0],
        numbers(&text, "after_bytes")?[0],
    );
    ensure!(
        after > before - KEPT_BYTES,
        "{} bytes were lost in {ROUNDS} rounds",
        before - after
    );
    Ok(())
}

/// A QEMU that does not load the agent runs programs all the same: only who wants a file laid notices.
#[test]
fn the_agent_is_in_qemu_or_it_is_said() -> Result<()> {
    let hello = tree::program("glibc-static", "hello");
    for is_library in [true, false] {
        let scratch = Scratch::new()?;
        let [log, file] = ["log", "file"].map(|name| scratch.path().join(name));
        std::fs::write(&file, "no library")?;
        let [log, file] = [&log, &file].map(|path| path.to_string_lossy());
        let library = [("MARGAY_AGENT_LIBRARY", &*file)];
        let outcome = Run::yod(&["--kernel-log", &log, "--", &hello.to_string_lossy()])
            .env(if is_library { &[] } else { &library })
            .run_in(&scratch)?;
        outcome.ended_well()?;
        let text = std::fs::read_to_string(&*log)?;
        let is_missing = text.contains("agent: the machine has none");
        ensure!(
            text.contains("PCT") && is_missing != is_library,
            "{is_library}: {text}"
        );
    }
    Ok(())
}
