//! Scheduling and cores. A rank has its cores to itself, so most of this only describes.

use abi::Errno;

use super::args::{put_bytes, put_u32_opt};
use super::others::{is_own, not_permitted_on, ship_on};
use super::{Call, SysResult};
use crate::sched;

/// Only SCHED_OTHER (include/uapi/linux/sched.h) is known, at priority 0.
const SCHED_OTHER: u64 = 0;
/// Policies that Linux knows: SCHED_DEADLINE is the last.
const POLICIES: core::ops::RangeInclusive<u64> = 0..=6;

/// Nobody else wants the core unless the PCT has just been given news.
pub fn sched_yield(_: &mut Call<'_>) -> SysResult {
    sched::yield_now();
    Ok(0)
}

/// Whose process a pid is: the rank's own (`true`), or another, of which Linux knows.
///
/// # Errors
/// EINVAL for a negative one.
fn concerns_self(call: &Call<'_>, pid: u64) -> Result<bool, Errno> {
    if (pid as u32 as i32) < 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(is_own(call, pid))
    }
}

/// First core of the rank, and how many it has.
fn cores(call: &Call<'_>) -> (usize, usize) {
    (
        call.rank.core(),
        call.rank.area.node.cpus[1].peek() as usize,
    )
}

/// Bytes of a kernel cpumask for the CPUs of a node, in whole words as Linux gives it.
const MASK_BYTES: usize = wire::boot::MAX_CPUS / 8;

fn mask(first: usize, count: usize) -> [u8; MASK_BYTES] {
    let mut mask = [0; MASK_BYTES];
    (first..first + count).for_each(|cpu| mask[cpu / 8] |= 1 << (cpu % 8));
    mask
}

pub fn sched_getaffinity(call: &mut Call<'_>) -> SysResult {
    let [pid, len_bytes, to, ..] = call.args();
    let (first, count) = cores(call);
    let needed = hal::cpu::count().div_ceil(64) * 8;
    if len_bytes % 8 != 0 || (len_bytes as usize) < needed {
        return Err(Errno::EINVAL);
    }
    if !concerns_self(call, pid)? {
        return ship_on(call);
    }
    let mask = call.rank.affinity.lock().unwrap_or(mask(first, count));
    put_bytes(to, &mask[..needed])?;
    Ok(needed as u64)
}

/// A rank's thread stays on its core: a mask that holds it is accepted and told back, any other has none of its CPUs.
pub fn sched_setaffinity(call: &mut Call<'_>) -> SysResult {
    let [pid, len_bytes, from, ..] = call.args();
    let (first, count) = cores(call);
    if !concerns_self(call, pid)? {
        return not_permitted_on(call, pid);
    }
    let mut wanted = [0; MASK_BYTES];
    let len = (len_bytes as usize).min(MASK_BYTES);
    hal::user::copy_in(&mut wanted[..len], super::args::user(from, len as u64)?)
        .map_err(|_| Errno::EFAULT)?;
    wanted
        .iter_mut()
        .zip(mask(first, count))
        .for_each(|(wanted, own)| *wanted &= own);
    let here = hal::cpu::id();
    if wanted[here / 8] >> (here % 8) & 1 == 0 {
        return Err(Errno::EINVAL);
    }
    *call.rank.affinity.lock() = Some(wanted);
    Ok(0)
}

pub fn sched_getscheduler(call: &mut Call<'_>) -> SysResult {
    if concerns_self(call, call.frame.rdi)? {
        Ok(SCHED_OTHER)
    } else {
        ship_on(call)
    }
}

pub fn sched_setscheduler(call: &mut Call<'_>) -> SysResult {
    let [pid, policy, param, ..] = call.args();
    set_policy(call, pid, policy, param)
}

pub fn sched_setparam(call: &mut Call<'_>) -> SysResult {
    let [pid, param, ..] = call.args();
    set_policy(call, pid, SCHED_OTHER, param)
}

fn set_policy(call: &Call<'_>, pid: u64, policy: u64, param: u64) -> SysResult {
    if param == 0 || !POLICIES.contains(&policy) {
        return Err(Errno::EINVAL);
    }
    if !concerns_self(call, pid)? {
        return not_permitted_on(call, pid);
    }
    let user = super::args::user(param, 4)?;
    let priority = hal::user::read_u32(user).map_err(|_| Errno::EFAULT)?;
    match (policy, priority) {
        (SCHED_OTHER, 0) => Ok(0),
        (SCHED_OTHER, _) => Err(Errno::EINVAL),
        // Nothing may take precedence over what has the core to itself.
        _ => Err(Errno::EPERM),
    }
}

pub fn sched_getparam(call: &mut Call<'_>) -> SysResult {
    let [pid, param, ..] = call.args();
    let own = concerns_self(call, pid)?;
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    if !own {
        return ship_on(call);
    }
    put_u32_opt(param, 0).map(|()| 0)
}

/// sched_get_priority_min and _max by policy (man 7 sched): real-time policies have 1..=99.
pub fn sched_get_priority(call: &mut Call<'_>) -> SysResult {
    const GET_PRIORITY_MAX: u64 = 146;
    match call.frame.rdi {
        1 | 2 => Ok(if call.frame.rax == GET_PRIORITY_MAX {
            99
        } else {
            1
        }),
        0 | 3 | 5 | 6 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

pub fn getcpu(call: &mut Call<'_>) -> SysResult {
    let [cpu, node, ..] = call.args();
    put_u32_opt(cpu, hal::cpu::id() as u32)?;
    put_u32_opt(node, 0)?;
    Ok(0)
}

/// MEMBARRIER_CMD_QUERY and the registrations: with one thread every barrier holds already.
pub fn membarrier(call: &mut Call<'_>) -> SysResult {
    const QUERY: u64 = 0;
    /// GLOBAL, GLOBAL_EXPEDITED, PRIVATE_EXPEDITED and their registrations (include/uapi/linux/membarrier.h).
    const KNOWN: u64 = 0x1f;
    match (call.frame.rdi, call.frame.rsi) {
        (QUERY, 0) => Ok(KNOWN),
        (command, 0) if command.is_power_of_two() && command & KNOWN != 0 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
