//! One job and how it is hit.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use margay_tests::clean::{self, new_mark, nothing_left};
use margay_tests::process::{self, MARK, Role};
use margay_tests::random::Random;
use margay_tests::report;
use margay_tests::run::{HANG, Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::Signal;

const RANKS: &[u64] = &[1, 2, 4];
/// What a long job does when it is hit.
const WAYS: &[&str] = &[
    "spin", "calls", "read", "sleep", "ignore", "print", "stop", "map",
];
/// SIGKILL, as shells show it.
const KILLED: i32 = 137;
/// SIGHUP and SIGTERM, likewise.
const ENDED_IN_ORDER: [i32; 2] = [129, 143];
/// A long job is hit so long after its node is up, at most.
const LATE: Duration = Duration::from_millis(300);
/// Time limit of a job that a blow does not end for certain, after the latest moment of the blow.
const LIMIT: Duration = Duration::from_millis(500);

/// What happens to the victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGSTOP; then SIGTERM to yod, or its time limit.
    Stop,
    /// SIGHUP.
    HangUp,
    /// SIGKILL, and what the job writes goes to a full disk.
    KillOnFullDisk,
    /// The terminal is closed whose session yod leads.
    CloseTerminal,
}

/// One job and how it is to be hit.
pub struct Round {
    blow: Blow,
    victim: Role,
    number: u64,
    ranks: u64,
    /// How a long job passes its time; a short one has none.
    way: Option<&'static str>,
    moment: Duration,
    /// Time limit of the job, unless the blow is certain to end it.
    limit: Option<Duration>,
    /// SIGTERM is sent to yod after the blow.
    term: bool,
}

/// A job that ends by itself.
pub fn short_job(ranks: u64) -> Run {
    Run::new(command("hello", ranks, &[]))
}

fn command(program: &str, ranks: u64, options: &[String]) -> Vec<String> {
    let program = tree::program("glibc-static", program);
    let yod = [
        tree::yod().to_string_lossy().into_owned(),
        tree::machine(),
        "-n".into(),
        ranks.to_string(),
        "-m".into(),
        "64M".into(),
        "--oversubscribe".into(),
    ];
    let program = ["--".into(), program.to_string_lossy().into_owned()];
    yod.into_iter()
        .chain(options.iter().cloned())
        .chain(program)
        .collect()
}

impl Round {
    pub fn new(
        blow: Blow,
        victim: Role,
        number: u64,
        whole: Duration,
        random: &mut Random,
    ) -> Round {
        let way = (number % 2 == 1).then(|| *random.pick(WAYS));
        let range = if way.is_some() { LATE } else { whole };
        let moment = Duration::from_micros(random.below(range.as_micros() as u64 + 1));
        Round {
            blow,
            victim,
            number,
            ranks: *random.pick(RANKS),
            way,
            moment,
            limit: (!blow.kills()).then(|| whole + LATE + LIMIT),
            term: blow == Blow::Stop && random.below(2) == 0,
        }
    }

    /// For finding out what went wrong.
    pub fn name(&self) -> String {
        format!(
            "round {}: {:?} {:?} of {} ranks, {}, after {:?}, limit {:?}, SIGTERM {}",
            self.number,
            self.blow,
            self.victim,
            self.ranks,
            self.way.unwrap_or("short"),
            self.moment,
            self.limit,
            self.term
        )
    }

    /// The same once more, for a short job that was over before it was hit: sooner, and with more time.
    pub fn sooner(&mut self) {
        self.moment /= 2;
        self.limit = self.limit.map(|limit| (limit * 2).min(HANG / 2));
    }

    /// The job, the blow, and what is left of it; whether a short job was hit.
    pub fn run(&self) -> Result<bool> {
        let scratch = Scratch::new()?;
        let (mark, before) = (new_mark(), clean::shared_files());
        let temporary = scratch.path().join("tmp");
        std::fs::create_dir(&temporary)?;
        let run = self.job().env(&[
            (MARK, mark.as_str()),
            ("TMPDIR", &temporary.to_string_lossy()),
            ("XDG_STATE_HOME", &scratch.path().to_string_lossy()),
        ]);
        let started = run.start(&scratch)?;
        let wait_for = |roles: &[Role]| process::wait_for(roles, &mark, started.pid());
        if self.way.is_some() {
            wait_for(&[Role::Qemu, self.victim]);
        }
        std::thread::sleep(self.moment);
        if self.way.is_none() {
            wait_for(&[self.victim]);
        }
        let hit = self.strike(&mark, &started)?;
        let outcome = started.finish(HANG)?;
        nothing_left(&mark, &temporary, &before)?;
        self.is_reported(&outcome, hit).with_context(|| {
            let status = outcome.status;
            format!("status {status:?}, stderr:\n{}", outcome.stderr.text())
        })?;
        Ok(hit || self.way.is_some())
    }

    /// Whether the job may be over before the blow: by itself, by its time limit, or because a rank prints after the first
    /// output that could not be written.
    fn may_end_before(&self) -> bool {
        let prints_again = self.ranks > 1 || self.way == Some("print");
        let loses_output = self.blow == Blow::KillOnFullDisk;
        self.way.is_none() || self.limit.is_some() || loses_output && prints_again
    }

    fn job(&self) -> Run {
        let mut options = Vec::new();
        if let Some(limit) = self.limit {
            options.extend(["--timeout".into(), limit.as_secs_f64().to_string()]);
        }
        if self.blow == Blow::KillOnFullDisk {
            options.push("--kernel-log=/dev/full".into());
            if self.number % 4 < 2 {
                options.push("--strace=/dev/full".into());
            }
        }
        let program = if self.way.is_some() {
            "endless"
        } else {
            "hello"
        };
        let mut words = command(program, self.ranks, &options);
        words.extend(self.way.map(Into::into));
        match self.blow {
            Blow::KillOnFullDisk => Run::new(words).output_to("/dev/full"),
            Blow::CloseTerminal => {
                let line = format!("exec {}", words.join(" "));
                Run::new(["/usr/bin/script", "-qec", &line, "/dev/null"])
            }
            _ => Run::new(words),
        }
    }

    /// Hits the victim, and sees to it that what is then certain to go on for ever ends.
    fn strike(&self, mark: &str, started: &Started<'_>) -> Result<bool> {
        let family = process::of_job(mark, started.pid());
        let victim = family.iter().find(|process| process.role == self.victim);
        let hit = victim.is_some_and(|victim| process::signal(victim.pid, self.blow.signal()));
        if self.blow == Blow::CloseTerminal {
            return Ok(hit);
        }
        let yod = started.pid();
        if self.blow == Blow::Stop && self.victim == Role::Yod && hit {
            wait_until_stopped(yod);
        }
        // In the middle of its job it has a keeper that continues it when it has to end.
        let guarded = self.blow == Blow::Stop && self.way.is_some();
        if self.victim == Role::Yod && !guarded {
            process::signal(yod, Signal::CONT);
        }
        if self.victim == Role::Keeper && self.way == Some("stop") {
            // It is stopped with its ranks, and so is, or gone, the keeper that would continue it.
            continue_until_ended(yod, || true);
        }
        if self.term {
            process::signal(yod, Signal::TERM);
        }
        if self.victim == Role::Yod && guarded {
            // On its way out it has none any more.
            let is_keeper = |process: &process::Process| process.role == Role::Keeper;
            continue_until_ended(yod, || !process::of_job(mark, yod).iter().any(is_keeper));
        }
        if !hit && self.way.is_some() && self.blow.kills() {
            ensure!(process::kill(yod), "yod is gone, and was not killed");
        }
        Ok(hit)
    }

    /// What the user saw.
    fn is_reported(&self, outcome: &Outcome, hit: bool) -> Result<()> {
        ensure!(
            hit || self.may_end_before(),
            "the victim was not there to be hit"
        );
        let status = outcome.status.context("it hung")?;
        if self.blow == Blow::CloseTerminal {
            return Ok(()); // There is no user to see a line.
        }
        let lines = report::own_lines(outcome.stderr.head());
        ensure!(
            outcome.stderr.text().lines().count() == lines.len(),
            "somebody else speaks"
        );
        let on_full_disk = |line: &&String| line.contains("/dev/full") || line.contains("stdout");
        let lost = lines.iter().filter(on_full_disk).count();
        let lines = lines.len() - lost;
        ensure!(
            lost == 0 || self.blow == Blow::KillOnFullDisk && lost <= 3,
            "output was lost"
        );
        match status {
            // The shot came too late to matter: everything must have been done.
            0 => {
                let said = outcome.stdout.text().matches("hello").count() as u64;
                let complete = said >= self.ranks || self.blow == Blow::KillOnFullDisk;
                ensure!(
                    lines == 0 && complete,
                    "status 0 with {lines} lines, output of {said} ranks"
                );
            }
            _ if lost > 0 => ensure!(lines <= 1, "{lines} lines"),
            _ if self.blow.kills() && (!hit || self.victim == Role::Yod) => {
                ensure!(status == KILLED, "status {status}");
            }
            // A yod that has only just been started does not catch signals yet: they end it as they end any program.
            _ if self.way.is_none() && ENDED_IN_ORDER.contains(&status) => {
                ensure!(lines <= 1, "{lines} lines for status {status}");
            }
            // To Linux a rank's proxy is the rank: with one rank, no other process can say what ended it.
            _ if self.ranks == 1 => ensure!(lines <= 1, "{lines} lines"),
            _ => ensure!(lines == 1, "{lines} lines for status {status}"),
        }
        Ok(())
    }
}

impl Blow {
    /// Whether it ends its victim, and so the job.
    fn kills(self) -> bool {
        matches!(self, Blow::Kill | Blow::KillOnFullDisk)
    }

    fn signal(self) -> Signal {
        match self {
            Blow::Stop => Signal::STOP,
            Blow::HangUp => Signal::HUP,
            // The process with the terminal's other side is gone, and that is all that Linux reports.
            Blow::Kill | Blow::KillOnFullDisk | Blow::CloseTerminal => Signal::KILL,
        }
    }
}

/// A stopped process that is continued too early would not have been stopped at all.
fn wait_until_stopped(pid: u32) {
    process::wait_until(HANG, || process::state_is(pid, &['T', 'Z']));
}

/// What is stopped meanwhile is continued where it `may` be, as a user would do it.
fn continue_until_ended(pid: u32, may: impl Fn() -> bool) {
    process::wait_until(HANG, || {
        let ended = process::state_is(pid, &['Z']);
        if !ended && process::state_is(pid, &['T']) && may() {
            process::signal(pid, Signal::CONT);
        }
        ended
    });
}
