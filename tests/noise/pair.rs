//! Two ranks, one that computes and one that is busy, and what the kernel counted on their cores.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use margay_tests::bench::build;
use margay_tests::clean::new_mark;
use margay_tests::process::MARK;
use margay_tests::run::{Outcome, Run, Started};
use margay_tests::scratch::Scratch;
use rustix::process::{Pid, Signal, kill_process_group};
use wire::rank::state;
use wire::stats::CpuStats;

use crate::node::{Node, calls, disturbances};
use crate::watched::{Counts, Watched};
use crate::{LIMIT, SETTLED, send, wait_until};

/// Seconds for which rank 0 computes, about: longer than any test takes.
const COMPUTE_S: &str = "600";
/// Seconds for which the other rank is busy.
const BUSY_S: &str = "6";

/// Two ranks: number 0 computes and makes no call, number 1 is busy and then ends.
pub struct Pair<'a> {
    /// `None` when it has been waited for.
    started: Option<Started<'a>>,
    node: Node,
    watched: Option<Watched>,
}

/// A test that fails in the middle leaves nothing that computes for ever.
impl Drop for Pair<'_> {
    fn drop(&mut self) {
        if let Some(started) = &self.started {
            let _ = group(started).map(|group| kill_process_group(group, Signal::KILL));
        }
    }
}

/// What had been counted on the core of each rank.
pub struct Sample {
    /// By the kernel, of rank 0.
    pub quiet: CpuStats,
    /// By the kernel, of rank 1.
    pub busy: CpuStats,
    /// By the plugin, of both in their order; none: it is not there.
    pub watched: Option<[Counts; 2]>,
}

impl<'a> Pair<'a> {
    /// Returns when rank 0 has begun to compute.
    pub fn start(scratch: &'a Scratch) -> Result<Pair<'a>> {
        Pair::start_watched(scratch, None)
    }

    /// As [`Pair::start`], with the plugin counting, too.
    pub fn start_watched(scratch: &'a Scratch, watched: Option<Watched>) -> Result<Pair<'a>> {
        let mark = new_mark();
        let program = build(scratch, "neighbours")?;
        let mut run = Run::yod(&["-n", "2", "-m", "64M", "--oversubscribe", "--stats=json"])
            .args(&["--", &program.to_string_lossy(), COMPUTE_S, BUSY_S, "0"])
            .env(&[(MARK, &mark)]);
        if let Some(watched) = &watched {
            run = run.env(&[("MARGAY_QEMU_PLUGIN", watched.plugin()?)]);
        }
        let started = run.start(scratch)?;
        let node = Node::of(&mark, started.pid())?;
        let pair = Pair {
            started: Some(started),
            node,
            watched,
        };
        pair.settle()?;
        Ok(pair)
    }

    /// Both set their handlers after their last output, and rank 0 then computes.
    fn settle(&self) -> Result<()> {
        let begun = wait_until(|| {
            let has_begun =
                |core| -> Result<_> { Ok(calls(&self.node.counters(core)?, "rt_sigaction") == 2) };
            let [quiet, busy] = self.cores()?;
            Ok(has_begun(quiet)? && has_begun(busy)?)
        })?;
        ensure!(begun, "the ranks did not begin");
        // What is still under way when they begin, as a late doorbell on a host that is busy, is not what is looked for.
        let settled = wait_until(|| {
            let before = self.sample()?;
            std::thread::sleep(SETTLED);
            Ok(self.sample()?.quiet_since(&before).is_ok())
        })?;
        ensure!(settled, "the core of rank 0 does not become quiet");
        Ok(())
    }

    /// Now.
    pub fn sample(&self) -> Result<Sample> {
        let [quiet, busy] = self.cores()?;
        let seen =
            |watched: &Watched| -> Result<_> { Ok([watched.cpu(quiet)?, watched.cpu(busy)?]) };
        Ok(Sample {
            quiet: self.node.counters(quiet)?,
            busy: self.node.counters(busy)?,
            watched: self.watched.as_ref().map(seen).transpose()?,
        })
    }

    fn cores(&self) -> Result<[usize; 2]> {
        Ok([self.node.core_of(0)?, self.node.core_of(1)?])
    }

    /// Its process, on the host.
    pub fn pid(&self, rank: usize) -> Result<u32> {
        Ok(self.node.rank(rank)?.host.pid.load().try_into()?)
    }

    /// Signals while it works, until all that is to disturb has happened; looks go on all the time, as yod's own would.
    pub fn disturb_the_busy_one(&self) -> Result<()> {
        let (pid, before) = (self.pid(1)?, self.sample()?);
        let end = Instant::now() + 2 * SETTLED;
        wait_until(|| {
            send(pid, Signal::USR1);
            let shows_progress = self.sample()?.shows_progress_since(&before).is_ok();
            Ok(shows_progress && Instant::now() >= end)
        })?;
        self.sample()?.shows_progress_since(&before)
    }

    /// It must have gone well.
    pub fn wait_for_the_busy_ones_end(&self) -> Result<()> {
        let ended = wait_until(|| Ok(self.node.rank(1)?.node.state.load() == state::EXITED))?;
        ensure!(ended, "rank 1 did not end");
        let status = self.node.rank(1)?.node.wait_status.load();
        ensure!(status == 0, "rank 1 ended with wait status {status}");
        Ok(())
    }

    /// As Ctrl-C: SIGINT to the job's process group.
    pub fn interrupt(mut self) -> Result<Outcome> {
        let started = self.started.take().context("it still runs")?;
        kill_process_group(group(&started)?, Signal::INT)?;
        started.finish(LIMIT)
    }
}

/// The process group of a job.
pub fn group(started: &Started<'_>) -> Result<Pid> {
    Pid::from_raw(started.pid().try_into()?).context("no process has number 0")
}

impl Sample {
    /// Nothing entered the kernel on the core of rank 0, says the kernel.
    pub fn quiet_since(&self, before: &Sample) -> Result<()> {
        let [entries, interrupts] = disturbances(&before.quiet, &self.quiet);
        ensure!(
            entries == 0 && interrupts == 0,
            "{entries} entries into the kernel and {interrupts} interrupts on the core of rank 0"
        );
        Ok(())
    }

    /// The core of rank 0 executed instructions of rank 0 and no others, says the plugin: only the kernel could have gone over to
    /// others. Meanwhile the kernel was at work on the core of rank 1.
    pub fn watched_quiet_since(&self, before: &Sample) -> Result<()> {
        let both = self.watched.zip(before.watched);
        let ([quiet, busy], [quiet_before, busy_before]) = both.context("not watched")?;
        let (own, others) = (
            quiet.user - quiet_before.user,
            quiet.kernel - quiet_before.kernel,
        );
        let entries = quiet.entries - quiet_before.entries;
        ensure!(
            own > 0 && others == 0 && entries == 0,
            "the core of rank 0 executed {own} instructions of rank 0 and, in {entries} entries, {others} of the kernel"
        );
        let neighbour = busy.kernel - busy_before.kernel;
        ensure!(
            neighbour > 0,
            "the kernel did nothing on the core of rank 1"
        );
        Ok(())
    }

    /// All that was to disturb did happen.
    pub fn shows_progress_since(&self, before: &Sample) -> Result<()> {
        let done = |name| calls(&self.busy, name) - calls(&before.busy, name);
        for name in ["mmap", "munmap", "brk", "write", "unlink", "rt_sigreturn"] {
            ensure!(done(name) > 0, "no {name} on the core of rank 1 meanwhile");
        }
        let (shipped, timer) = (
            self.busy.shipped_calls.load() - before.busy.shipped_calls.load(),
            self.busy.timer_interrupts.load() - before.busy.timer_interrupts.load(),
        );
        ensure!(
            shipped > 0 && timer > 0,
            "{shipped} shipped calls, {timer} timer interrupts on the core of rank 1 meanwhile"
        );
        Ok(())
    }
}
