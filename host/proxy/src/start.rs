//! Becoming a proxy: from a fork of yod to a process that serves a rank.

use std::io::Write as _;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use abi::ident::{ADDR_NO_RANDOMIZE, NSIG, RLIM_NLIMITS};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;
use rustix::process::{self, Resource, Signal};
use wire::boot::flag;
use wire::layout::Layout;
use wire::rank::{FromHost, proxy};
use wire::word::Word;

use crate::child::children::Children;
use crate::debug;
use crate::describe;
use crate::doorbell;
use crate::fds::{Limits, Own, close_on_exec};
use crate::halt::Halted;
use crate::kick::{KICK, Kick};
use crate::memory::Memory;
use crate::objects::{Holder, Objects};
use crate::ram_files::RamFiles;
use crate::rank::{Descriptors, Link, Parts, Rank, Reception};
use crate::sandbox;
use crate::shared::RankWords;
use crate::signalfds::Signalfds;
use crate::signals::{self, How};
use crate::stub;
use crate::terminal;
use crate::watcher::Watcher;
use crate::{Config, Program};

/// Exit code when the proxy cannot be set up (EX_OSERR, sysexits.h).
pub const EXIT_IMPOSSIBLE: i32 = 71;
/// Exit code after a mistake of this program (EX_SOFTWARE, sysexits.h).
const EXIT_BUG: i32 = 70;

/// Why a rank's proxy cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Impossible {
    /// RLIMIT_AS.
    #[error("the address space is limited to {} KiB, but a rank needs 512 GiB of addresses: use `ulimit -v unlimited`", .0 / 1024)]
    AddressSpace(u64),
    /// RLIMIT_NOFILE.
    #[error("the hard limit on open files leaves no room for a rank: raise it (`ulimit -Hn`)")]
    Descriptors,
    /// Anything else.
    #[error("cannot {0}: {1}")]
    Linux(&'static str, io::Errno),
    /// yod has died meanwhile.
    #[error("yod is gone")]
    Orphaned,
}

/// Says early, before a node is started, whether this process's limits have room for a rank on a node of `cores` cores.
///
/// # Errors
/// [`Impossible::AddressSpace`], [`Impossible::Descriptors`].
pub fn check_limits(cores: usize) -> Result<(), Impossible> {
    if let Some(limit) = process::getrlimit(Resource::As).current
        && limit < 2 * abi::map::USER_TOP
    {
        return Err(Impossible::AddressSpace(limit));
    }
    let files = process::getrlimit(Resource::Nofile);
    Limits::divide(files.current, files.maximum, cores)
        .map(|_| ())
        .ok_or(Impossible::Descriptors)
}

/// Prints why there is no proxy, and ends the process.
pub fn give_up(why: &Impossible) -> ! {
    let _ = writeln!(std::io::stderr(), "yod: {why}");
    signals::exit(EXIT_IMPOSSIBLE)
}

fn cannot(what: &'static str) -> impl Fn(io::Errno) -> Impossible {
    move |errno| Impossible::Linux(what, errno)
}

/// Sets everything up and announces the proxy to the node; returns the rank and the worker's epoll set.
///
/// # Errors
/// [`Impossible`].
pub fn start(mut config: Config) -> Result<(&'static Rank, OwnedFd), Impossible> {
    die_with(config.parent)?;
    end_on_panic();
    let cores = config.core_doorbells.len();
    check_limits(cores)?;
    take_signals(&config);
    let own = Own::open(cores).map_err(|_| Impossible::Descriptors)?;
    let keep = |fd| own.keep(fd);
    let gdb = config.gdb.take();
    let is_full = config.wire.has(flag::DEBUG);
    let (rank, set, watcher) = build(config, own.limits(), &keep)?;
    let gdb = gdb.map(|gdb| gdb.keep(keep)).transpose();
    let gdb = gdb.map_err(cannot("move a descriptor"))?;
    let limits = own.close().map_err(cannot("set the limit on open files"))?;
    close_on_exec(limits.first_own, &[]);

    let rank: &'static Rank = Box::leak(Box::new(rank));
    rank.debug().is_full.store(is_full, Ordering::SeqCst);
    Kick::install();
    terminal::install(rank);
    sandbox::enter_domain();
    rank.children()
        .forker
        .start()
        .map_err(cannot("start a thread"))?; // the only one to stay outside of the filter
    sandbox::enter_filter();
    let run = move || watcher.run(rank);
    std::thread::Builder::new()
        .name("watcher".into())
        .spawn(run)
        .map_err(|_| Impossible::Linux("start a thread", io::Errno::AGAIN))?;
    if let Some(gdb) = gdb {
        debug::start(rank, gdb)
            .map_err(|_| Impossible::Linux("start a thread", io::Errno::AGAIN))?;
    }
    signals::mask(How::Set, rank.reception().blocked());
    describe::name_process(rank.pid(), &rank.program());
    fill(&rank.words().area.host, rank, &limits);
    rank.words().threads[0].host.tid.put(rank.pid().into());
    rank.words().area.host.workers.put(1);
    rank.words().area.host.state.store(proxy::ATTACHED);
    rank.link().signal();
    Ok((rank, set))
}

/// Moves the descriptors out of the rank's way and maps what is shared.
fn build(
    config: Config,
    limits: Limits,
    keep: &impl Fn(OwnedFd) -> io::Result<OwnedFd>,
) -> Result<(Rank, OwnedFd, Watcher), Impossible> {
    let moved = cannot("move a descriptor");
    let layout = Layout::new(&config.wire);
    let words = RankWords::map(
        config.ram.as_fd(),
        &config.ram_layout,
        config.comm_gpa,
        &layout,
        config.rank,
    )
    .map_err(cannot("map the communication area"))?;
    let ram = Arc::new(RamFiles {
        ram: keep(config.ram).map_err(&moved)?,
        pool: keep(config.pool).map_err(&moved)?,
        layout: config.ram_layout,
    });
    let holder = Holder::new(limits, config.agent, keep).map_err(&moved)?;
    let objects = Arc::new(Objects::new(ram.clone(), words.area, holder));
    let memory =
        Memory::reserve(ram, objects.clone()).map_err(cannot("reserve 512 GiB of addresses"))?;
    let doorbell = keep(config.doorbell_in).map_err(&moved)?;
    let set = doorbell::set(&doorbell).map_err(cannot("watch the doorbell"))?;
    let blocked = signals::ALL & !signals::set(KICK);
    let watcher_doorbell =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).and_then(keep);
    let watcher_doorbell = watcher_doorbell.map_err(&moved)?;
    let halted_doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).and_then(keep);
    let halted_doorbell = halted_doorbell.map_err(&moved)?;
    let watch = cannot("watch signals");
    let signalfds = Signalfds::new(blocked).map_err(&watch)?;
    let signalfds = signalfds.keep(keep).map_err(&moved)?;
    let watcher = Watcher::new(&doorbell, &watcher_doorbell, &signalfds).map_err(&watch)?;
    let watcher = watcher.keep(keep).map_err(&moved)?;
    let stderr = io::dup(std::io::stderr())
        .or_else(|_| open_null())
        .map_err(&moved)?;
    let core_doorbells: Result<_, _> = config.core_doorbells.into_iter().map(keep).collect();
    // It stays open for as long as the epoll sets are to report it.
    let _ = doorbell.into_raw_fd();
    let program = Program {
        file: keep(config.program.file).map_err(&moved)?,
        interpreter: config
            .program
            .interpreter
            .map(keep)
            .transpose()
            .map_err(&moved)?,
        ..config.program
    };
    let rank = Rank::new(Parts {
        label: config.label,
        link: Link::new(
            words,
            config.comm_gpa,
            layout,
            core_doorbells.map_err(&moved)?,
        ),
        memory,
        objects,
        descriptors: Descriptors::new(limits, keep(stderr).map_err(&moved)?),
        program,
        reception: Reception::new(config.inherited, blocked, signalfds, watcher_doorbell),
        children: Children::new(sandbox::rules().and_then(|rules| keep(rules).ok())),
        halted: Halted::new(halted_doorbell),
        room: config.room,
    });
    Ok((rank, keep(set).map_err(&moved)?, watcher))
}

fn open_null() -> io::Result<OwnedFd> {
    rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::WRONLY,
        rustix::fs::Mode::empty(),
    )
}

/// Lets Linux kill this process when yod dies.
fn die_with(parent: u32) -> Result<(), Impossible> {
    process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(cannot("follow yod's end"))?;
    // It may have died before.
    let now = process::getppid().map(|pid| pid.as_raw_pid());
    if now == i32::try_from(parent).ok() {
        Ok(())
    } else {
        Err(Impossible::Orphaned)
    }
}

/// A mistake of this program must not unwind into yod's code, of which this process is a copy.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(std::io::stderr(), "yod: mistake in the proxy: {panic}");
        signals::exit(EXIT_BUG)
    }));
}

/// Blocks all signals, for the watcher to receive, and drops yod's handlers.
fn take_signals(config: &Config) {
    signals::mask(How::Set, signals::ALL);
    for signo in 1..=NSIG as i32 {
        signals::set_disposition(signo, config.inherited.ignored & signals::set(signo) != 0);
    }
}

/// Describes the rank to the node.
fn fill(host: &FromHost, rank: &Rank, limits: &Limits) {
    host.pid.put(rank.pid().into());
    host.ppid
        .put(process::getppid().map_or(0, |pid| pid.as_raw_pid() as u64));
    for (resource, words) in host.rlimits.iter().enumerate() {
        put_pair(words, rlimit(resource));
    }
    put_pair(
        &host.rlimits[libc::RLIMIT_NOFILE as usize],
        [limits.soft, limits.first_own],
    );
    describe::describe(host, &rank.program());
    host.ignored.put(rank.reception().inherited().ignored);
    host.blocked.put(rank.reception().inherited().blocked);
    let personality = rank.reception().inherited().personality & ADDR_NO_RANDOMIZE;
    host.personality.put(personality);
    let uname = rustix::system::uname();
    host.nodename.put(uname.nodename().to_bytes());
    host.domainname.put(uname.domainname().to_bytes());
}

fn put_pair(words: &[Word; 2], values: [u64; 2]) {
    words[0].put(values[0]);
    words[1].put(values[1]);
}

/// Soft and hard limit; u64::MAX: unlimited.
fn rlimit(resource: usize) -> [u64; 2] {
    const _: () = assert!(RLIM_NLIMITS == 16);
    let mut limit = [u64::MAX; 2];
    let args = [0, resource as u64, 0, &raw mut limit as u64, 0, 0];
    // SAFETY: 1. Linux writes a struct rlimit64, two u64.
    unsafe { stub::syscall(libc::SYS_prlimit64 as u64, &args) };
    limit
}
