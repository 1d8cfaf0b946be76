//! A job from its first process to its last: keeper, node, ranks, and what is said and returned at the end.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use machine::keeper;
use machine::node::{NoNode, Node};
use machine::sys::{self, Mask, Signals};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::cli::Cli;
use crate::console;
use crate::failure::{Failure, status};
use crate::hints;
use crate::klog::KernelLog;
use crate::loss::{Context, Loss};
use crate::notice;
use crate::output::Sink;
use crate::quantity;
use crate::ranks::{Job, Ranks};
use crate::setup::Setup;
use crate::stats::{Stats, StatsTo};
use crate::supervise::{Outcome, Supervisor, TAKEN};
use crate::trace::Trace;
use crate::verdict::How;

/// Time that a node gets to come up; [`BOOT_TIMEOUT`] overrides it.
const BOOT_LIMIT: Duration = Duration::from_secs(20);
const BOOT_TIMEOUT: &str = "MARGAY_BOOT_TIMEOUT_S";

/// Runs the job; returns yod's exit status.
pub fn run(cli: &Cli, setup: &Setup, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let began = Instant::now();
    let boot_limit = boot_limit()?;
    let stats = cli.stats.as_ref().map(StatsTo::new).transpose()?;
    let trace = Trace::new(cli)?;
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
    if !cli.quiet {
        notice::emulation(setup.launch.accel);
    }
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
            boot_limit,
            timeout: cli.timeout,
            context,
        };
        supervisor.run()
    });
    if let Some(stats) = stats.filter(|_| outcome.is_ok()) {
        stats.write(&Stats::collect(&node.plan, &node.comm, began.elapsed()));
    }
    let hints = if cli.quiet {
        Vec::new()
    } else {
        hints::collect(&node.plan, &node.comm)
    };
    if node.leave() {
        let _ = waitpid(Some(keeper), WaitOptions::empty());
    }
    finish(outcome?, cli.ranks > 1 && !cli.quiet, &hints, mask)
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

/// Says what is left to say and turns the outcome into a status.
fn finish(outcome: Outcome, name_ranks: bool, hints: &[String], mask: Mask) -> Result<u8, Failure> {
    let (verdict, others, interrupted) = match outcome {
        Outcome::Failed(failure) => return Err(failure),
        Outcome::Ranks {
            verdict,
            others,
            interrupted,
        } => (verdict, others, interrupted),
    };
    if let Some(line) = verdict.line(&others).filter(|_| name_ranks) {
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
