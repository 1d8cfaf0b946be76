//! A job from its first process to its last: keeper, node, ranks, and what is said and returned at the end.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use machine::keeper;
use machine::node::{Keeper, NoNode, Node};
use machine::sys::{self, Mask, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::Cli;
use crate::console;
use crate::failure::{Failure, status};
use crate::gdb::Sockets;
use crate::hints;
use crate::klog::KernelLog;
use crate::loss::{self, Context, Loss};
use crate::notice;
use crate::quantity;
use crate::ranks::{Job, Ranks};
use crate::setup::Setup;
use crate::stats::{Stats, StatsTo};
use crate::streams::Streams;
use crate::supervise::{FATAL, Outcome, Supervisor, TAKEN};
use crate::trace::Trace;
use crate::verdict::How;

/// How often time limits are looked at until the keeper answers, which takes milliseconds.
const JOIN_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Time that a node gets to come up; [`BOOT_TIMEOUT`] overrides it.
const BOOT_LIMIT: Duration = Duration::from_secs(20);
const BOOT_TIMEOUT: &str = "MARGAY_BOOT_TIMEOUT_S";

/// Time that a keeper gets to end its node. Giving back memory takes longest, and a plugin's writing.
pub const END_LIMIT: Duration = Duration::from_secs(15);

/// Runs the job; returns yod's exit status.
pub fn run(cli: &Cli, setup: &Setup, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let began = Instant::now();
    let boot_limit = boot_limit()?;
    let stats = cli
        .stats
        .as_ref()
        .map(|to| StatsTo::new(to, cli.timeout))
        .transpose()?;
    let trace = Trace::new(cli)?;
    let log = cli
        .kernel_log
        .as_deref()
        .map(|path| KernelLog::create(path, cli.timeout))
        .transpose()?;
    let mut streams = Streams::new(trace, log)?;
    let (signals, mask) =
        Signals::new(&TAKEN).map_err(|error| Failure::os("take signals", error))?;
    let keeper = keeper::start(&setup.launch)
        .map_err(|error| Failure::os("start the node keeper", error))?;
    let with = With {
        cli,
        setup,
        keeper: &keeper,
        signals: &signals,
        boot_limit,
        report: &|node| {
            let to = stats.as_ref()?;
            to.report(&Stats::collect(&node.plan, &node.comm, began.elapsed()))
        },
    };
    let outcome = with.run(inherited, &mut streams);
    keeper.leave(END_LIMIT);
    for failure in streams.side_failures() {
        console::say(failure.line);
    }
    let (outcome, hints) = outcome?;
    finish(outcome, cli.ranks > 1 && !cli.quiet, &hints, mask)
}

/// What a job needs once its keeper runs.
struct With<'a> {
    cli: &'a Cli,
    setup: &'a Setup,
    keeper: &'a Keeper,
    signals: &'a Signals,
    boot_limit: Duration,
    /// Makes the report of --stats; gives what of it stderr is to show.
    report: &'a dyn Fn(&Node) -> Option<String>,
}

impl With<'_> {
    /// From the keeper's first word to the ranks' end: how they ended, and what else there is to say.
    fn run(
        &self,
        inherited: proxy::Inherited,
        streams: &mut Streams,
    ) -> Result<(Outcome, Vec<String>), Failure> {
        let (cli, setup) = (self.cli, self.setup);
        let context = Context {
            qemu: &setup.launch.qemu,
            accel: setup.launch.accel,
            kernel: &setup.launch.kernel,
        };
        let node = self.join(&context)?;
        if !cli.quiet {
            notice::emulation(setup.launch.accel);
        }
        let path = cli.gdb.as_ref();
        let sockets = path.map(|path| Sockets::new(path.as_deref(), cli.ranks));
        let mut sockets = sockets.transpose()?;
        let job = Job {
            node: &node,
            program: &setup.program,
            inherited,
            label: cli.label,
        };
        let mut ranks = Ranks::start(&job, sockets.as_mut())?;
        if let Some(sockets) = &sockets {
            sockets.say(Path::new(&cli.command[0]));
        }
        streams.merge(std::mem::take(&mut ranks.sources));
        let supervisor = Supervisor {
            node: &node,
            keeper: self.keeper,
            ranks,
            signals: self.signals,
            streams,
            boot_limit: self.boot_limit,
            timeout: cli.timeout,
            context,
            appendix: &|| (self.report)(&node),
        };
        let outcome = supervisor.run();
        if cli.quiet {
            return Ok((outcome, Vec::new()));
        }
        let mxcsr = |rank| (rank, node.comm.rank(rank).node.mxcsr.load());
        notice::exceptions(setup.launch.accel, (0..cli.ranks).map(mxcsr));
        Ok((outcome, hints::collect(&node.plan, &node.comm)))
    }

    /// Has the keeper make the node; signals and time limits hold meanwhile.
    fn join(&self, context: &Context<'_>) -> Result<Node, Failure> {
        let start = Instant::now();
        let mut failure = None;
        let wait = |socket: BorrowedFd<'_>| {
            failure = self.given_up(start.elapsed(), context);
            if failure.is_none() {
                let mut fds = [
                    PollFd::new(&socket, PollFlags::IN),
                    PollFd::new(self.signals, PollFlags::IN),
                ];
                // However it ends, the caller looks at everything.
                let _ = poll(&mut fds, Some(&JOIN_LOOK));
            }
            failure.is_none()
        };
        let joined = self.keeper.join(self.cli.kernel_log.is_some(), wait);
        joined.map_err(|none| match none {
            NoNode::Ended(ended) => Loss::Node(ended).explain(context, false),
            NoNode::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Loss::Keeper(self.keeper.pid()).explain(context, false)
            }
            NoNode::Io(error) => Failure::os("join the node", error),
            NoNode::GivenUp => {
                failure.unwrap_or_else(|| Loss::Hangs(self.boot_limit).explain(context, false))
            }
        })
    }

    /// Why the keeper is not waited for any longer.
    fn given_up(&self, waited: Duration, context: &Context<'_>) -> Option<Failure> {
        while let Some(signal) = self.signals.next() {
            if FATAL.contains(&signal.signo) {
                return Some(loss::by_signal(signal.signo));
            }
        }
        let timeout = self.cli.timeout.filter(|&timeout| waited >= timeout);
        let boot = Some(self.boot_limit).filter(|&limit| waited >= limit);
        timeout
            .map(|limit| loss::timed_out(limit, &(0..self.cli.ranks).collect::<Vec<_>>()))
            .or_else(|| boot.map(|limit| Loss::Hangs(limit).explain(context, false)))
    }
}

/// How long to wait for the node.
///
/// # Errors
/// The variable is set and no time.
pub fn boot_limit() -> Result<Duration, Failure> {
    let Some(text) = std::env::var_os(BOOT_TIMEOUT).filter(|text| !text.is_empty()) else {
        return Ok(BOOT_LIMIT);
    };
    quantity::time(&text.to_string_lossy()).map_err(|why| {
        let line = format_args!("{BOOT_TIMEOUT}: {}: {why}", text.display());
        Failure::new(status::USAGE, line)
    })
}

/// Says what is left to say and turns the outcome into a status.
fn finish(outcome: Outcome, name_ranks: bool, hints: &[String], mask: Mask) -> Result<u8, Failure> {
    let (verdict, others, interrupted, quiet) = match outcome {
        Outcome::Failed(failure) => return Err(failure),
        Outcome::Ranks {
            verdict,
            others,
            interrupted,
            quiet,
        } => (verdict, others, interrupted, quiet),
    };
    if let Some(line) = verdict.line(&others).filter(|_| name_ranks && !quiet) {
        console::say(line);
    }
    hints.iter().for_each(console::say);
    // A shell script stops at Ctrl-C only if what it ran dies of it.
    if interrupted && verdict.first() == Some(How::Killed(libc::SIGINT)) {
        mask.restore();
        sys::die_by(libc::SIGINT);
    }
    Ok(verdict.status())
}
