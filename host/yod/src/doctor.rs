//! `--doctor`: what this host offers, what is missing and what to do about it, as text or as JSON.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use machine::Event;
use machine::clock::Sample;
use machine::cokernel::{self, Cpus};
use machine::keeper::{Job, Launch};
use machine::machine::Machine as _;
use machine::node::{Keeper, NoNode};
use machine::pages;
use machine::plan::{self, Bytes, Request};
use machine::qemu::accel::{self, Choice};
use machine::qemu::{Q35, Qemu};
use machine::ready;
use machine::resources::{Resources, allowed_cpus};
use rustix::event::PollFlags;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use wire::boot::node;

use crate::cli::{Cli, Format};
use crate::console;
use crate::failure::{Failure, status};
use crate::job::{END_LIMIT, boot_limit};
use crate::loss::{Context, Loss};
use crate::machines::{Host, Kind, Machine};
use crate::parts::Parts;
use crate::setup;

/// Memory of the rank that the node is booted for.
const PARTITION_BYTES: u64 = 16 << 20;

/// What was found out about one thing.
enum Finding {
    /// As it should be.
    Good(String),
    /// Runs work, but could be better.
    Note(String),
    /// No run without it.
    Bad(String),
}

use Finding::{Bad, Good, Note};

/// A finding in JSON.
#[derive(Serialize)]
struct Row {
    what: &'static str,
    /// `ok`, `note` or `bad`.
    state: String,
    text: String,
}

/// Prints the report on stdout; returns yod's exit status. `first` is a sample of the clocks from the start of the process.
pub fn report(cli: &Cli, first: Sample, format: Format) -> u8 {
    type Find = fn() -> Finding;
    let kind = setup::kind(cli);
    let host: [(&str, Find); 11] = [
        (Q35::NAME, program),
        ("kernel", parts),
        ("agent", agent),
        ("firmware", firmware),
        ("accelerator", accelerator),
        ("cores", cores),
        ("memory", memory),
        ("large pages", large_pages),
        ("limits", limits),
        ("file size", file_size),
        ("clock", clock),
    ];
    let mut rows = Vec::new();
    let mut bad = 0;
    let mut show = |what, finding| {
        let (mark, text) = match finding {
            Good(text) => ("ok", text),
            Note(text) => ("note", text),
            Bad(text) => {
                bad += 1;
                ("BAD", text)
            }
        };
        if format == Format::Text {
            console::out(format_args!("{mark:<4}  {what:<14} {text}\n"));
        }
        let state = mark.to_lowercase();
        rows.push(Row { what, state, text });
        bad
    };
    for (what, find) in host {
        show(
            what,
            match find() {
                Bad(why) if what == Q35::NAME && kind == Ok(Kind::Cokernel) => Note(why),
                finding => finding,
            },
        );
    }
    let in_the_way = show("co-kernel", co_kernel(&kind));
    let bad = match in_the_way {
        0 => show("node", node(first, kind)),
        _ => show("node", Note("not booted: see BAD above".into())),
    };
    console::out(match (format, bad) {
        (Format::Json, _) => {
            let all = serde_json::json!({"runs_nodes": bad == 0, "findings": rows});
            format!("{all}\n")
        }
        (_, 0) => "this host can run Margay nodes\n".to_owned(),
        (_, 1) => "one thing is in the way: see BAD above\n".to_owned(),
        (_, n) => format!("{n} things are in the way: see BAD above\n"),
    });
    if bad == 0 { 0 } else { status::UNAVAILABLE }
}

fn program() -> Finding {
    let found = Qemu::find().map_err(|none| none.to_string());
    found.and_then(|qemu| qemu.check()).map_or_else(Bad, Good)
}

fn parts() -> Finding {
    match Parts::find() {
        Ok(parts) => Good(format!(
            "{}, PCT {}",
            parts.kernel.display(),
            parts.pct.display()
        )),
        Err(failure) => Bad(failure.line),
    }
}

/// Whether QEMU takes it: it is started with it.
fn agent() -> Finding {
    let (Ok(qemu), Ok(parts)) = (Qemu::find(), Parts::find()) else {
        return Note("not tried: see BAD above".into());
    };
    let path = qemu.path.display();
    match qemu.takes_agent(&parts.agent) {
        Ok(true) => Good(format!("{}, taken by {path}", parts.agent.display())),
        Ok(false) => Note(format!(
            "{path} loads no library of ours, so files cannot be laid over a node's memory: use one that is linked dynamically and has no privileges, as Debian's"
        )),
        Err(error) => Note(format!("unknown whether {path} takes it: {error}")),
    }
}

fn firmware() -> Finding {
    match Qemu::find().ok().and_then(|qemu| qemu.qboot) {
        Some(rom) => Good(format!("qboot ({})", rom.display())),
        None => Note("no qboot.rom: SeaBIOS is used, booting takes some 30 ms longer".into()),
    }
}

fn accelerator() -> Finding {
    match accel::kvm() {
        Ok(()) => Good("KVM".into()),
        Err(no) => Note(format!(
            "TCG, the CPU is emulated: compare counts and ratios, not seconds; no KVM: {no}"
        )),
    }
}

fn cores() -> Finding {
    let cores = Resources::of_host().cores;
    Good(format!(
        "{cores} by affinity mask and cgroup quota: up to {cores} ranks without --oversubscribe"
    ))
}

fn memory() -> Finding {
    let bytes = Resources::of_host().memory_bytes;
    let text = format!(
        "{} available by MemAvailable and cgroup limits",
        Bytes(bytes)
    );
    if bytes < 64 << 20 {
        Bad(format!("{text}: too little for a node"))
    } else {
        Good(text)
    }
}

/// Whether Linux gives some to a node's memory: it is tried.
fn large_pages() -> Finding {
    let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    let mode = mode.unwrap_or_default();
    let mode = mode.split(['[', ']']).nth(1).unwrap_or("unknown");
    match pages::gives_large() {
        Ok(true) => Good(format!(
            "a node's memory can be in pages of 2 MiB (--populate; shmem_enabled is {mode})"
        )),
        Ok(false) => Note(format!(
            "Linux gives a node's memory none (shmem_enabled is {mode}): with KVM a first touch takes longer, and so do misses of the TLB"
        )),
        Err(error) => Note(format!("unknown: {error}")),
    }
}

/// Whether there can be one; that there cannot is in the way where it was wanted.
fn co_kernel(kind: &Result<Kind, Failure>) -> Finding {
    match (kind, cokernel::usable()) {
        (Err(failure), _) => Bad(failure.line.clone()),
        (Ok(_), Ok(())) => Good(format!(
            "{} opens: nodes of up to {} of this host's own cores",
            cokernel::PATH,
            Cpus::of_host(&allowed_cpus()).cores()
        )),
        (Ok(_), Err(why)) => Note(why),
    }
}

/// Whether a node comes up.
fn node(first: Sample, kind: Result<Kind, Failure>) -> Finding {
    let began = Instant::now();
    match kind.and_then(|kind| boot(first, kind)) {
        Ok(by) => Good(format!(
            "booted {by} in {:.2} s",
            began.elapsed().as_secs_f64()
        )),
        Err(failure) => Bad(failure.line),
    }
}

/// Returns how it came up.
fn boot(first: Sample, kind: Kind) -> Result<&'static str, Failure> {
    let request = Request {
        ranks: 1,
        // Linux loses no more than it must.
        cores_per_rank: (kind == Kind::Cokernel).then_some(1),
        partition_bytes: Some(PARTITION_BYTES),
        pool_bytes: Some(0),
        oversubscribe: false,
        flags: 0,
        tsc_hz: 0,
        node_bytes: None,
    };
    let missing = |why: String| Failure::new(status::UNAVAILABLE, why);
    let limit = boot_limit()?;
    let parts = Parts::find()?;
    let machine = match kind {
        Kind::Cokernel => Machine::Cokernel,
        Kind::Qemu => Machine::Qemu(Q35 {
            qemu: Qemu::find().map_err(|none| missing(none.to_string()))?,
            accel: accel::choose(Choice::Auto).map_err(|no| missing(no.to_string()))?,
            agent: parts.agent,
            icount: false,
            plugin: None,
        }),
    };
    let host = Host {
        resources: Resources::of_host(),
        cpus: allowed_cpus(),
    };
    let (resources, limits) = machine.offer(&host)?;
    let plan = plan::plan(&request, &resources, &limits);
    let job = Job {
        plan: plan.map_err(|no| missing(no.to_string()))?,
        ranks: 0..1,
        log: false,
        due: None,
        guests: Vec::new(),
        binding: None,
    };
    let launch = Launch {
        machine,
        kernel: parts.kernel,
        pct: parts.pct,
        refuse: [0; 8],
        populate: false,
        first,
    };
    let context = Context {
        machine: &launch.machine,
        kernel: &launch.kernel,
    };
    let cannot = |error: std::io::Error| Failure::os("start the node keeper", error);
    let mut keeper = Machine::keeper(&launch, job).map_err(cannot)?;
    let due = Instant::now() + limit;
    let came_up = keeper
        .node(|socket| readable(socket, due))
        .map_err(|none| match none {
            NoNode::Ended(ended, _) => Loss::Node(ended),
            NoNode::Io(_) | NoNode::Dismissed(_) | NoNode::Taken => Loss::Keeper(keeper.pid()),
            NoNode::GivenUp => Loss::Hangs(limit),
        })
        .and_then(|_| comes_up(&keeper, due, limit));
    let outcome = came_up.map_err(|loss| loss.explain(&context, false));
    keeper.leave(END_LIMIT);
    outcome.map(|()| launch.machine.how())
}

/// Waits for the kernel to say so.
fn comes_up(keeper: &Keeper, due: Instant, limit: Duration) -> Result<(), Loss> {
    loop {
        match keeper.next_event().map(|(event, _)| event) {
            Some(Event::State {
                state: node::UP, ..
            }) => return Ok(()),
            Some(Event::State {
                state: node::PCT_LOST,
                log,
            }) => return Err(Loss::Pct(log)),
            Some(Event::Ended(ended)) => return Err(Loss::Node(ended)),
            Some(Event::KeeperGone) => return Err(Loss::Keeper(keeper.pid())),
            Some(_) => continue,
            None => {}
        }
        if !readable(keeper.as_fd(), due) {
            return Err(Loss::Hangs(limit));
        }
    }
}

/// Waits until `fd` is readable; false: not until `due`. May return early.
fn readable(fd: BorrowedFd<'_>, due: Instant) -> bool {
    let left = due.saturating_duration_since(Instant::now());
    ready::within(left, fd, PollFlags::IN); // ready or not: the caller polls again
    !left.is_zero()
}

fn limits() -> Finding {
    let cores = Resources::of_host().cores;
    match proxy::check_limits(cores) {
        Ok(()) => Good("address space and open files suffice".into()),
        Err(why) => Bad(why.to_string()),
    }
}

fn file_size() -> Finding {
    match getrlimit(Resource::Fsize).current {
        None => Good("not limited".into()),
        Some(limit) => Note(format!(
            "ulimit -f allows {}: a node's memory must be less",
            Bytes(limit)
        )),
    }
}

fn clock() -> Finding {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(Path::new(source))
        .unwrap_or_default()
        .trim()
    {
        "tsc" | "kvm-clock" => Good("the TSC is stable".into()),
        "" => Note("unknown whether the TSC is stable".into()),
        other => Note(format!(
            "the host's clock is {other}: if its TSC is not stable, times of ranks may be off"
        )),
    }
}
