//! Calls about the process that the rank and its proxy are to the outside: its groups, its limits, its name.

use std::sync::atomic::{AtomicBool, Ordering};

use abi::Errno;
use rustix::process::{Resource, getrlimit};
use zerocopy::IntoBytes;

use crate::memory::{GUARD_ADDR, RankMemory, clamp};

/// NGROUPS_MAX (uapi/linux/limits.h)
const GROUPS_MAX: u32 = 65536;
/// uapi/linux/prctl.h
const SET_NAME: u64 = 15;
const GET_NAME: u64 = 16;
const SET_NO_NEW_PRIVS: u64 = 38;

/// Whether the program has set no_new_privs: the proxy itself has it in any case.
pub static NO_NEW_PRIVS: AtomicBool = AtomicBool::new(false);

/// setgroups: the proxy's groups stay as they are, so only the same ones may be set. Linux is given `copy`.
///
/// # Errors
/// EPERM when they are others.
pub fn groups(
    args: &mut [u64; 6],
    memory: &impl RankMemory,
    copy: &mut Vec<u32>,
) -> Result<(), Errno> {
    let count = args[0] as u32;
    if count > GROUPS_MAX {
        return Ok(()); // Linux refuses it before it reads them
    }
    copy.clear();
    copy.resize(count as usize, 0);
    if count > 0 && memory.read(args[1], copy.as_mut_bytes()).is_err() {
        args[1] = GUARD_ADDR;
        return Ok(());
    }
    let own = rustix::process::getgroups().map_err(|_| Errno::EPERM)?;
    let mut own: Vec<u32> = own.into_iter().map(|gid| gid.as_raw()).collect();
    own.sort_unstable();
    copy.sort_unstable();
    if *copy != own {
        return Err(Errno::EPERM);
    }
    args[1] = copy.as_ptr() as u64;
    Ok(())
}

/// setrlimit: hard limits on descriptors and on file sizes are the node's to keep, for the proxy needs room above: for
/// descriptors of its own, and for the files that stand for those of /proc ([`crate::special`]). Linux is given `copy`.
///
/// # Errors
/// EPERM for more descriptors than the rank may have: they would meet ours, even if the rank is privileged to raise its limit.
pub fn limit(
    args: &mut [u64; 6],
    first_own_fd: u32,
    memory: &impl RankMemory,
    copy: &mut [u64; 2],
) -> Result<(), Errno> {
    let own_hard = match args[0] as u32 {
        libc::RLIMIT_NOFILE => hard_limit(Resource::Nofile),
        libc::RLIMIT_FSIZE => hard_limit(Resource::Fsize),
        _ => return Ok(()),
    };
    if memory.read(args[1], copy.as_mut_bytes()).is_err() {
        args[1] = GUARD_ADDR;
        return Ok(());
    }
    let [soft, hard] = *copy;
    if soft <= hard {
        if args[0] as u32 == libc::RLIMIT_NOFILE && hard > first_own_fd.into() {
            return Err(Errno::EPERM);
        }
        copy[1] = hard.max(own_hard);
    }
    args[1] = copy.as_ptr() as u64;
    Ok(())
}

/// The proxy's own hard limit; u64::MAX: unlimited.
pub fn hard_limit(resource: Resource) -> u64 {
    getrlimit(resource).maximum.unwrap_or(u64::MAX)
}

/// prlimit64: another process's limits are read, not changed.
///
/// # Errors
/// EPERM when they were to change.
pub const fn limits(args: &[u64; 6]) -> Result<(), Errno> {
    if args[2] == 0 {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// prctl: the name, which /proc shows, and no_new_privs, which children inherit. The rest is the QK's.
///
/// # Errors
/// EINVAL for what the QK does not relay.
pub fn process_control(args: &mut [u64; 6]) -> Result<(), Errno> {
    match args[0] {
        SET_NAME | GET_NAME => args[1] = clamp(args[1]),
        SET_NO_NEW_PRIVS if args[1] == 1 => NO_NEW_PRIVS.store(true, Ordering::Relaxed),
        SET_NO_NEW_PRIVS => {}
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}
