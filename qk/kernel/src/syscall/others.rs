//! Calls that name a process: the rank's own pid is served here, all others are Linux's.

use abi::Errno;
use abi::syscall::by_name;

use super::{Call, SysResult, shipped};
use crate::ship;

/// Whether a pid is the caller's own.
pub fn is_self(call: &Call<'_>, pid: u64) -> bool {
    u64::from(pid as u32) == call.rank.identity().pid
}

/// Whether a call on this pid concerns the caller: 0 stands for it.
pub fn is_own(call: &Call<'_>, pid: u64) -> bool {
    pid as u32 == 0 || is_self(call, pid)
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
    let kill = by_name("kill").map_or(0, |row| u64::from(row.nr));
    // Signal 0 only asks. A negative number would name a group.
    let pid = u64::from(pid as u32 & i32::MAX as u32);
    match Errno::from_ret(ship::linux_call(call.rank, kill, &[pid, 0, 0, 0, 0, 0])) {
        Some(Errno::ESRCH) => Err(Errno::ESRCH),
        _ => Err(Errno::EPERM),
    }
}
