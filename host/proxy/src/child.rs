//! Children of the rank: Linux processes, forked from this one (docs/adr/0019).
//!
//! The QK requests one of a worker. It writes down what the child has to do before the program goes on there
//! ([`script`]), with the rank's memory locked, and has a thread that is outside of the filter fork ([`forker`]). The child
//! does what is written and nothing else ([`stage`]); its last step enters the program as a return from a signal ([`page`]).

pub(crate) mod children;
mod copies;
pub(crate) mod fork_lock;
mod forker;
mod job;
mod lent;
mod memory;
mod page;
mod parent;
mod script;
mod shared;
mod stage;
mod steps;
mod wait;

use std::sync::Arc;

use abi::Errno;
use abi::control::FORK_OVER;
use abi::ident::NSIG;
use wire::child::{Child, LIMITS, RLIMIT_NOFILE, how};

use crate::heritage;
use crate::memory::{Memory, RankMemory};
use crate::rank::Rank;
use crate::signals;
use crate::special;
use crate::stub;
use job::Job;
use parent::Parent;
use script::Script;
pub use wait::{carry_out as wait, settle};

/// Carries out [`abi::control::HostOp::Fork`] for thread `index` of the rank, whose worker the caller is.
///
/// # Errors
/// What clone(2) says, or what the child could not do.
pub fn fork(rank: &'static Rank, index: usize) -> Result<i64, Errno> {
    heritage::settle(rank, index);
    let record = &rank.words().area.child;
    let action = &record.actions[libc::SIGCHLD as usize - 1];
    child_signal(rank, action[0].peek(), action[1].peek());
    let requested = |what: u64| record.how.peek() & what != 0;
    let (vfork, pidfd) = (requested(how::VFORK), requested(how::PIDFD));
    let no_opening = rank.children().fork_lock.for_fork(|| rank.wake_watcher());
    let memory = rank.memory();
    let script = Script::write(parent(rank, &memory), &memory, record)?;
    let job = Arc::new(Job::new(script, exit_signal(record), vfork, pidfd)?);
    rank.children().forker.begin(job.clone());
    // A child of vfork is waited for once: it has called exec, as a rule, before it were known here that it is ready.
    let over = vfork && job.is_soon_over();
    let pid = job.wait_ready()?;
    if vfork && !over {
        rank.children().wait_for(pid, job.clone());
    }
    drop((memory, no_opening));
    wait::born(rank, pid);
    if pidfd {
        record.pidfd.put(job.pidfd() as u64);
    }
    if over {
        let_go(rank, pid, &job);
        return Ok((u64::from(pid) | FORK_OVER) as i64);
    }
    Ok(pid.into())
}

/// What a child has of this process.
fn parent<'a>(rank: &'a Rank, memory: &Memory) -> Parent<'a> {
    let limits = LIMITS.into_iter().chain([RLIMIT_NOFILE]);
    Parent {
        pid: rank.pid(),
        rules: rank.children().rules(),
        own_fds: rank.limits().first_own..rank.limits().raised,
        spare_fds: [
            rank.descriptors().stderr(),
            rank.reception().watcher_doorbell(),
        ],
        program: rank.program(),
        strings_at: rank.running().strings_at(),
        auxv: special::auxv(rank, memory).unwrap_or_default(),
        heap_start: rank.words().area.node.heap_start.load(),
        personality: rank.reception().inherited().personality,
        limits: limits
            .map(|resource| (resource, rank.limit(resource)))
            .collect(),
        room: rank.room(),
    }
}

/// The child does not use the rank's memory any more: the parent gets what it has stored on the stack.
fn let_go(rank: &Rank, pid: u32, job: &Job) {
    rank.children().forget(pid);
    for (at, bytes) in job.script.stack_changes() {
        let _ = rank.write(at, &bytes); // another thread may have unmapped it: then it is not needed
    }
}

/// The signal that the parent gets at its end. Linux sends none by a number that no signal has, which only clone(2) takes.
fn exit_signal(record: &Child) -> u64 {
    let number = record.exit_signal.peek() & 0xff;
    if number <= NSIG.into() { number } else { 0 }
}

/// Carries out [`abi::control::HostOp::AwaitExec`]; `gave_up` says when the QK does not wait any more.
///
/// # Errors
/// ECHILD; EINTR when it was given up.
pub fn await_exec(rank: &Rank, pid: u64, gave_up: impl Fn() -> bool) -> Result<i64, Errno> {
    let pid = u32::try_from(pid).map_err(|_| Errno::ECHILD)?;
    let job = rank.children().waited_for(pid).ok_or(Errno::ECHILD)?;
    job.wait_over(gave_up)?;
    let_go(rank, pid, &job);
    Ok(0)
}

/// Waits until no child uses memory of the rank, whose other threads have ended.
pub fn await_borrowers(rank: &Rank) {
    for job in rank.children().take_waited_for().into_values() {
        let _ = job.wait_over(|| false); // no error but that it is given up
    }
}

/// Carries out [`abi::control::HostOp::WakeChildren`].
///
/// # Errors
/// EFAULT where the rank has nothing mapped; what futex(2) says.
pub fn wake(rank: &Rank, args: &[u64; 6]) -> Result<i64, Errno> {
    let [at, count, moved, to, ..] = *args;
    let memory = rank.memory();
    let is_there = |at| memory.regions().allow(at, 4, false);
    if !is_there(at) || moved != 0 && !is_there(to) {
        return Err(Errno::EFAULT);
    }
    let [count, moved] = [count, moved].map(|count| count.min(i32::MAX as u64));
    let operation = match moved {
        0 => libc::FUTEX_WAKE,
        _ => libc::FUTEX_REQUEUE,
    };
    let args = [at, operation as u64, count, moved, to, 0];
    // SAFETY: 1. Linux finds out at most which pages of which files the rank has there.
    let woken = unsafe { stub::syscall(libc::SYS_futex as u64, &args) };
    Errno::from_ret(woken).map_or(Ok(woken), Err)
}

/// Nanoseconds of a second.
const NS_PER_S: u64 = 1_000_000_000;

/// Carries out [`abi::control::HostOp::WaitWithChildren`].
///
/// # Errors
/// EFAULT where the rank has nothing mapped; what futex(2) says.
pub fn wait_beside(rank: &Rank, args: &[u64; 6]) -> Result<i64, Errno> {
    let [at, expected, bits, left_ns, ..] = *args;
    if !rank.memory().regions().allow(at, 4, false) {
        return Err(Errno::EFAULT);
    }
    // Both clocks of Linux are the node's: the end is by the one that futex(2) takes for FUTEX_WAIT_BITSET.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64;
    let end_ns = now_ns.saturating_add(left_ns);
    let end = [end_ns / NS_PER_S, end_ns % NS_PER_S];
    let until = match left_ns {
        u64::MAX => 0,
        _ => end.as_ptr().addr() as u64,
    };
    let args = [at, libc::FUTEX_WAIT_BITSET as u64, expected, until, 0, bits];
    // SAFETY: 1. Linux finds out at most whether a word that the rank has there has a value. 2. It reads a struct timespec, two u64.
    let ended = unsafe { stub::syscall(libc::SYS_futex as u64, &args) };
    Errno::from_ret(ended).map_or(Ok(ended), Err)
}

/// Carries out [`abi::control::HostOp::ChildSignal`]: Linux reads the disposition of SIGCHLD when a child ends or stops.
pub fn child_signal(rank: &Rank, handler: u64, flags: u64) {
    if rank.children().forker.is_there() {
        let kept = (libc::SA_NOCLDWAIT | libc::SA_NOCLDSTOP) as u64;
        let ignored = handler == libc::SIG_IGN as u64;
        signals::set_disposition_with(libc::SIGCHLD, ignored, flags & kept);
    }
}
