//! Waiting for a futex: until when, and how it ends.

use abi::Errno;

use super::table::{Sleeper, futexes, key, settled, word};
use crate::result::{RESTART, RESTART_NO_HANDLER, SysResult};
use crate::shared::children;
use crate::thread::Thread;
use crate::user::{get_words, timespec_ns};
use crate::{clock, sched, signal, timer};

/// When a wait ends (TSC).
#[derive(Clone, Copy)]
pub enum Until {
    /// Only by being woken.
    Woken,
    /// It was given relative to its begin: a wait that goes on keeps its end.
    Relative(u64),
    /// By a clock.
    Absolute(u64),
}

impl Until {
    /// In TSC ticks; `None`: it has no end but being woken.
    pub fn deadline(self) -> Option<u64> {
        match self {
            Until::Woken => None,
            Until::Relative(tsc) | Until::Absolute(tsc) => Some(tsc),
        }
    }
}

/// So long from now as a struct timespec of the program says; a null pointer waits for ever.
///
/// # Errors
/// EFAULT, EINVAL.
pub fn relative(thread: &Thread, timeout: u64) -> Result<Until, Errno> {
    if timeout == 0 {
        return Ok(Until::Woken);
    }
    let ns = timespec_ns(get_words(timeout)?)?;
    let kept = thread.program().take_sleep_end();
    Ok(Until::Relative(
        kept.unwrap_or_else(|| clock::deadline_after(ns)),
    ))
}

/// When a clock shows what a struct timespec of the program says; a null pointer waits for ever.
///
/// # Errors
/// EFAULT, EINVAL.
pub fn absolute(timeout: u64, realtime: bool) -> Result<Until, Errno> {
    if timeout == 0 {
        return Ok(Until::Woken);
    }
    let ns = timespec_ns(get_words(timeout)?)?;
    let (mono_ns, real_ns) = clock::now_ns();
    let from_now = ns.saturating_sub(if realtime { real_ns } else { mono_ns });
    Ok(Until::Absolute(clock::deadline_after(from_now)))
}

/// FUTEX_WAIT_BITSET.
///
/// # Errors
/// As futex(2).
pub fn wait(
    thread: &'static Thread,
    (at, private): (u64, bool),
    bits: u32,
    expected: u32,
    until: Until,
) -> SysResult {
    let word = word(at)?;
    // POINT: ship::spin
    let ended = loop {
        let key = key(thread, at, private);
        if bits == 0 || !children::waits_there(key) {
            settled(|| futexes().wait(key, bits, &word, expected, Sleeper(thread)))?;
            break sleep(thread, until.deadline(), || {
                futexes().cancel(Sleeper(thread))
            });
        }
        match children::wait(thread, at, expected, bits, until.deadline()) {
            Err(Errno::EINTR) => break Ended::Interrupted,
            Err(Errno::EFAULT) if children::is_word(thread, at) => {}
            done => return done,
        }
    };
    match ended {
        Ended::Woken => Ok(0),
        Ended::Late => Err(Errno::ETIMEDOUT),
        Ended::Interrupted => Err(thread.interrupted(match until {
            Until::Woken => RESTART,
            Until::Absolute(_) => RESTART_NO_HANDLER,
            Until::Relative(tsc) => {
                thread.program().keep_sleep_end(tsc);
                RESTART_NO_HANDLER
            }
        })),
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was woken.
    Woken,
    /// Its time was over.
    Late,
    /// A signal came.
    Interrupted,
}

/// Waits to be woken. When the time is over or a signal comes, `give_up` says whether that counts, or the thread had been
/// woken just before.
pub fn sleep(thread: &'static Thread, deadline: Option<u64>, give_up: impl Fn() -> bool) -> Ended {
    if deadline.is_some() {
        timer::set_sleep(thread, deadline);
    }
    let ended = thread.waiting(|| {
        loop {
            if thread.futex_place().is_woken() {
                return Ended::Woken;
            }
            let ended = if deadline.is_some_and(|tsc| hal::time::tsc() >= tsc) {
                Ended::Late
            } else if signal::is_wanted(thread) {
                Ended::Interrupted
            } else {
                sched::park();
                continue;
            };
            return if give_up() { ended } else { Ended::Woken };
        }
    });
    if deadline.is_some() {
        timer::set_sleep(thread, None);
    }
    ended
}
