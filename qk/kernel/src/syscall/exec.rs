//! execve(2) and execveat(2): the proxy finds and checks the program, and until it has nothing changes.

use abi::Errno;
use abi::control::HostOp;
use abi::rlimit;

use super::bounce::Bounce;
use super::{Call, RESTART, RESTART_ALWAYS, SysResult};
use crate::exec;
use crate::host::ship;

/// AT_FDCWD (include/uapi/linux/fcntl.h).
const CURRENT_DIRECTORY: u64 = -100i64 as u64;

pub fn execve(call: &mut Call<'_>) -> SysResult {
    let [path, argv, envp, ..] = call.args();
    replace(call, [CURRENT_DIRECTORY, path, argv, envp, 0])
}

pub fn execveat(call: &mut Call<'_>) -> SysResult {
    let [directory, path, argv, envp, flags, _] = call.args();
    replace(call, [directory, path, argv, envp, flags])
}

/// Returns only when it fails, or when the thread is to end: then what it returns is never seen.
fn replace(call: &mut Call<'_>, [directory, path, argv, envp, flags]: [u64; 5]) -> SysResult {
    let (thread, rank) = (call.thread, call.rank);
    {
        let _turn = rank.turns().lock_execs();
        if !thread.must_end() {
            let mut strings = [path, argv, envp];
            let bounce = Bounce::of_exec(rank, &mut strings)?;
            let [path, argv, envp] = strings;
            let stack_limit = rank.limit(rlimit::STACK)[0];
            let args = [directory, path, argv, envp, flags, stack_limit];
            let prepared = ship::host_op_until_signal(thread, HostOp::PrepareExec, args);
            bounce.map_or(Ok(()), |bounce| bounce.end(thread, 0))?;
            match prepared {
                // Opening the file waits for a lease or for a slow file system, until there is a signal to act on.
                Err(Errno::EINTR) => return Err(thread.interrupted(RESTART)),
                prepared => prepared?,
            };
        }
        // Another thread may have been first, or the rank ends.
        if thread.must_end() {
            return Err(thread.interrupted(RESTART_ALWAYS));
        }
        rank.begin_exec(thread);
    }
    if !exec::await_others(thread) {
        return Err(thread.interrupted(RESTART_ALWAYS));
    }
    let (nr, args) = (call.nr(), call.args());
    exec::replace(thread, nr, &args);
    Err(thread.interrupted(RESTART_ALWAYS))
}
