//! futex(2), as far as one thread needs it.
//!
//! No other thread waits or wakes: a wait ends by its timeout, by a signal, or not at all, as on Linux; what a wake or requeue
//! returns is how many waited: none. A lock that this thread does not have is another process's, or abandoned.

use abi::Errno;
use hal::addr::User;
use qk_core::futex::{self, WakeOp};

use super::args::{get_words, user};
use super::time::{REALTIME, read_clock, sleep_until, timespec_ns};
use super::{Call, SysResult};
use crate::thread::Thread;
use crate::timer;

/// Operations (include/uapi/linux/futex.h).
mod op {
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const WAKE_OP: u64 = 5;
    pub const LOCK_PI: u64 = 6;
    pub const UNLOCK_PI: u64 = 7;
    pub const TRYLOCK_PI: u64 = 8;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const LOCK_PI2: u64 = 13;
    pub const PRIVATE: u64 = 128;
    pub const CLOCK_REALTIME: u64 = 256;
}

/// CLOCK_MONOTONIC
const MONOTONIC: u64 = 1;

pub fn futex(call: &mut Call<'_>) -> SysResult {
    let [at, operation, value, timeout, at2, value3] = call.args();
    let realtime = operation & op::CLOCK_REALTIME != 0;
    let private = operation & op::PRIVATE != 0;
    let operation = operation as u32 as u64 & !(op::PRIVATE | op::CLOCK_REALTIME);
    if realtime && !matches!(operation, op::WAIT_BITSET | op::LOCK_PI2) {
        return Err(Errno::ENOSYS);
    }
    let bits = value3 as u32;
    match operation {
        op::WAIT => wait(call, word(at)?, value, relative(timeout)?),
        op::WAIT_BITSET | op::WAKE_BITSET if bits == 0 => Err(Errno::EINVAL),
        op::WAIT_BITSET => wait(call, word(at)?, value, absolute(call, timeout, realtime)?),
        op::WAKE | op::WAKE_BITSET => wake(at, private),
        op::REQUEUE | op::CMP_REQUEUE => {
            let wanted = (operation == op::CMP_REQUEUE).then_some(bits);
            requeue([at, at2], [value, timeout], wanted, private)
        }
        op::WAKE_OP => wake_op(at, at2, bits, private),
        op::LOCK_PI | op::LOCK_PI2 => lock(call, word(at)?, Errno::ESRCH),
        op::TRYLOCK_PI => lock(call, word(at)?, Errno::EAGAIN),
        op::UNLOCK_PI => unlock(call, word(at)?),
        _ => Err(Errno::ENOSYS),
    }
}

/// The futex at this address.
///
/// # Errors
/// EINVAL when it is not aligned, EFAULT when no program can have memory there.
fn word(at: u64) -> Result<User, Errno> {
    if !at.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    user(at, 4)
}

fn load(at: User) -> Result<u32, Errno> {
    hal::user::read_u32(at).map_err(|_| Errno::EFAULT)
}

/// Checks a futex that is only named: one that processes share has to have memory (Linux: get_futex_key).
fn named(at: u64, private: bool) -> Result<User, Errno> {
    let word = word(at)?;
    if !private {
        load(word)?;
    }
    Ok(word)
}

fn wake(at: u64, private: bool) -> SysResult {
    named(at, private).map(|_| 0)
}

fn requeue(
    [from, to]: [u64; 2],
    counts: [u64; 2],
    wanted: Option<u32>,
    private: bool,
) -> SysResult {
    if counts.iter().any(|count| (*count as i32) < 0) {
        return Err(Errno::EINVAL);
    }
    let from = named(from, private)?;
    named(to, private)?;
    match wanted {
        Some(wanted) if load(from)? != wanted => Err(Errno::EAGAIN),
        _ => Ok(0),
    }
}

fn wake_op(at: u64, changed: u64, encoded: u32, private: bool) -> SysResult {
    named(at, private)?;
    let changed = named(changed, private)?;
    let operation = WakeOp::decode(encoded)?;
    update(changed, |old| Ok(Some(operation.apply(old)))).map(|_| 0)
}

/// Replaces the word by what `new` makes of it, atomically. Returns what was there; `None` of `new` leaves it.
fn update(at: User, new: impl Fn(u32) -> Result<Option<u32>, Errno>) -> Result<Option<u32>, Errno> {
    loop {
        let old = load(at)?;
        let Some(new) = new(old)? else {
            return Ok(None);
        };
        if hal::user::compare_exchange_u32(at, old, new).map_err(|_| Errno::EFAULT)? == old {
            return Ok(Some(old));
        }
    }
}

fn own_tid(call: &Call<'_>) -> u32 {
    call.thread.tid() as u32
}

/// `taken` is the error when another thread has the lock: there is none that could release it.
fn lock(call: &Call<'_>, at: User, taken: Errno) -> SysResult {
    let tid = own_tid(call);
    update(at, |old| futex::lock(old, tid))?
        .map(|_| 0)
        .ok_or(taken)
}

/// No thread waits for it, so nothing is handed over.
fn unlock(call: &Call<'_>, at: User) -> SysResult {
    let tid = own_tid(call);
    let free = |old| Ok(futex::owns(old, tid).then_some(0));
    update(at, free)?.map(|_| 0).ok_or(Errno::EPERM)
}

/// When a relative timeout ends, as a TSC value; a null pointer waits for ever.
fn relative(timeout: u64) -> Result<u64, Errno> {
    if timeout == 0 {
        Ok(u64::MAX)
    } else {
        Ok(timer::deadline_after(timespec_ns(get_words(timeout)?)?))
    }
}

fn absolute(call: &Call<'_>, timeout: u64, realtime: bool) -> Result<u64, Errno> {
    if timeout == 0 {
        return Ok(u64::MAX);
    }
    let clock = if realtime { REALTIME } else { MONOTONIC };
    let from_now =
        timespec_ns(get_words(timeout)?)?.saturating_sub(read_clock(call.thread, clock)?);
    Ok(timer::deadline_after(from_now))
}

fn wait(call: &Call<'_>, at: User, value: u64, deadline: u64) -> SysResult {
    if load(at)? != value as u32 {
        return Err(Errno::EAGAIN);
    }
    match sleep_until(call.thread, deadline) {
        Ok(()) => Err(Errno::ETIMEDOUT),
        Err(errno) => Err(errno),
    }
}

/// What others wait for when a thread ends.
pub fn thread_ends(_thread: &Thread) {}
