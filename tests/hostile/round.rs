//! One job under a hostile host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::clean::{self, new_mark, nothing_left};
use margay_tests::process::{self, MARK, Role, wait_until};
use margay_tests::random::Random;
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::Signal;

use crate::area::Area;
use crate::host::{self, Plan, Way};

/// The node is left alone so long at most, and then written to.
const LATE_MS: u64 = 300;
const LONG_MS: u64 = 500;
/// A rank whose signals or calls were lost does not end at a signal, as one whose proxy loses them: yod ends it then.
const TIME_LIMIT: &str = "5";
/// Of a node whose words are held: longer than its second rank is waited for.
const HELD_LIMIT: &str = "300";
/// The emulator's options are yod's, but for how its CPUs share the host's.
const EMULATOR: &str = "#!/bin/sh
for word in \"$@\"; do
    shift
    [ \"$word\" = tcg ] && word=tcg,thread=THREADS
    set -- \"$@\" \"$word\"
done
exec /usr/bin/qemu-system-x86_64 \"$@\"
";

/// How often the second rank counts while words are held.
const HELD_COUNTS: usize = 20;

/// What a seed says.
#[derive(Debug)]
struct Round {
    ranks: u64,
    one_core: bool,
    options: Vec<String>,
    time_limit: &'static str,
    plan: Plan,
    late: Duration,
    long: Duration,
}

impl Round {
    fn new(random: &mut Random, scratch: &Path) -> Round {
        let ranks = 1 + random.below(2);
        let way = *random.pick(&[
            Way::AllWords,
            Way::HostWords,
            Way::Answers,
            Way::HostWordsAndAnswers,
        ]);
        let mut options = Vec::new();
        if random.once_in(4) {
            options.push("--strace=/dev/null".into());
        }
        if random.once_in(4) {
            options.push("--stats=/dev/null".into());
        }
        // A rank with a debugger waits for it.
        if ranks == 1 && random.once_in(4) {
            options.push(format!("--gdb={}", scratch.join("gdb").display()));
        }
        Round {
            ranks,
            one_core: random.once_in(2),
            options,
            time_limit: TIME_LIMIT,
            plan: Plan {
                way,
                only: random.once_in(2).then_some(0),
                pause: *random.pick(&[0, 100, 10_000, 1_000_000]),
                part: random.once_in(3).then(|| random.next()),
            },
            late: Duration::from_millis(random.below(LATE_MS)),
            long: Duration::from_millis(random.below(LONG_MS)),
        }
    }

    fn job(&self, scratch: &Path, seed: u64) -> Run {
        let ranks = self.ranks.to_string();
        let log = scratch.join("kernel").to_string_lossy().into_owned();
        let busy = tree::program("attack", "busy")
            .to_string_lossy()
            .into_owned();
        let job = Run::bare_yod(&["--accel", "tcg", "-n", &ranks, "--oversubscribe"])
            .args(&["-m", "64M", "--quiet", "--kernel-log", &log])
            .args(&["--timeout", self.time_limit])
            .args(&self.options)
            .args(&["--", &busy, &seed.to_string(), "1000000"]);
        if self.one_core { job.on_core(0) } else { job }
    }
}

/// Plays a round; how many words were written.
pub fn play(threads: &str, seed: u64) -> Result<u64> {
    let scratch = Scratch::new()?;
    let round = Round::new(&mut Random::new(seed), scratch.path());
    carry_out(&round, &scratch, threads, seed, |started, mark| {
        attack(&round, mark, started, seed, scratch.path())
    })
}

/// An answer that never said whether the proxy rings for it kept the kernel waiting: of two ranks that share a CPU, and a host that says
/// so of no answer for the first, the second goes on.
pub fn hold_bells() -> Result<()> {
    hold(Vec::new(), Area::bells)
}

/// The same where the proxy of the first never follows its mappings.
pub fn hold_mappings() -> Result<()> {
    hold(Vec::new(), Area::followed)
}

/// The same where nobody reads the trace of the first.
pub fn hold_trace() -> Result<()> {
    hold(vec!["--strace=/dev/null".into()], Area::traced)
}

/// Holds words of the first of two ranks that share a CPU.
fn hold(options: Vec<String>, words: fn(&Area) -> Vec<u64>) -> Result<()> {
    let scratch = Scratch::new()?;
    let round = Round {
        ranks: 2,
        one_core: true,
        options,
        time_limit: HELD_LIMIT,
        plan: Plan {
            way: Way::HostWords,
            only: Some(0),
            pause: 0,
            part: None,
        },
        late: Duration::ZERO,
        long: Duration::ZERO,
    };
    carry_out(&round, &scratch, "single", 1, |started, mark| {
        hold_words(mark, started, scratch.path(), words).map(|()| 0)
    })
    .map(|_| ())
}

/// Plays a round with what `host` does to it.
fn carry_out(
    round: &Round,
    scratch: &Scratch,
    threads: &str,
    seed: u64,
    host: impl FnOnce(&Started<'_>, &str) -> Result<u64>,
) -> Result<u64> {
    let bin = scratch.path().join("bin");
    let temporary = scratch.path().join("tmp");
    fs::create_dir(&bin)?;
    fs::create_dir(&temporary)?;
    let emulator = bin.join("qemu-system-x86_64");
    fs::write(&emulator, EMULATOR.replace("THREADS", threads))?;
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755))?;
    let (mark, before) = (new_mark(), clean::shared_files());
    let job = round.job(scratch.path(), seed).env(&[
        (MARK, mark.as_str()),
        ("PATH", &format!("{}:/usr/bin:/bin", bin.display())),
        ("TMPDIR", &temporary.to_string_lossy()),
        ("XDG_STATE_HOME", &scratch.path().to_string_lossy()),
    ]);
    let started = job.start(scratch)?;
    let written = host(&started, &mark).with_context(|| format!("{round:?}"));
    process::signal(started.pid(), Signal::TERM);
    wait_until(HANG, || has_ended(started.pid()) && no_child_goes_on(&mark));
    let outcome = started.finish(HANG)?;
    let log = fs::read(scratch.path().join("kernel")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let judged = the_kernel_survives(&log)
        .and_then(|()| the_job_ends(round, &outcome))
        .and(written);
    let words = judged.with_context(|| {
        let (status, stderr) = (outcome.status, outcome.stderr.text());
        format!("{round:?}\nstatus {status:?}, stderr:\n{stderr}\nkernel:\n{log}")
    })?;
    nothing_left(&mark, &temporary, &before).with_context(|| format!("{round:?}"))?;
    Ok(words)
}

/// With wrong registers a child may compute for ever, and keeps the output open: it is ended. One that was being born comes later.
fn no_child_goes_on(mark: &str) -> bool {
    process::end_children(mark);
    process::of_job(mark, 0).is_empty()
}

fn the_kernel_survives(log: &str) -> Result<()> {
    ensure!(!log.contains("PANIC"), "the kernel panicked");
    Ok(())
}

/// Each rank may have been lost by itself, and the node with all of them.
fn the_job_ends(round: &Round, outcome: &Outcome) -> Result<()> {
    outcome.status.context("the job does not end")?;
    let lines = report::own_lines(outcome.stderr.head()).len() as u64;
    ensure!(lines <= 1 + round.ranks, "{lines} lines");
    Ok(())
}

/// Writes into the node's words for a while. Then a rank whose words were left alone must go on.
fn attack(
    round: &Round,
    mark: &str,
    started: &Started<'_>,
    seed: u64,
    scratch: &Path,
) -> Result<u64> {
    let area = area_of(mark, started)?;
    thread::sleep(round.late);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..2 {
            let (area, stop, written) = (&area, &stop, &written);
            scope.spawn(move || host::write(area, round.plan, seed ^ writer << 32, stop, written));
        }
        thread::sleep(round.long);
        stop.store(true, Ordering::Relaxed);
    });
    if round.plan.only.is_some() && round.ranks > 1 {
        other_ranks_go_on(started, scratch)?;
    }
    Ok(written.into_inner())
}

fn area_of(mark: &str, started: &Started<'_>) -> Result<Area> {
    let mut area = None;
    wait_until(HANG, || {
        let family = process::of_job(mark, started.pid());
        let qemu = family.iter().find(|process| process.role == Role::Qemu);
        area = qemu.and_then(|qemu| Area::of(qemu.pid));
        area.is_some() || has_ended(started.pid())
    });
    area.context("there is no node")
}

/// Holds the words from when the programs run until the second rank has counted on.
fn hold_words(
    mark: &str,
    started: &Started<'_>,
    scratch: &Path,
    words: fn(&Area) -> Vec<u64>,
) -> Result<()> {
    let area = area_of(mark, started)?;
    let run = || area.runs(0) && area.runs(1);
    ensure!(wait_until(HANG, run), "the programs do not start");
    let (words, stop) = (words(&area), AtomicBool::new(false));
    ensure!(!words.is_empty(), "no word to hold");
    thread::scope(|scope| {
        scope.spawn(|| host::hold(&area, &words, &stop));
        let times = (0..HELD_COUNTS).try_for_each(|_| other_ranks_go_on(started, scratch));
        stop.store(true, Ordering::Relaxed);
        times?;
        ensure!(!has_ended(started.pid()), "the job has ended");
        Ok(())
    })
}

/// The witness counts, unless the job has ended.
fn other_ranks_go_on(started: &Started<'_>, scratch: &Path) -> Result<()> {
    let counted = || fs::read(scratch.join("cwd/witness")).unwrap_or_default();
    let before = counted();
    let goes_on = wait_until(HANG, || counted() != before || has_ended(started.pid()));
    ensure!(goes_on, "another rank stands still");
    Ok(())
}

/// Whether yod has ended, and was not waited for yet (proc(5)).
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with('Z'))
}
