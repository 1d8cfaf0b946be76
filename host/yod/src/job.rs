//! A job from its first process to its last: keeper, node, ranks, and what is said and returned at the end.

use std::os::fd::AsFd;
use std::time::Duration;

use machine::keeper;
use machine::node::{NoNode, Node};
use machine::sys::{self, Mask, Signals};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::cli::{Cli, StatsFormat};
use crate::console;
use crate::failure::Failure;
use crate::klog::KernelLog;
use crate::loss::{Context, Loss};
use crate::notice;
use crate::output::Sink;
use crate::ranks::{Job, Ranks};
use crate::setup::Setup;
use crate::stats::Stats;
use crate::supervise::{Outcome, Supervisor, TAKEN};
use crate::trace::Trace;
use crate::verdict::How;

/// Time that a node gets to come up; MARGAY_BOOT_TIMEOUT_S overrides it.
const BOOT_LIMIT: Duration = Duration::from_secs(20);

/// Runs the job; returns yod's exit status.
pub fn run(cli: &Cli, setup: &Setup, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let trace = match &cli.strace {
        Some(file) => Some(Trace::new(file.as_deref(), cli.ranks)?),
        None => None,
    };
    let log = cli
        .kernel_log
        .as_deref()
        .map(KernelLog::create)
        .transpose()?;
    let (signals, mask) =
        Signals::new(&TAKEN).map_err(|error| Failure::os("take signals", error))?;
    let (keeper, connection) = keeper::start(&setup.launch)
        .map_err(|error| Failure::os("start the node keeper", error))?;
    let context = Context {
        qemu: &setup.launch.qemu,
        accel: setup.launch.accel,
        kernel: &setup.launch.kernel,
    };
    let node =
        Node::join(connection, log.is_some()).map_err(|none| no_node(none, keeper, &context))?;
    notice::emulation(setup.launch.accel);
    let ranks = Ranks::start(&Job {
        node: &node,
        program: &setup.program,
        inherited,
        label: cli.label,
    });
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let outcome = ranks.map(|ranks| {
        let supervisor = Supervisor {
            node: &node,
            keeper,
            ranks,
            signals: &signals,
            out: Sink::new(out.as_fd()),
            err: Sink::new(err.as_fd()),
            trace,
            log,
            boot_limit: boot_limit(),
            timeout: cli.timeout,
            context,
        };
        supervisor.run()
    });
    if outcome.is_ok() {
        show_stats(cli, &node);
    }
    let mxcsr = |rank| (rank, node.comm.rank(rank).node.mxcsr.load());
    notice::exceptions(setup.launch.accel, (0..cli.ranks).map(mxcsr));
    if node.leave() {
        let _ = waitpid(Some(keeper), WaitOptions::empty());
    }
    finish(outcome?, cli.ranks, mask)
}

fn boot_limit() -> Duration {
    std::env::var("MARGAY_BOOT_TIMEOUT_S")
        .ok()
        .and_then(|text| Duration::try_from_secs_f64(text.parse().ok()?).ok())
        .unwrap_or(BOOT_LIMIT)
}

fn no_node(none: NoNode, keeper: Pid, context: &Context<'_>) -> Failure {
    match none {
        NoNode::Ended(ended) => {
            let failure = Loss::Node(ended).explain(context, false);
            let _ = waitpid(Some(keeper), WaitOptions::empty());
            failure
        }
        NoNode::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Loss::Keeper(keeper).explain(context, false)
        }
        NoNode::Io(error) => Failure::os("join the node", error),
    }
}

fn show_stats(cli: &Cli, node: &Node) {
    if let Some(format) = cli.stats {
        let stats = Stats::collect(&node.plan, &node.comm);
        console::err(match format {
            Some(StatsFormat::Json) => stats.json() + "\n",
            None => stats.table(),
        });
    }
}

/// Says what is left to say and turns the outcome into a status.
fn finish(outcome: Outcome, ranks: usize, mask: Mask) -> Result<u8, Failure> {
    let (verdict, others, interrupted) = match outcome {
        Outcome::Failed(failure) => return Err(failure),
        Outcome::Ranks {
            verdict,
            others,
            interrupted,
        } => (verdict, others, interrupted),
    };
    if let Some(line) = verdict.line(&others).filter(|_| ranks > 1) {
        console::say(line);
    }
    // A shell script stops at Ctrl-C only if what it ran dies of it.
    if interrupted && verdict.first() == Some(How::Killed(libc::SIGINT)) {
        mask.restore();
        sys::die_by(libc::SIGINT);
    }
    Ok(verdict.status())
}
