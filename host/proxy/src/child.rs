//! Children of the rank: Linux processes, forked from this one (docs/adr/0019).
//!
//! The QK requests one of a worker. It writes down what the child has to do before the program goes on there
//! ([`script`]), with the rank's memory locked, and has a thread that is outside of the filter fork ([`nursery`]). The child
//! does what is written and nothing else ([`stage`]); its last step enters the program as a return from a signal ([`page`]).

mod copies;
mod lent;
mod nursery;
mod page;
mod script;
mod shared;
mod stage;
mod steps;
mod wait;

use std::cell::Cell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use abi::Errno;
use abi::control::FORK_OVER;
use abi::ident::NSIG;
use wire::child::{Child, how};

use crate::heritage;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::signals;
use crate::stub;
use nursery::Job;
pub use nursery::Nursery;
use script::Script;
pub use wait::{carry_out as wait, settle};

/// What the process needs for its children.
#[derive(Debug, Default)]
pub struct Children {
    /// Who forks.
    pub nursery: Nursery,
    /// Closed while a thread forks.
    pub gate: Gate,
    /// Landlock's rules for a child, if there are any.
    pub rules: Option<OwnedFd>,
    /// Held while the list of children changes that yod reads.
    listing: Mutex<()>,
    /// Those that have not called exec yet and use the rank's memory, or whose parent thread waits for it.
    waited_for: Mutex<HashMap<u32, Arc<Job>>>,
}

impl Children {
    /// None yet; `rules` are Landlock's for each.
    pub fn new(rules: Option<OwnedFd>) -> Children {
        Children {
            rules,
            ..Children::default()
        }
    }
}

/// Keeps descriptors that are yet to be looked at from children: who opens something for the rank passes, who forks closes it.
#[derive(Debug, Default)]
pub struct Gate {
    open: RwLock<()>,
    /// A thread waits to close it: openings that block are to be kicked.
    closing: AtomicBool,
}

thread_local! {
    /// How often the thread has passed the gate, of which a process has one.
    static PASSED: Cell<u32> = const { Cell::new(0) };
}

/// Keeps the gate from being closed. Those of one thread end in the opposite order of their beginning.
#[derive(Debug)]
pub struct Pass<'a> {
    _open: Option<RwLockReadGuard<'a, ()>>,
}

impl Gate {
    /// Passes for as long as the guard lives. A thread that has passed does so again without waiting: a lock
    /// with a waiting writer lets in no more readers, and would have the thread wait for itself.
    pub fn pass(&self) -> Pass<'_> {
        let first = PASSED.replace(PASSED.get() + 1) == 0;
        let open = first.then(|| self.open.read().unwrap_or_else(PoisonError::into_inner));
        Pass { _open: open }
    }

    /// Whether a thread waits for those that have passed.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    fn close(&self, rank: &Rank) -> RwLockWriteGuard<'_, ()> {
        // As a rule no thread is inside, and waking the watcher costs a tenth of a fork.
        match self.open.try_write() {
            Ok(closed) => return closed,
            Err(TryLockError::Poisoned(closed)) => return closed.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.closing.store(true, Ordering::SeqCst);
        rank.ring_watcher();
        let closed = self.open.write().unwrap_or_else(PoisonError::into_inner);
        self.closing.store(false, Ordering::SeqCst);
        closed
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        PASSED.set(PASSED.get() - 1);
    }
}

/// Carries out [`abi::control::HostOp::Fork`] for thread `index` of the rank, whose worker the caller is.
///
/// # Errors
/// What clone(2) says, or what the child could not do.
pub fn fork(rank: &'static Rank, index: usize) -> Result<i64, Errno> {
    heritage::settle(rank, index);
    let record = &rank.words.area.child;
    let action = &record.actions[libc::SIGCHLD as usize - 1];
    child_signal(rank, action[0].peek(), action[1].peek());
    let asked = |what: u64| record.how.peek() & what != 0;
    let (vfork, pidfd) = (asked(how::VFORK), asked(how::PIDFD));
    let closed = rank.children.gate.close(rank);
    let memory = rank.memory();
    let script = Script::write(rank, &memory, record)?;
    let job = Arc::new(Job::new(script, exit_signal(record), vfork, pidfd)?);
    rank.children.nursery.begin(job.clone());
    // A child of vfork is waited for once: it has called exec, as a rule, before it were known here that it is ready.
    let over = vfork && job.is_soon_over();
    let pid = job.wait_ready()?;
    if vfork && !over {
        waited_for(rank, |all| all.insert(pid, job.clone()));
    }
    drop((memory, closed));
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

/// The child does not use the rank's memory any more: the parent gets what it has stored on the stack.
fn let_go(rank: &Rank, pid: u32, job: &Job) {
    waited_for(rank, |all| all.remove(&pid));
    for (at, bytes) in job.script.stack_changes() {
        let _ = rank.write(at, &bytes); // another thread may have unmapped it: then it is not needed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The signal that the parent gets at its end. Linux sends none by a number that no signal has, which only clone(2) takes.
fn exit_signal(record: &Child) -> u64 {
    let number = record.exit_signal.peek() & 0xff;
    if number <= NSIG.into() { number } else { 0 }
}

fn waited_for<R>(rank: &Rank, change: impl FnOnce(&mut HashMap<u32, Arc<Job>>) -> R) -> R {
    change(&mut lock(&rank.children.waited_for))
}

/// Carries out [`abi::control::HostOp::AwaitExec`]; `gave_up` says when the QK does not wait any more.
///
/// # Errors
/// ECHILD; EINTR when it was given up.
pub fn await_exec(rank: &Rank, pid: u64, gave_up: impl Fn() -> bool) -> Result<i64, Errno> {
    let pid = u32::try_from(pid).map_err(|_| Errno::ECHILD)?;
    let job = waited_for(rank, |all| all.get(&pid).cloned()).ok_or(Errno::ECHILD)?;
    job.wait_over(gave_up)?;
    let_go(rank, pid, &job);
    Ok(0)
}

/// Waits until no child uses memory of the rank, whose other threads have ended.
pub fn await_borrowers(rank: &Rank) {
    for job in waited_for(rank, std::mem::take).into_values() {
        let _ = job.wait_over(|| false); // no error but that it is given up
    }
}

/// Carries out [`abi::control::HostOp::WakeChildren`].
///
/// # Errors
/// EFAULT where the rank has nothing mapped; what futex(2) says.
pub fn wake(rank: &Rank, at: u64, count: u64) -> Result<i64, Errno> {
    if !rank.memory().regions().allow(at, 4, false) {
        return Err(Errno::EFAULT);
    }
    let args = [
        at,
        libc::FUTEX_WAKE as u64,
        count.min(i32::MAX as u64),
        0,
        0,
        0,
    ];
    // SAFETY: 1. Linux looks at most which page of which file the rank has there.
    let woken = unsafe { stub::syscall(libc::SYS_futex as u64, &args) };
    Errno::from_ret(woken).map_or(Ok(woken), Err)
}

/// Carries out [`abi::control::HostOp::ChildSignal`]: Linux looks at the disposition of SIGCHLD when a child ends or stops.
pub fn child_signal(rank: &Rank, handler: u64, flags: u64) {
    if rank.children.nursery.is_there() {
        let kept = (libc::SA_NOCLDWAIT | libc::SA_NOCLDSTOP) as u64;
        let ignored = handler == libc::SIG_IGN as u64;
        signals::set_disposition_with(libc::SIGCHLD, ignored, flags & kept);
    }
}
