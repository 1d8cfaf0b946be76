//! Scheduling and cores. A rank has its cores to itself, so most of this only describes.

use abi::Errno;
use qk_core::sched::CoreSet;

use super::others::{not_permitted_on, ship_on, thread_of};
use super::time::timespec;
use super::{Call, SysResult};
use crate::thread::Thread;
use crate::user::{get_bytes, get_u32, put_u32_opt, put_words};
use crate::{sched, shootdown};

/// The only policy that there is, at priority 0; of the others it is known what priorities they have (include/uapi/linux/sched.h).
const SCHED_OTHER: u64 = 0;
const SCHED_FIFO: u64 = 1;
const SCHED_RR: u64 = 2;
const SCHED_BATCH: u64 = 3;
const SCHED_IDLE: u64 = 5;
const SCHED_DEADLINE: u64 = 6;
/// The highest of a real-time policy (man 7 sched).
const MAX_PRIORITY: u64 = 99;

pub fn sched_yield(call: &mut Call<'_>) -> SysResult {
    sched::yield_now(call.thread.task());
    Ok(0)
}

/// The thread that a thread id means: of the rank, or `None`, a process of Linux.
///
/// # Errors
/// EINVAL for a negative one.
fn concerned(call: &Call<'_>, tid: u64) -> Result<Option<&'static Thread>, Errno> {
    if (tid as u32 as i32) < 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(thread_of(call, tid))
    }
}

/// Bytes of a kernel cpumask for the CPUs of a node, in whole words as Linux gives it.
const MASK_BYTES: usize = wire::boot::MAX_CPUS / 8;

pub fn sched_getaffinity(call: &mut Call<'_>) -> SysResult {
    let [tid, len_bytes, to, ..] = call.args();
    let needed = hal::cpu::count().div_ceil(64);
    if len_bytes % 8 != 0 || (len_bytes as usize) < needed * 8 {
        return Err(Errno::EINVAL);
    }
    let Some(thread) = concerned(call, tid)? else {
        return ship_on(call);
    };
    put_words(to, &thread.task().allowed().words()[..needed])?;
    Ok(needed as u64 * 8)
}

/// A thread runs on those of its rank's cores that the mask holds.
pub fn sched_setaffinity(call: &mut Call<'_>) -> SysResult {
    let [tid, len_bytes, from, ..] = call.args();
    let Some(thread) = concerned(call, tid)? else {
        return not_permitted_on(call, tid);
    };
    let mut mask = [0; MASK_BYTES];
    let len = (len_bytes as usize).min(MASK_BYTES);
    get_bytes(&mut mask[..len], from)?;
    let (words, _) = mask.as_chunks();
    let wanted = CoreSet::from_words(core::array::from_fn(|i| u64::from_le_bytes(words[i])));
    let allowed = wanted.and(&call.rank.cores());
    if allowed.is_empty() {
        return Err(Errno::EINVAL);
    }
    sched::allow(thread.task(), allowed);
    if core::ptr::eq(thread, call.thread) {
        sched::yield_now(thread.task());
    } else {
        sched::interrupt(thread.task());
    }
    Ok(0)
}

pub fn sched_getscheduler(call: &mut Call<'_>) -> SysResult {
    if concerned(call, call.frame.rdi)?.is_some() {
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

/// Its errors come in Linux's order (kernel/sched/syscalls.c): what is to be read, whose thread it is, what was read, who may do it.
fn set_policy(call: &Call<'_>, pid: u64, policy: u64, param: u64) -> SysResult {
    let is_negative = |int: u64| (int as u32 as i32) < 0;
    if param == 0 || is_negative(policy) || is_negative(pid) {
        return Err(Errno::EINVAL);
    }
    let priority = get_u32(param)?;
    // Linux takes the policy as an int.
    let fits = match u64::from(policy as u32) {
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE => priority == 0,
        SCHED_FIFO | SCHED_RR => (1..=MAX_PRIORITY).contains(&u64::from(priority)),
        _ => false,
    };
    match (concerned(call, pid)?, fits) {
        (None, fits) => match not_permitted_on(call, pid) {
            Err(Errno::EPERM) if !fits => Err(Errno::EINVAL),
            refused => refused,
        },
        (Some(_), false) => Err(Errno::EINVAL),
        (Some(_), true) if u64::from(policy as u32) == SCHED_OTHER => Ok(0),
        // Nothing may take precedence over what has the core to itself.
        (Some(_), true) => Err(Errno::EPERM),
    }
}

pub fn sched_getparam(call: &mut Call<'_>) -> SysResult {
    let [pid, param, ..] = call.args();
    let own = concerned(call, pid)?.is_some();
    if param == 0 {
        return Err(Errno::EINVAL);
    }
    if !own {
        return ship_on(call);
    }
    put_u32_opt(param, 0).map(|()| 0)
}

/// sched_get_priority_min and _max by policy.
pub fn sched_get_priority(call: &mut Call<'_>) -> SysResult {
    const GET_PRIORITY_MAX: u64 = 146;
    match call.frame.rdi {
        SCHED_FIFO | SCHED_RR if call.frame.rax == GET_PRIORITY_MAX => Ok(MAX_PRIORITY),
        SCHED_FIFO | SCHED_RR => Ok(1),
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE | SCHED_DEADLINE => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// How long a thread keeps a core that others wait for.
pub fn sched_rr_get_interval(call: &mut Call<'_>) -> SysResult {
    let [pid, to, ..] = call.args();
    if concerned(call, pid)?.is_none() {
        return ship_on(call);
    }
    put_words(to, &timespec(sched::SLICE_NS)).map(|()| 0)
}

pub fn getcpu(call: &mut Call<'_>) -> SysResult {
    let [cpu, node, ..] = call.args();
    put_u32_opt(cpu, hal::cpu::id() as u32)?;
    put_u32_opt(node, 0)?;
    Ok(0)
}

/// The commands that order accesses interrupt the cores that run threads of the rank, or all of the node where they are for all
/// processes: what those map in common is seen in order as well. A registration prepares nothing, but without it those for the
/// rank alone are refused. Coming back from an interrupt serializes a core (SDM vol. 3, 9.3), so all that is missing where code was
/// changed is this core, for its other threads.
pub fn membarrier(call: &mut Call<'_>) -> SysResult {
    // include/uapi/linux/membarrier.h; of each expedited command the registration follows.
    const QUERY: u64 = 0;
    const GLOBAL: u64 = 1;
    const GLOBAL_EXPEDITED: u64 = 2;
    const REGISTER_GLOBAL_EXPEDITED: u64 = 4;
    const PRIVATE_EXPEDITED: u64 = 8;
    const REGISTER_PRIVATE_EXPEDITED: u64 = 16;
    const SYNC_CORE: u64 = 32;
    const REGISTER_SYNC_CORE: u64 = 64;
    const GET_REGISTRATIONS: u64 = 512;
    const KNOWN: u64 = 0x27f;
    let attributes = call.rank.attributes();
    match (call.frame.rdi, call.frame.rsi) {
        (QUERY, 0) => return Ok(KNOWN),
        (GLOBAL | GLOBAL_EXPEDITED, 0) => {
            // Entering the kernel is what counts: that they drop translations besides does no harm.
            shootdown::flush_all_on(&CoreSet::of(0, hal::cpu::count()));
        }
        (command @ (PRIVATE_EXPEDITED | SYNC_CORE), 0)
            if attributes.barriers() & command << 1 == 0 =>
        {
            return Err(Errno::EPERM);
        }
        (command @ (PRIVATE_EXPEDITED | SYNC_CORE), 0) => call.rank.with_aspace(|_| {
            if command == SYNC_CORE {
                hal::aspace::flush_all();
            }
            shootdown::barrier(call.rank.shootdown());
            Ok(())
        })?,
        (
            command @ (REGISTER_GLOBAL_EXPEDITED | REGISTER_PRIVATE_EXPEDITED | REGISTER_SYNC_CORE),
            0,
        ) => {
            attributes.register_barrier(command);
        }
        (GET_REGISTRATIONS, 0) => return Ok(attributes.barriers()),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
