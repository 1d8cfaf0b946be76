//! What a new thread has of the one that created it: its name, its nice value, its I/O priority.
//!
//! Linux copies them when it makes a thread. Here the worker is there before the thread, and has had another one, perhaps.
//! So it takes them over later, without a round trip when a thread starts: before its first call, and before any call that
//! could tell the difference, by reading a thread's state or by changing what is inherited.
//!
//! A nice value that a predecessor has raised stays raised where the user may not lower it.

use std::sync::atomic::Ordering;

use abi::syscall::Call;
use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::fds;
use crate::io_priority;
use crate::rank::Rank;

/// Has a worker take over what its thread inherits, if it has not yet.
#[inline]
pub fn settle(rank: &Rank, index: usize) {
    if index != 0 && is_due(rank, index) {
        // A child must not have what is opened here. The fork lock comes first: others that share it may come to settle.
        let _no_fork = rank.children().fork_lock.no_fork();
        let _turn = fds::turn();
        let _settling = rank.workers().settling();
        take_over(rank, index);
    }
}

/// Has all workers do so.
pub fn settle_all(rank: &Rank) {
    (1..rank.threads().len()).for_each(|index| settle(rank, index));
}

/// Whether a call reads or changes what is inherited, of whatever thread.
pub fn concerns(call: &Call) -> bool {
    matches!(
        i64::from(call.nr),
        libc::SYS_prctl
            | libc::SYS_getpriority
            | libc::SYS_setpriority
            | libc::SYS_ioprio_get
            | libc::SYS_ioprio_set
            | libc::SYS_sched_getattr
    )
}

/// The rank's first thread is from now on what thread `index` was.
pub fn take_over_by_first(rank: &Rank, index: usize) {
    if index != 0 {
        settle(rank, index);
        copy(rank.workers().at(index).tid(), rank.pid());
    }
}

fn is_due(rank: &Rank, index: usize) -> bool {
    let life = rank.words().threads[index].node.life();
    life.is_on() && rank.workers().at(index).heir_of.load(Ordering::Acquire) != life.number()
}

/// The creator first, which may not have its own yet. A worker has taken over once all is copied: until then its own call waits,
/// else what that sets would be overwritten.
fn take_over(rank: &Rank, index: usize) {
    let mut line = Vec::new();
    let mut at = index;
    // A broken node may name any thread as creator, and several one another.
    while at != 0 && is_due(rank, at) && line.len() < rank.threads().len() {
        let node = &rank.words().threads[at].node;
        let creator = node.creator();
        line.push((creator, at, node.life().number()));
        at = creator;
    }
    for (creator, heir, life) in line.into_iter().rev() {
        let worker = rank.workers().at(heir);
        copy(rank.workers().at(creator).tid(), worker.tid());
        worker.heir_of.store(life, Ordering::Release);
    }
}

/// Makes one thread as another is. What cannot be stays as it is.
fn copy(from: u32, to: u32) {
    let comm = |tid| format!("/proc/self/task/{tid}/comm");
    // Linux ends what it shows with a newline, and keeps one that is written.
    let _ = std::fs::read(comm(from)).and_then(|mut name| {
        name.pop_if(|last| *last == b'\n');
        std::fs::write(comm(to), name)
    });
    let pid = |tid: u32| i32::try_from(tid).ok().and_then(Pid::from_raw);
    if let (Some(from), Some(to)) = (pid(from), pid(to)) {
        let _ =
            getpriority_process(Some(from)).and_then(|nice| setpriority_process(Some(to), nice));
    }
    io_priority::copy(from, to);
}
