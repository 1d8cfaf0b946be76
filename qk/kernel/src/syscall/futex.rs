//! futex(2), as far as one thread needs it.
//!
//! There is nobody to wake and nobody who wakes: a wait ends by its timeout, by a signal, or not at all, as on Linux; what a
//! wake or requeue returns is how many waited: none.

use abi::Errno;

use super::args::{get_words, user};
use super::time::{REALTIME, read_clock, sleep_until, timespec_ns};
use super::{Call, SysResult};
use crate::timer;

/// Operations (include/uapi/linux/futex.h).
mod op {
    pub const WAIT: u64 = 0;
    pub const WAKE: u64 = 1;
    pub const REQUEUE: u64 = 3;
    pub const CMP_REQUEUE: u64 = 4;
    pub const WAIT_BITSET: u64 = 9;
    pub const WAKE_BITSET: u64 = 10;
    pub const PRIVATE: u64 = 128;
    pub const CLOCK_REALTIME: u64 = 256;
}

/// CLOCK_MONOTONIC
const MONOTONIC: u64 = 1;

pub fn futex(call: &mut Call<'_>) -> SysResult {
    let [at, operation, value, timeout, _, value3] = call.args();
    let realtime = operation & op::CLOCK_REALTIME != 0;
    let operation = operation as u32 as u64 & !(op::PRIVATE | op::CLOCK_REALTIME);
    if at % 4 != 0 {
        return Err(Errno::EINVAL);
    }
    match operation {
        op::WAIT | op::WAIT_BITSET if operation == op::WAIT_BITSET && value3 as u32 == 0 => {
            Err(Errno::EINVAL)
        }
        op::WAIT => wait(call, at, value, relative(timeout)?),
        op::WAIT_BITSET => wait(call, at, value, absolute(call, timeout, realtime)?),
        op::WAKE_BITSET if value3 as u32 == 0 => Err(Errno::EINVAL),
        op::WAKE | op::WAKE_BITSET | op::REQUEUE => load(at).map(|_| 0),
        op::CMP_REQUEUE if load(at)? != value3 as u32 => Err(Errno::EAGAIN),
        op::CMP_REQUEUE => Ok(0),
        _ => Err(Errno::ENOSYS),
    }
}

fn load(at: u64) -> Result<u32, Errno> {
    hal::user::read_u32(user(at, 4)?).map_err(|_| Errno::EFAULT)
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
    let from_now = timespec_ns(get_words(timeout)?)?.saturating_sub(read_clock(call.rank, clock)?);
    Ok(timer::deadline_after(from_now))
}

fn wait(call: &Call<'_>, at: u64, value: u64, deadline: u64) -> SysResult {
    if load(at)? != value as u32 {
        return Err(Errno::EAGAIN);
    }
    match sleep_until(call.rank, deadline) {
        Ok(()) => Err(Errno::ETIMEDOUT),
        Err(errno) => Err(errno),
    }
}
