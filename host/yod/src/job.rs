//! A job from its first process to its last: the other yods, keeper, node, ranks, and what is said and returned at the end.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use machine::clock::Sample;
use machine::node::{Keeper, NoNode, Node};
use machine::sys::{self, Mask, Signals};

use crate::cli::{Cli, Format};
use crate::console;
use crate::dry_run::DryRun;
use crate::failure::{Failure, status};
use crate::gdb::Sockets;
use crate::hints;
use crate::klog::KernelLog;
use crate::loss::{Context, Loss};
use crate::notice;
use crate::party::{self, Party, WaitLimits};
use crate::place::Place;
use crate::quantity;
use crate::ranks::{Job, Ranks};
use crate::relaunch;
use crate::setup::{self, Setup};
use crate::stats::{Stats, StatsTo};
use crate::streams::Streams;
use crate::supervise::{Outcome, Supervisor, TAKEN};
use crate::trace::Trace;
use crate::verdict::How;

/// Time that a node gets to come up; [`BOOT_TIMEOUT`] overrides it.
const BOOT_LIMIT: Duration = Duration::from_secs(20);
const BOOT_TIMEOUT: &str = "MARGAY_BOOT_TIMEOUT_S";

/// Time that a keeper gets to end its node. Giving back memory takes longest, and a plugin's writing.
pub const END_LIMIT: Duration = Duration::from_secs(15);

/// Runs the job; returns yod's exit status. `first` is a sample of the clocks from the start of the process.
pub fn run(cli: &Cli, first: Sample, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let began = Instant::now();
    let place = Place::find(cli)?;
    let launcher = relaunch::if_needed(cli, &place, inherited)?;
    let boot_limit = boot_limit()?;
    let (signals, mask) =
        Signals::new(&TAKEN).map_err(|error| Failure::os("take signals", error))?;
    let limits = WaitLimits {
        signals: &signals,
        began,
        boot_limit,
        timeout: cli.timeout,
    };
    let own = Setup::new(cli, &place, first);
    let party = Party::meet(cli, &place, &limits, own.as_ref().err())?;
    let host = party.host();
    let setup = setup::planned(own, cli, &place, host.as_ref(), first);
    let cpus = host.map_or_else(Vec::new, |host| host.cpus);
    let prepared = setup.and_then(|setup| Prepared::new(cli, &place, setup, &cpus, launcher));
    let (prepared, party) = match prepared {
        Ok(Some(prepared)) => (prepared, party),
        Ok(None) => {
            party.dismiss(0);
            return Ok(0);
        }
        Err(failure) => {
            let failure = party::say(failure);
            party.dismiss(failure.status);
            return Err(failure);
        }
    };
    let Prepared {
        setup,
        stats,
        mut streams,
    } = prepared;
    let mut keeper = party.keeper(&setup.launch, setup.plan, &place, limits.due())?;
    let mut with = With {
        cli,
        setup: &setup,
        place: &place,
        keeper: &mut keeper,
        limits,
        report: &|node| {
            let to = stats.as_ref()?;
            let machine = &setup.launch.machine;
            let counts = machine.qemu().is_some_and(|q35| q35.icount);
            let emulated = machine.emulates() && !counts;
            to.report(&Stats::collect(
                &node.plan,
                &node.comm,
                &node.memory.file,
                began.elapsed(),
                emulated,
                machine.qemu().is_none(),
            ))
        },
    };
    // Said before this yod leaves: others, which wait for that, may be gone a moment later, and a launcher then drops what it writes.
    let outcome = match with.run(inherited, &mut streams) {
        Ok((Outcome::Failed(failure), hints)) => Ok((Outcome::Failed(party::say(failure)), hints)),
        other => other.map_err(party::say),
    };
    keeper.leave(END_LIMIT);
    for failure in streams.side_failures() {
        console::say(failure.line);
    }
    let (outcome, hints) = outcome?;
    finish(outcome, &place, cli.quiet, &hints, mask)
}

/// What is checked and made before there is a node.
struct Prepared {
    setup: Setup,
    stats: Option<StatsTo>,
    streams: Streams,
}

impl Prepared {
    /// `None` when the plan was all that was wanted, and has been printed. A yod without a plan waits for that message.
    fn new(
        cli: &Cli,
        place: &Place,
        setup: Setup,
        cpus: &[u32],
        launcher: Option<String>,
    ) -> Result<Option<Prepared>, Failure> {
        if let Some(format) = cli.dry_run {
            let Some(plan) = &setup.plan else {
                return Ok(Some(Prepared {
                    setup,
                    stats: None,
                    streams: Streams::new(None, None)?,
                }));
            };
            let all = DryRun::new(&setup, plan, cpus, launcher)?;
            console::out(match format {
                Format::Text => all.text(),
                Format::Json => all.json(),
            });
            return Ok(None);
        }
        let stats = cli.stats.as_ref().filter(|_| place.has_first());
        let stats = stats.map(|to| StatsTo::new(to, cli.timeout)).transpose()?;
        let trace = Trace::new(cli, place)?;
        let log = cli.kernel_log.as_deref().filter(|_| place.has_first());
        let log = log.map(|path| KernelLog::create(path, cli.timeout));
        Ok(Some(Prepared {
            setup,
            stats,
            streams: Streams::new(trace, log.transpose()?)?,
        }))
    }
}

/// What a job needs once its keeper runs.
struct With<'a> {
    cli: &'a Cli,
    setup: &'a Setup,
    place: &'a Place,
    keeper: &'a mut Keeper,
    limits: WaitLimits<'a>,
    /// Makes the report of --stats; gives what of it stderr is to show.
    report: &'a dyn Fn(&Node) -> Option<String>,
}

impl With<'_> {
    /// From the keeper's first word to the ranks' end: how they ended, and what else there is to say.
    fn run(
        &mut self,
        inherited: proxy::Inherited,
        streams: &mut Streams,
    ) -> Result<(Outcome, Vec<String>), Failure> {
        let (cli, setup, place) = (self.cli, self.setup, self.place);
        let context = Context {
            machine: &setup.launch.machine,
            kernel: &setup.launch.kernel,
        };
        let emulates = setup.launch.machine.emulates();
        let node = self.node(&context)?;
        if !cli.quiet && place.has_first() {
            if emulates {
                notice::emulation();
            }
            notice::foreign_launcher(place, &setup.program);
        }
        let path = cli.gdb.as_ref();
        let sockets = path.map(|path| Sockets::new(path.as_deref(), place));
        let mut sockets = sockets.transpose()?;
        let job = Job {
            node: &node,
            place,
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
            signals: self.limits.signals,
            streams,
            boot_limit: self.limits.boot_limit,
            timeout: cli.timeout,
            context,
            reports_all: cli.stats.is_some() && place.is_shared() && place.has_first(),
            appendix: &|| (self.report)(&node),
        };
        let outcome = supervisor.run();
        if cli.quiet {
            return Ok((outcome, Vec::new()));
        }
        if emulates {
            let mxcsr = |rank| (rank, node.comm.rank(rank).node.mxcsr.load());
            notice::exceptions(place.ranks.clone().map(mxcsr));
        }
        let hints = hints::collect(&node.plan, &node.comm, place.ranks.clone());
        Ok((outcome, hints))
    }

    /// Has the keeper make the node; signals and time limits hold meanwhile.
    fn node(&mut self, context: &Context<'_>) -> Result<Node, Failure> {
        // Another yod that starts the node waits for those that are missing, and says which.
        let is_others = self.setup.plan.is_none();
        let limits = WaitLimits {
            began: Instant::now(),
            boot_limit: self.limits.boot_limit * if is_others { 2 } else { 1 },
            ..self.limits
        };
        let (place, boot_limit) = (self.place, limits.boot_limit);
        let mut given_up = None;
        let node = self.keeper.node(|socket| {
            given_up = limits.wait(&[socket], place).err();
            given_up.is_none()
        });
        let pid = self.keeper.pid();
        node.map_err(|none| match none {
            NoNode::Ended(ended, reports) => {
                Loss::Node(ended).explain_or_status(context, false, reports)
            }
            NoNode::Dismissed(status) => Failure::said(status),
            NoNode::Taken => party::taken(place),
            NoNode::Io(error) if error.kind() == ErrorKind::UnexpectedEof => match pid {
                Some(_) => Loss::Keeper(pid).explain(context, false),
                None => party::first_gone(place),
            },
            NoNode::Io(error) => Failure::os("join the node", error),
            NoNode::GivenUp => given_up
                .filter(|failure| !failure.line.is_empty())
                .unwrap_or_else(|| Loss::Hangs(boot_limit).explain(context, false)),
        })
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
fn finish(
    outcome: Outcome,
    place: &Place,
    silent: bool,
    hints: &[String],
    mask: Mask,
) -> Result<u8, Failure> {
    let (verdict, others, interrupted, quiet) = match outcome {
        Outcome::Failed(failure) => return Err(failure),
        Outcome::Ranks {
            verdict,
            others,
            interrupted,
            quiet,
        } => (verdict, others, interrupted, quiet),
    };
    let name_ranks = place.ranks.len() > 1 && !silent;
    if let Some(line) = verdict.line(&others).filter(|_| name_ranks && !quiet) {
        console::say(line);
    }
    hints.iter().for_each(console::say);
    if let Some(How::Killed(signo)) = verdict.first() {
        // A shell script stops at Ctrl-C only if what it ran dies of it. To a launcher its process is the rank.
        let is_the_rank = place.launched.is_some() && place.ranks.len() == 1;
        if is_the_rank || interrupted && signo == libc::SIGINT {
            mask.restore();
            sys::die_by(signo);
        }
    }
    Ok(verdict.status())
}
