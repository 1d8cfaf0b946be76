//! A job from its first process to its last: keeper, node, ranks, and what is said and returned at the end.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use machine::keeper;
use machine::node::{Keeper, NoNode, Node};
use machine::sys::{self, Mask, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::{Cli, StatsFormat};
use crate::console;
use crate::failure::Failure;
use crate::klog::KernelLog;
use crate::loss::{self, Context, Loss};
use crate::notice;
use crate::ranks::{Job, Ranks};
use crate::setup::Setup;
use crate::stats::Stats;
use crate::streams::Streams;
use crate::supervise::{FATAL, Outcome, Supervisor, TAKEN};
use crate::trace::Trace;
use crate::verdict::How;

/// How often time limits are looked at until the keeper answers, which takes milliseconds.
const JOIN_LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Time that a node gets to come up; MARGAY_BOOT_TIMEOUT_S overrides it.
const BOOT_LIMIT: Duration = Duration::from_secs(20);

/// Time that a keeper gets to end its node. Giving back memory takes longest, and a plugin's writing.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Runs the job; returns yod's exit status.
pub fn run(cli: &Cli, setup: &Setup, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let trace = match &cli.strace {
        Some(file) => Some(Trace::new(file.as_deref(), cli.ranks, cli.timeout)?),
        None => None,
    };
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
    let outcome = with_keeper(cli, setup, inherited, &keeper, &signals, &mut streams);
    keeper.leave(END_LIMIT);
    for failure in streams.side_failures() {
        console::say(failure.line);
    }
    finish(outcome?, cli.ranks, mask)
}

/// From the keeper's first word to the ranks' end.
fn with_keeper(
    cli: &Cli,
    setup: &Setup,
    inherited: proxy::Inherited,
    keeper: &Keeper,
    signals: &Signals,
    streams: &mut Streams,
) -> Result<Outcome, Failure> {
    let context = Context {
        qemu: &setup.launch.qemu,
        accel: setup.launch.accel,
        kernel: &setup.launch.kernel,
    };
    let node = join(cli, keeper, signals, &context)?;
    notice::emulation(setup.launch.accel);
    let mut ranks = Ranks::start(&Job {
        node: &node,
        program: &setup.program,
        inherited,
        label: cli.label,
    })?;
    streams.merge(std::mem::take(&mut ranks.sources));
    let supervisor = Supervisor {
        node: &node,
        keeper,
        ranks,
        signals,
        streams,
        boot_limit: boot_limit(),
        timeout: cli.timeout,
        context,
        appendix: &|| stats(cli, &node),
    };
    let outcome = supervisor.run();
    let mxcsr = |rank| (rank, node.comm.rank(rank).node.mxcsr.load());
    notice::exceptions(setup.launch.accel, (0..cli.ranks).map(mxcsr));
    Ok(outcome)
}

/// Has the keeper make the node; signals and time limits hold meanwhile.
fn join(
    cli: &Cli,
    keeper: &Keeper,
    signals: &Signals,
    context: &Context<'_>,
) -> Result<Node, Failure> {
    let start = Instant::now();
    let mut failure = None;
    let wait = |socket: BorrowedFd<'_>| {
        failure = given_up(cli, signals, start.elapsed(), context);
        if failure.is_none() {
            let mut fds = [
                PollFd::new(&socket, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            // However it ends, the caller looks at everything.
            let _ = poll(&mut fds, Some(&JOIN_LOOK));
        }
        failure.is_none()
    };
    let joined = keeper.join(cli.kernel_log.is_some(), wait);
    joined.map_err(|none| match none {
        NoNode::Ended(ended) => Loss::Node(ended).explain(context, false),
        NoNode::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Loss::Keeper(keeper.pid()).explain(context, false)
        }
        NoNode::Io(error) => Failure::os("join the node", error),
        NoNode::GivenUp => {
            failure.unwrap_or_else(|| Loss::Hangs(boot_limit()).explain(context, false))
        }
    })
}

/// Why the keeper is not waited for any longer.
fn given_up(
    cli: &Cli,
    signals: &Signals,
    waited: Duration,
    context: &Context<'_>,
) -> Option<Failure> {
    while let Some(signal) = signals.next() {
        if FATAL.contains(&signal.signo) {
            return Some(loss::by_signal(signal.signo));
        }
    }
    let timeout = cli.timeout.filter(|&timeout| waited >= timeout);
    let boot = Some(boot_limit()).filter(|&limit| waited >= limit);
    timeout
        .map(|limit| loss::timed_out(limit, &(0..cli.ranks).collect::<Vec<_>>()))
        .or_else(|| boot.map(|limit| Loss::Hangs(limit).explain(context, false)))
}

fn boot_limit() -> Duration {
    std::env::var("MARGAY_BOOT_TIMEOUT_S")
        .ok()
        .and_then(|text| Duration::try_from_secs_f64(text.parse().ok()?).ok())
        .unwrap_or(BOOT_LIMIT)
}

/// What --stats shows.
fn stats(cli: &Cli, node: &Node) -> Option<String> {
    let format = cli.stats?;
    let stats = Stats::collect(&node.plan, &node.comm);
    Some(match format {
        Some(StatsFormat::Json) => stats.json() + "\n",
        None => stats.table(),
    })
}

/// Says what is left to say and turns the outcome into a status.
fn finish(outcome: Outcome, ranks: usize, mask: Mask) -> Result<u8, Failure> {
    let (verdict, others, interrupted, quiet) = match outcome {
        Outcome::Failed(failure) => return Err(failure),
        Outcome::Ranks {
            verdict,
            others,
            interrupted,
            quiet,
        } => (verdict, others, interrupted, quiet),
    };
    if let Some(line) = verdict.line(&others).filter(|_| ranks > 1 && !quiet) {
        console::say(line);
    }
    // A shell script stops at Ctrl-C only if what it ran dies of it.
    if interrupted && verdict.first() == Some(How::Killed(libc::SIGINT)) {
        mask.restore();
        sys::die_by(libc::SIGINT);
    }
    Ok(verdict.status())
}
