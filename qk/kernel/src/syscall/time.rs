//! Clocks, sleeping, the alarm timer, and time used.

use abi::Errno;
use qk_core::posix_timers::Clock as CpuClock;

use super::others::ship_on;
use super::{Call, RESTART_NO_HANDLER, SysResult};
use crate::thread::Thread;
use crate::timer::Which;
use crate::user::{NS_PER_S, get_words, put_words, put_words_opt, timespec_ns};
use crate::{clock, sched, signal, timer};

const US_PER_S: u64 = 1_000_000;
/// Of the number of a clock of processor time, bits 0 and 1: those below are CPUCLOCK_PROF, _VIRT and _SCHED.
const KINDS: u32 = 3;
/// And it is a thread's.
const OF_THREAD: u32 = 4;
/// USER_HZ: what times(2) counts in.
const CLOCK_TICK_NS: u64 = 10_000_000;

/// Clocks (include/uapi/linux/time.h).
pub mod id {
    pub const REALTIME: u64 = 0;
    pub const MONOTONIC: u64 = 1;
    pub const PROCESS_CPUTIME: u64 = 2;
    pub const THREAD_CPUTIME: u64 = 3;
    pub const MONOTONIC_RAW: u64 = 4;
    pub const REALTIME_COARSE: u64 = 5;
    pub const MONOTONIC_COARSE: u64 = 6;
    pub const BOOTTIME: u64 = 7;
    pub const REALTIME_ALARM: u64 = 8;
    pub const BOOTTIME_ALARM: u64 = 9;
    pub const TAI: u64 = 11;
}

/// A struct timespec of so many nanoseconds.
pub fn timespec(ns: u64) -> [u64; 2] {
    [ns / NS_PER_S, ns % NS_PER_S]
}

fn timeval(ns: u64) -> [u64; 2] {
    [ns / NS_PER_S, ns % NS_PER_S / 1000]
}

/// The processor time whose clock has a negative number: which time is in bits 0 and 1, whether it is a thread's in bit 2, and the
/// rest is the complement of the process's or thread's id, 0 for the caller's own (include/linux/posix-timers.h). User and kernel
/// time are not distinguished. Other processes' are not known here: [`is_of_another`].
///
/// # Errors
/// EINVAL: no such clock (Linux: pid_for_clock).
pub fn cpu_clock(thread: &Thread, clock: u64) -> Result<CpuClock, Errno> {
    let number = clock as u32;
    let id = u64::from((!number as i32 >> 3) as u32);
    if (number as i32) >= 0 || number & 3 >= KINDS {
        return Err(Errno::EINVAL);
    }
    if number & OF_THREAD == 0 {
        let own = [0, thread.rank().identity().pid, thread.tid()].contains(&id);
        return own.then_some(CpuClock::Process).ok_or(Errno::EINVAL);
    }
    let index = match id {
        0 => thread.index(),
        id => thread.rank().by_tid(id).map_err(|_| Errno::EINVAL)?.index(),
    };
    Ok(CpuClock::Thread(index))
}

/// Whether a clock may be another process's, of which Linux knows what it used.
fn is_of_another(thread: &Thread, clock: u64) -> bool {
    let number = clock as u32;
    let is_process = (number as i32) < 0 && number & OF_THREAD == 0 && number & 3 < KINDS;
    is_process && cpu_clock(thread, clock).is_err()
}

#[cold]
#[inline(never)] // Out of the way of the clocks that are read often; as the next.
fn get_cpu_clock(call: &mut Call<'_>, clock: u64, to: u64) -> SysResult {
    let thread = call.thread;
    if is_of_another(thread, clock) {
        return ship_on(call);
    }
    let ns = match cpu_clock(thread, clock)? {
        CpuClock::Thread(index) => {
            let counted = thread.rank().threads().get(index);
            counted.map(Thread::cpu_ns).ok_or(Errno::EINVAL)?
        }
        _ => thread.rank().cpu_ns(),
    };
    put_words(to, &timespec(ns)).map(|()| 0)
}

#[cold]
#[inline(never)]
fn get_cpu_resolution(call: &mut Call<'_>, clock: u64, to: u64) -> SysResult {
    if is_of_another(call.thread, clock) {
        return ship_on(call);
    }
    cpu_clock(call.thread, clock)?;
    put_words_opt(to, &[0, 1]).map(|()| 0)
}

/// What a clock with a positive number shows, in ns.
///
/// # Errors
/// EINVAL: no such clock.
pub fn read_clock(thread: &Thread, clock: u64) -> Result<u64, Errno> {
    let (monotonic, real) = clock::now_ns();
    match clock {
        id::REALTIME | id::REALTIME_COARSE | id::TAI => Ok(real),
        id::MONOTONIC | id::MONOTONIC_RAW | id::MONOTONIC_COARSE | id::BOOTTIME => Ok(monotonic),
        id::PROCESS_CPUTIME => Ok(thread.rank().cpu_ns()),
        id::THREAD_CPUTIME => Ok(thread.cpu_ns()),
        _ => Err(Errno::EINVAL),
    }
}

pub fn clock_gettime(call: &mut Call<'_>) -> SysResult {
    let [clock, to, ..] = call.args();
    if clock > id::TAI {
        return get_cpu_clock(call, clock, to);
    }
    put_words(to, &timespec(read_clock(call.thread, clock)?)).map(|()| 0)
}

/// The TSC resolves a nanosecond or better, and there is no tick to be coarse by.
pub fn clock_getres(call: &mut Call<'_>) -> SysResult {
    let [clock, to, ..] = call.args();
    match clock {
        0..=7 | id::TAI => put_words_opt(to, &[0, 1]).map(|()| 0),
        _ => get_cpu_resolution(call, clock, to),
    }
}

/// The clocks are the host's: no rank sets one. Which error comes first is Linux's affair (kernel/time/posix-timers.c).
pub fn clock_settime(call: &mut Call<'_>) -> SysResult {
    let [clock, from, ..] = call.args();
    match u64::from(clock as u32) {
        id::REALTIME => {
            timespec_ns(get_words(from)?)?;
        }
        // Those of processor time have negative numbers.
        clock if (clock as i32) > 0 => return Err(Errno::EINVAL),
        _ => {
            get_words::<2>(from)?;
            cpu_clock(call.thread, clock)?;
        }
    }
    Err(Errno::EPERM)
}

pub fn gettimeofday(call: &mut Call<'_>) -> SysResult {
    let [to, zone, ..] = call.args();
    put_words_opt(to, &timeval(clock::now_ns().1))?;
    // struct timezone: the kernel's is UTC.
    put_words_opt(zone, &[0]).map(|()| 0)
}

pub fn time(call: &mut Call<'_>) -> SysResult {
    let now_s = clock::now_ns().1 / NS_PER_S;
    put_words_opt(call.frame.rdi, &[now_s]).map(|()| now_s)
}

/// Children run on Linux, which says what they used. struct tms: the process's user and system time, then the children's.
pub fn times(call: &mut Call<'_>) -> SysResult {
    let (to, used) = (call.frame.rdi, call.rank.cpu_ns() / CLOCK_TICK_NS);
    if to != 0 && call.rank.attributes().has_children() {
        ship_on(call)?;
        put_words(to, &[used, 0])?;
    } else {
        put_words_opt(to, &[used, 0, 0, 0])?;
    }
    Ok(clock::monotonic_ns() / CLOCK_TICK_NS)
}

pub fn getrusage(call: &mut Call<'_>) -> SysResult {
    const SELF: u64 = 0;
    const THREAD: u64 = 1;
    const CHILDREN: u64 = -1i64 as u64;
    /// struct rusage: two timevals and fourteen longs.
    const WORDS: usize = 18;
    const MAX_RSS_KIB: usize = 4;
    let [who, to, ..] = call.args();
    let mut usage = [0; WORDS];
    match who as i32 as i64 as u64 {
        SELF | THREAD => {
            let used = if who as i32 == 0 {
                id::PROCESS_CPUTIME
            } else {
                id::THREAD_CPUTIME
            };
            usage[..2].copy_from_slice(&timeval(read_clock(call.thread, used)?));
            usage[MAX_RSS_KIB] = call.rank.host().most_bytes() / 1024;
        }
        CHILDREN => return ship_on(call),
        _ => return Err(Errno::EINVAL),
    }
    put_words(to, &usage).map(|()| 0)
}

/// Sleeps until the TSC reaches `deadline`.
///
/// # Errors
/// [`RESTART_NO_HANDLER`] when there is a signal to act on.
pub fn sleep_until(thread: &Thread, deadline: u64) -> Result<(), Errno> {
    timer::set_sleep(thread, (deadline != u64::MAX).then_some(deadline));
    let result = thread.waiting(|| {
        loop {
            if hal::time::tsc() >= deadline {
                return Ok(());
            }
            if signal::is_wanted(thread) {
                return Err(thread.interrupted(RESTART_NO_HANDLER));
            }
            sched::park();
        }
    });
    timer::set_sleep(thread, None);
    result
}

/// A sleep of `ns`; interrupted, it says what is left at `left_to`. A stopped and continued sleep goes on to its old end.
fn sleep_for(call: &Call<'_>, ns: u64, left_to: u64) -> SysResult {
    let deadline = call
        .thread
        .program()
        .take_sleep_end()
        .unwrap_or_else(|| clock::deadline_after(ns));
    let result = sleep_until(call.thread, deadline);
    if result.is_err() {
        let left = clock::ticks_to_ns(deadline.saturating_sub(hal::time::tsc()));
        put_words_opt(left_to, &timespec(left))?;
        call.thread.program().keep_sleep_end(deadline);
    }
    result.map(|()| 0)
}

pub fn nanosleep(call: &mut Call<'_>) -> SysResult {
    let [from, left_to, ..] = call.args();
    let ns = timespec_ns(get_words(from)?)?;
    sleep_for(call, ns, left_to)
}

pub fn clock_nanosleep(call: &mut Call<'_>) -> SysResult {
    const ABSOLUTE: u64 = 1;
    let [clock, flags, from, left_to, ..] = call.args();
    let cpu = match u64::from(clock as u32) {
        id::REALTIME | id::MONOTONIC | id::BOOTTIME | id::TAI => None,
        id::PROCESS_CPUTIME => Some(CpuClock::Process),
        id::THREAD_CPUTIME..=id::MONOTONIC_COARSE | id::REALTIME_ALARM | id::BOOTTIME_ALARM => {
            return Err(Errno::EOPNOTSUPP);
        }
        _ => Some(cpu_clock(call.thread, clock)?),
    };
    let ns = timespec_ns(get_words(from)?)?;
    let absolute = flags & ABSOLUTE != 0;
    match cpu {
        Some(cpu) => sleep_by_cpu_time(call, cpu, ns, if absolute { None } else { Some(left_to) }),
        None if absolute => {
            let from_now = ns.saturating_sub(read_clock(call.thread, clock)?);
            sleep_until(call.thread, clock::deadline_after(from_now)).map(|()| 0)
        }
        None => sleep_for(call, ns, left_to),
    }
}

/// A sleep until a clock of processor time shows `ns`, or for that long, with a place for what is left when it is interrupted. The
/// clock goes as fast as threads run: it is polled when it may have got there, and not more often than a tick of Linux's.
fn sleep_by_cpu_time(call: &Call<'_>, clock: CpuClock, ns: u64, left_to: Option<u64>) -> SysResult {
    /// Linux looks at these clocks when its tick comes, every 1 to 10 ms.
    const TICK_NS: u64 = 1_000_000;
    let (thread, rank) = (call.thread, call.rank);
    if clock == CpuClock::Thread(thread.index()) {
        return Err(Errno::EINVAL); // it does not run meanwhile
    }
    let now_ns = || match clock {
        CpuClock::Thread(index) => rank.threads().get(index).map_or(0, Thread::cpu_ns),
        _ => rank.cpu_ns(),
    };
    let end_ns = match left_to {
        None => ns,
        Some(_) => {
            (thread.program().take_sleep_end()).unwrap_or_else(|| now_ns().saturating_add(ns))
        }
    };
    let fastest = match clock {
        CpuClock::Thread(_) => 1,
        _ => rank.cores().len() as u64,
    };
    // BOUND: each turn sleeps.
    loop {
        let left_ns = end_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return Ok(0);
        }
        let deadline = clock::deadline_after((left_ns / fastest).max(TICK_NS));
        if let Err(errno) = sleep_until(thread, deadline) {
            if let Some(left_to) = left_to {
                put_words_opt(left_to, &timespec(left_ns))?;
                thread.program().keep_sleep_end(end_ns);
            }
            return Err(errno);
        }
    }
}

fn timeval_ns([s, us]: [u64; 2]) -> Result<u64, Errno> {
    if (s as i64) < 0 || us >= US_PER_S {
        return Err(Errno::EINVAL);
    }
    Ok(s.saturating_mul(NS_PER_S).saturating_add(us * 1000))
}

fn put_itimer(to: u64, (left_ns, interval_ns): (u64, u64)) -> Result<(), Errno> {
    let [[a, b], [c, d]] = [timeval(interval_ns), timeval(left_ns)];
    put_words_opt(to, &[a, b, c, d])
}

pub fn setitimer(call: &mut Call<'_>) -> SysResult {
    let [which, new, old, ..] = call.args();
    let [interval_s, interval_us, value_s, value_us] =
        if new == 0 { [0; 4] } else { get_words(new)? };
    let (interval, value) = (
        timeval_ns([interval_s, interval_us])?,
        timeval_ns([value_s, value_us])?,
    );
    let which = Which::from_nr(which).ok_or(Errno::EINVAL)?;
    let before = timer::set_interval(call.rank, which, value, interval);
    put_itimer(old, before).map(|()| 0)
}

pub fn getitimer(call: &mut Call<'_>) -> SysResult {
    let [which, to, ..] = call.args();
    let which = Which::from_nr(which).ok_or(Errno::EINVAL)?;
    if to == 0 {
        return Err(Errno::EFAULT);
    }
    put_itimer(to, timer::interval(call.rank, which)).map(|()| 0)
}

/// Returns the seconds that were left, rounded as Linux rounds them (kernel/time/itimer.c, alarm_setitimer).
pub fn alarm(call: &mut Call<'_>) -> SysResult {
    let seconds = u64::from(call.frame.rdi as u32);
    let (left_ns, _) = timer::set_interval(call.rank, Which::Real, seconds * NS_PER_S, 0);
    let (s, ns) = (left_ns / NS_PER_S, left_ns % NS_PER_S);
    let rounds_up = (s == 0 && ns > 0) || ns >= NS_PER_S / 2;
    Ok(s + u64::from(rounds_up))
}
