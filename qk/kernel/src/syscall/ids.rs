//! Who the caller is: fixed when the proxy attaches, so answered without a lock.

use super::args::put_bytes;
use super::{Call, SysResult};

pub fn getpid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().pid)
}

pub fn getppid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().ppid)
}

/// Thread 0's id is the process's.
pub fn gettid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().pid)
}

pub fn getuid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.uid)
}

pub fn geteuid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.euid)
}

pub fn getgid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.gid)
}

pub fn getegid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.egid)
}

/// The saved ids are the effective ones: no program becomes another's owner here.
pub fn getresuid(call: &mut Call<'_>) -> SysResult {
    let info = &call.rank.identity().info;
    put_three(call, [info.uid, info.euid, info.euid])
}

/// As [`getresuid`], for groups.
pub fn getresgid(call: &mut Call<'_>) -> SysResult {
    let info = &call.rank.identity().info;
    put_three(call, [info.gid, info.egid, info.egid])
}

fn put_three(call: &Call<'_>, ids: [u64; 3]) -> SysResult {
    for (to, id) in call.args().into_iter().zip(ids) {
        put_bytes(to, &(id as u32).to_le_bytes())?;
    }
    Ok(0)
}

/// The address is only used when a thread ends while others live on: there is one thread.
pub fn set_tid_address(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().pid)
}
