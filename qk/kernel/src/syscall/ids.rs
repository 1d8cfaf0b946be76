//! The caller's ids: fixed when the proxy attaches, so answered without a lock.

use abi::Errno;

use super::others::ship_on;
use super::{Call, SysResult};
use crate::user::put_bytes;

pub fn getpid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().pid)
}

pub fn getppid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().ppid)
}

pub fn gettid(call: &mut Call<'_>) -> SysResult {
    Ok(call.thread.tid())
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
    // BOUND: the arguments of a call.
    for (to, id) in call.args().into_iter().zip(ids) {
        put_bytes(to, &(id as u32).to_le_bytes())?;
    }
    Ok(0)
}

/// setuid and its kin change nothing here: they succeed where they would not on Linux either, and are refused else.
fn unchanged(wanted: &[u64], own: [u64; 2]) -> SysResult {
    /// An id that is to stay as it is.
    const KEEP: u32 = u32::MAX;
    let [real, effective] = own.map(|id| id as u32);
    let stays = |(i, id): (usize, &u64)| {
        let id = *id as u32;
        id == KEEP || id == if i == 0 { real } else { effective }
    };
    // BOUND: the arguments of a call.
    if wanted.iter().enumerate().all(stays) {
        Ok(0)
    } else {
        Err(Errno::EPERM)
    }
}

fn users(call: &Call<'_>) -> [u64; 2] {
    let info = &call.rank.identity().info;
    [info.uid, info.euid]
}

fn groups(call: &Call<'_>) -> [u64; 2] {
    let info = &call.rank.identity().info;
    [info.gid, info.egid]
}

/// setuid and setgid set one id (for the privileged: all three), so all have to be that one already.
fn all_are(id: u64, own: [u64; 2]) -> SysResult {
    if id as u32 == u32::MAX {
        return Err(Errno::EINVAL);
    }
    unchanged(&[id, id, id], own)
}

pub fn setuid(call: &mut Call<'_>) -> SysResult {
    all_are(call.frame.rdi, users(call))
}

pub fn setgid(call: &mut Call<'_>) -> SysResult {
    all_are(call.frame.rdi, groups(call))
}

pub fn setreuid(call: &mut Call<'_>) -> SysResult {
    unchanged(&call.args()[..2], users(call))
}

pub fn setregid(call: &mut Call<'_>) -> SysResult {
    unchanged(&call.args()[..2], groups(call))
}

pub fn setresuid(call: &mut Call<'_>) -> SysResult {
    unchanged(&call.args()[..3], users(call))
}

pub fn setresgid(call: &mut Call<'_>) -> SysResult {
    unchanged(&call.args()[..3], groups(call))
}

/// The proxy has the groups: it lets Linux set the same ones again, if the rank may at all.
pub fn setgroups(call: &mut Call<'_>) -> SysResult {
    ship_on(call)
}

/// Returns the id before, whether it changes or not (setfsuid(2)): here it never does.
pub fn setfsuid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.euid)
}

/// As [`setfsuid`].
pub fn setfsgid(call: &mut Call<'_>) -> SysResult {
    Ok(call.rank.identity().info.egid)
}

pub fn set_tid_address(call: &mut Call<'_>) -> SysResult {
    call.thread.program().set_clear_tid(call.frame.rdi);
    Ok(call.thread.tid())
}
