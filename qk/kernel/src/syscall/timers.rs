//! POSIX timers.

use abi::Errno;
use qk_core::posix_timers::{Clock, Event, Notify, Setting};
use qk_core::signals::Signal;

use super::time::{cpu_clock, id, timespec};
use super::{Call, SysResult};
use crate::timer::posix;
use crate::user::{get_words, put_u32, put_words, timespec_ns};

/// sigev_notify (include/uapi/asm-generic/siginfo.h).
mod notify {
    pub const SIGNAL: u32 = 0;
    pub const NONE: u32 = 1;
    /// The C library starts a thread when its own signal comes: the process's like any other, for a kernel.
    pub const THREAD: u32 = 2;
    pub const THREAD_ID: u32 = 4;
}

/// sizeof(struct sigevent) in words.
const SIGEVENT_WORDS: usize = 8;

/// The clock with this number.
///
/// # Errors
/// EINVAL: there is none; EOPNOTSUPP: it has no timers.
fn clock(call: &Call<'_>, number: u64) -> Result<Clock, Errno> {
    match u64::from(number as u32) {
        id::REALTIME | id::TAI => Ok(Clock::Real),
        id::MONOTONIC | id::BOOTTIME => Ok(Clock::Monotonic),
        id::PROCESS_CPUTIME => Ok(Clock::Process),
        id::THREAD_CPUTIME => Ok(Clock::Thread(call.thread.index())),
        // A node has no clock that wakes it up (CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM), as a machine without RTC.
        id::MONOTONIC_RAW..=id::BOOTTIME_ALARM => Err(Errno::EOPNOTSUPP),
        _ => cpu_clock(call.thread, number),
    }
}

/// What a struct sigevent says: sigev_value, sigev_signo and sigev_notify, sigev_notify_thread_id.
///
/// # Errors
/// EINVAL (Linux: good_sigevent).
fn event(call: &Call<'_>, clock: Clock, [value, how, thread]: [u64; 3]) -> Result<Event, Errno> {
    let (signo, how) = (how as u32, (how >> 32) as u32);
    let notify = match how {
        notify::NONE => Notify::None,
        notify::SIGNAL | notify::THREAD => Notify::Process,
        notify::THREAD_ID => {
            let tid = u64::from(thread as u32);
            let thread = call.rank.by_tid(tid).map_err(|_| Errno::EINVAL)?;
            Notify::Thread(thread.index())
        }
        _ => return Err(Errno::EINVAL),
    };
    let signal = match Signal::new(signo.into()) {
        Some(signal) => signal,
        // It is never sent.
        None if notify == Notify::None => Signal::ALRM,
        None => return Err(Errno::EINVAL),
    };
    Ok(Event {
        clock,
        notify,
        signal,
        value: Some(value),
    })
}

pub fn create(call: &mut Call<'_>) -> SysResult {
    let [number, from, to, ..] = call.args();
    let said = match from {
        0 => None,
        // Of its 64 bytes the first 24 count.
        _ => {
            let [value, how, thread, ..] = get_words::<SIGEVENT_WORDS>(from)?;
            Some([value, how, thread])
        }
    };
    let clock = clock(call, number)?;
    let event = match said {
        Some(words) => event(call, clock, words)?,
        None => Event {
            clock,
            notify: Notify::Process,
            signal: Signal::ALRM,
            value: None,
        },
    };
    let id = posix::create(call.rank, event)?;
    if let Err(errno) = put_u32(to, id) {
        posix::delete(call.rank, id)?;
        return Err(errno);
    }
    Ok(0)
}

fn put_itimerspec(to: u64, (left_ns, period_ns): (u64, u64)) -> Result<(), Errno> {
    let [[a, b], [c, d]] = [timespec(period_ns), timespec(left_ns)];
    put_words(to, &[a, b, c, d])
}

pub fn settime(call: &mut Call<'_>) -> SysResult {
    /// TIMER_ABSTIME; Linux does not look at other flags.
    const ABSOLUTE: u64 = 1;
    let [id, flags, new, old, ..] = call.args();
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let [period_s, period_ns, value_s, value_ns] = get_words(new)?;
    let setting = Setting {
        value_ns: timespec_ns([value_s, value_ns])?,
        period_ns: timespec_ns([period_s, period_ns])?,
        absolute: flags & ABSOLUTE != 0,
    };
    let before = posix::set(call.rank, id as u32, setting)?;
    if old == 0 {
        return Ok(0);
    }
    put_itimerspec(old, before).map(|()| 0)
}

pub fn gettime(call: &mut Call<'_>) -> SysResult {
    let [id, to, ..] = call.args();
    let left = posix::left(call.rank, id as u32)?;
    put_itimerspec(to, left).map(|()| 0)
}

pub fn getoverrun(call: &mut Call<'_>) -> SysResult {
    let [id, ..] = call.args();
    posix::overrun(call.rank, id as u32).map(u64::from)
}

pub fn delete(call: &mut Call<'_>) -> SysResult {
    let [id, ..] = call.args();
    posix::delete(call.rank, id as u32).map(|()| 0)
}
