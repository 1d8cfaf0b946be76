//! From the command line to everything a run needs, checked in an order that blames the user first, the host second.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use machine::clock::{self, Sample};
use machine::cokernel;
use machine::keeper::Launch;
use machine::machine::{Limits, Machine as _};
use machine::plan::{Plan, Request, plan};
use machine::qemu::accel::{self, Accel, Choice};
use machine::qemu::{Q35, Qemu};
use machine::resources::Resources;
use rustix::io::{Errno, fcntl_getfd};
use rustix::process::{WaitOptions, getpid, test_kill_process, waitpid};
use wire::boot::flag;

use crate::cli::{self, Cli, Populate};
use crate::failure::{Failure, status};
use crate::launcher;
use crate::machines::{Host, Kind, Machine};
use crate::parts::Parts;
use crate::place::Place;
use crate::program::Program;

/// Virtual time, for measurements: one instruction is one ns.
const ICOUNT: &str = "MARGAY_ICOUNT";
/// Like --oversubscribe.
const OVERSUBSCRIBE: &str = "MARGAY_OVERSUBSCRIBE";
/// Names of system calls, separated by commas, that the node is to treat as missing: finds out who needs what.
const REFUSE: &str = "MARGAY_REFUSE";
/// MiB of memory that a node gets besides the partitions, for finding out how few are enough.
const NODE_MIB: &str = "MARGAY_NODE_MIB";
/// A plugin of QEMU's emulation, FILE[,ARGUMENT=VALUE...], for measurements.
const QEMU_PLUGIN: &str = "MARGAY_QEMU_PLUGIN";
/// Frequency of the TSC under -icount.
const ICOUNT_HZ: u64 = 1_000_000_000;

/// Variables that concern the node: all yods of a job must have the same.
pub const NODE_VARIABLES: [&str; 5] = [ICOUNT, OVERSUBSCRIBE, REFUSE, NODE_MIB, QEMU_PLUGIN];

/// Ready to run.
pub struct Setup {
    pub program: Program,
    pub launch: Launch<Machine>,
    /// What the node will be; `None` when another yod decides that.
    pub plan: Option<Plan>,
}

impl Setup {
    /// Checks all that does not depend on other yods of the job; there is no plan yet. `first` is a sample of the clocks from the start of
    /// the process.
    pub fn new(cli: &Cli, place: &Place, first: Sample) -> Result<Setup, Failure> {
        let refuse = refused_calls()?;
        let mut program = Program::find(&cli.command, &cli.variables, place)?;
        check_limits(1)?;
        check_linux()?;
        let Parts { kernel, pct, agent } = Parts::find()?;
        let (machine, populate) = match kind(cli)? {
            Kind::Qemu => {
                let q35 = q35(cli, agent)?;
                let populate = populates(cli.populate, q35.accel, cli.memory.is_some());
                (Machine::Qemu(q35), populate)
            }
            // Its memory is there from the start.
            Kind::Cokernel => {
                program.set_for_machine(launcher::ON_COKERNEL);
                (Machine::Cokernel, false)
            }
        };
        Ok(Setup {
            program,
            launch: Launch {
                machine,
                kernel,
                pct,
                refuse,
                populate,
                first,
            },
            plan: None,
        })
    }
}

/// Which machine makes the node.
///
/// # Errors
/// A line: it was wanted, and cannot be.
pub fn kind(cli: &Cli) -> Result<Kind, Failure> {
    let accel = match cli.accel {
        cli::Accel::Auto => None,
        cli::Accel::Kvm => Some("--accel kvm"),
        cli::Accel::Tcg => Some("--accel tcg"),
    };
    let variable = [ICOUNT, QEMU_PLUGIN].into_iter().find(|name| is_set(name));
    Kind::choose(cli.machine, accel.or(variable), cokernel::usable)
}

fn q35(cli: &Cli, agent: PathBuf) -> Result<Q35, Failure> {
    let icount = is_set(ICOUNT);
    let qemu = Qemu::find().map_err(|none| Failure::new(status::UNAVAILABLE, none))?;
    let plugin = qemu_plugin()?;
    let accel = if icount || plugin.is_some() {
        Accel::Tcg
    } else {
        accelerator(cli.accel.into())?
    };
    Ok(Q35 {
        qemu,
        accel,
        agent,
        icount,
        plugin,
    })
}

/// What [`Setup::new`] found, with a plan for the yod that starts the node: `host` is what the job may use.
///
/// # Errors
/// What is wrong with the plan, before what `setup` says.
pub fn planned(
    setup: Result<Setup, Failure>,
    cli: &Cli,
    place: &Place,
    host: Option<&Host>,
    first: Sample,
) -> Result<Setup, Failure> {
    let plan = host.map(|host| {
        let (resources, limits) = match &setup {
            Ok(setup) => setup.launch.machine.offer(host)?,
            Err(_) => (host.resources, Q35::LIMITS),
        };
        make_plan(cli, place.size, &resources, &limits, first)
    });
    let plan = plan.transpose()?;
    let setup = setup?;
    plan.map_or(Ok(()), |plan| check_limits(plan.cpus))?;
    Ok(Setup { plan, ..setup })
}

fn check_limits(cores: usize) -> Result<(), Failure> {
    proxy::check_limits(cores).map_err(|why| Failure::new(status::OS, why))
}

/// What a run needs of Linux at moments when it is too late to say so: calls that a filter may deny, as containers set them,
/// and /dev/null.
fn check_linux() -> Result<(), Failure> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null");
    let null =
        null.map_err(|error| Failure::os("open /dev/null, which nodes and ranks need", error))?;
    let refused = |call: &str, errno: Errno| {
        let error = std::io::Error::from(errno);
        Failure::new(
            status::OS,
            format_args!(
                "Linux refuses {call} to this process ({error}): is there a seccomp filter? yod needs the call"
            ),
        )
    };
    fcntl_getfd(&null).map_err(|errno| refused("fcntl", errno))?;
    test_kill_process(getpid()).map_err(|errno| refused("kill", errno))?;
    match waitpid(Some(getpid()), WaitOptions::NOHANG) {
        // It is not its own child.
        Err(Errno::CHILD) | Ok(_) => Ok(()),
        Err(errno) => Err(refused("wait4", errno)),
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether ranks may share cores.
pub fn oversubscribes(cli: &Cli) -> bool {
    cli.oversubscribe || is_set(OVERSUBSCRIBE)
}

fn accelerator(choice: Choice) -> Result<Accel, Failure> {
    accel::choose(choice).map_err(|no| {
        Failure::new(
            status::UNAVAILABLE,
            format_args!("--accel kvm: {no}; --accel tcg always works"),
        )
    })
}

/// Without `-m` a job has most of the memory there is, as have others beside it, and few use it; and an emulator takes longer for what a
/// program does than Linux for a page.
fn populates(choice: Populate, accel: Accel, is_memory_given: bool) -> bool {
    match choice {
        Populate::Auto => accel == Accel::Kvm && is_memory_given,
        Populate::Yes => true,
        Populate::No => false,
    }
}

fn make_plan(
    cli: &Cli,
    ranks: usize,
    host: &Resources,
    limits: &Limits,
    first: Sample,
) -> Result<Plan, Failure> {
    let icount = is_set(ICOUNT);
    let mut flags = 0;
    for (wanted, flag) in [
        (cli.strace.is_some(), flag::TRACE),
        (cli.stats.is_some(), flag::COUNTERS),
        (icount, flag::OWN_CLOCK),
        (cli.gdb.is_some(), flag::DEBUG),
    ] {
        flags |= if wanted { flag } else { 0 };
    }
    let request = Request {
        ranks,
        cores_per_rank: cli.cores,
        partition_bytes: cli.memory,
        pool_bytes: cli.shared_memory,
        oversubscribe: oversubscribes(cli),
        flags,
        tsc_hz: if icount {
            ICOUNT_HZ
        } else {
            clock::tsc_hz(&first, &Sample::now())
        },
        node_bytes: node_bytes()?,
    };
    plan(&request, host, limits).map_err(|error| Failure::new(status::USAGE, error))
}

fn node_bytes() -> Result<Option<u64>, Failure> {
    let Some(text) = std::env::var_os(NODE_MIB).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let mib = text.to_str().and_then(|text| text.parse::<u32>().ok());
    mib.map(|mib| Some(u64::from(mib) << 20)).ok_or_else(|| {
        Failure::new(
            status::USAGE,
            format_args!("{NODE_MIB}: not a number of MiB: {}", text.display()),
        )
    })
}

/// QEMU gets another working directory: the file's path is made absolute.
fn qemu_plugin() -> Result<Option<OsString>, Failure> {
    let Some(text) = std::env::var_os(QEMU_PLUGIN).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|&byte| byte == b',');
    let (file, arguments) = bytes.split_at(end.unwrap_or(bytes.len()));
    let file = Path::new(OsStr::from_bytes(file));
    let mut plugin = file
        .canonicalize()
        .map_err(|error| {
            let why = format_args!("{QEMU_PLUGIN}: {}: {error}", file.display());
            Failure::new(status::USAGE, why)
        })?
        .into_os_string();
    plugin.push(OsStr::from_bytes(arguments));
    Ok(Some(plugin))
}

fn refused_calls() -> Result<[u64; 8], Failure> {
    let mut refuse = [0; 8];
    let names = std::env::var(REFUSE).unwrap_or_default();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let call = abi::syscall::by_name(name).ok_or_else(|| {
            Failure::new(
                status::USAGE,
                format_args!("{REFUSE}: no system call {name}"),
            )
        })?;
        refuse[usize::from(call.nr) / 64] |= 1 << (call.nr % 64);
    }
    Ok(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that was given 80 % of the memory because it named none must not have it at once.
    #[test]
    fn memory_that_was_requested_is_had_at_once() {
        let auto = |accel, given| populates(Populate::Auto, accel, given);
        assert!(auto(Accel::Kvm, true));
        assert!(!auto(Accel::Kvm, false) && !auto(Accel::Tcg, true));
        assert!(populates(Populate::Yes, Accel::Tcg, false));
        assert!(!populates(Populate::No, Accel::Kvm, true));
    }
}
