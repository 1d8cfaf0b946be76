//! Calls that name a process: the rank's own pid is served here, all others are Linux's.

use abi::Errno;
use abi::syscall::by_name;

use super::{Call, SysResult, shipped};
use crate::host::ship;
use crate::preempt;
use crate::thread::Thread;

const KILL: u16 = by_name("kill").expect("a row").nr;
/// Work of looking at a thread, in instructions.
const LOOK_WORK: u32 = 20;

/// Whether a pid is the caller's own.
pub fn is_self(call: &Call<'_>, pid: u64) -> bool {
    u64::from(pid as u32) == call.rank.identity().pid
}

/// The thread of the caller's rank that a thread id means: 0 stands for the caller.
pub fn thread_of(call: &Call<'_>, tid: u64) -> Option<&'static Thread> {
    match u64::from(tid as u32) {
        0 => Some(call.thread),
        tid if tid == call.thread.tid() => Some(call.thread),
        tid => call.rank.by_tid(tid).ok(),
    }
}

/// Has Linux carry out the call as it is.
pub fn ship_on(call: &mut Call<'_>) -> SysResult {
    shipped::ship(call)
}

/// What a call gets that would change another process: EPERM if there is one, else ESRCH.
///
/// # Errors
/// Always one.
pub fn not_permitted_on(call: &Call<'_>, pid: u64) -> SysResult {
    // Of a thread that has ended there is a worker still.
    let threads = call.rank.threads();
    let is_it = |index| {
        preempt::point(LOOK_WORK);
        let tid = threads.get(index).map(|thread| thread.host().worker_tid());
        tid == Some(u64::from(pid as u32))
    };
    // POINT: not_permitted_on
    if (0..threads.made()).any(is_it) {
        return Err(Errno::ESRCH);
    }
    // Signal 0 only checks. A negative number would name a group.
    let pid = u64::from(pid as u32 & i32::MAX as u32);
    match Errno::from_ret(ship::linux_call(
        call.thread,
        KILL.into(),
        &[pid, 0, 0, 0, 0, 0],
    )) {
        Some(Errno::ESRCH) => Err(Errno::ESRCH),
        _ => Err(Errno::EPERM),
    }
}
