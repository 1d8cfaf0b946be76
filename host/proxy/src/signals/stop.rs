//! Stopping this process as a signal would, for a limited time.

use std::sync::OnceLock;

use super::{How, mask, send_to_self, send_to_thread, set, set_disposition};
use crate::stub;

/// Stops this process by [`stop_by`] until SIGCONT comes, or for so long, in ns, by the clock that counts on while it is stopped;
/// u64::MAX: for ever.
pub fn stop_self(signo: i32, limit_ns: u64) {
    if let Some(timer) = *CONTINUES.get_or_init(continuing_timer) {
        set_timer(timer, limit_ns);
    }
    stop_by(signo);
}

/// Does what a signal does by default that stops this process, which the calling thread blocks. Where the process group is orphaned, only
/// SIGSTOP does anything. Linux checks that when it delivers the signal (kernel/signal.c, get_signal) and reports it nowhere: so
/// it delivers one to this thread. SIGTSTP stands for SIGTTIN and SIGTTOU, which have handlers here.
///
/// A SIGTSTP for the whole process that comes at this moment has the same effect, and is not received.
pub fn stop_by(signo: i32) {
    if signo == libc::SIGSTOP {
        return send_to_self(signo);
    }
    set_disposition(libc::SIGTSTP, false);
    let tid = rustix::thread::gettid().as_raw_pid() as u32;
    send_to_thread(std::process::id(), tid, libc::SIGTSTP);
    let before = mask(How::Unblock, set(libc::SIGTSTP));
    mask(How::Set, before);
}

/// Whether this is what ends a stop of limited time. The node sends its program's own SIGCONT itself.
#[must_use]
pub const fn ends_a_stop(signo: i32, code: i32) -> bool {
    signo == libc::SIGCONT && code == libc::SI_TIMER
}

/// The timer that continues this process. It stays as it was set when the stop is over, for another thread may have taken
/// SIGSTOP, and stops this one later.
static CONTINUES: OnceLock<Option<i32>> = OnceLock::new();

/// Makes that timer; `None`: Linux makes no more for this user.
fn continuing_timer() -> Option<i32> {
    // SAFETY: 1. All-zero is a valid sigevent.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGCONT;
    let mut timer = 0i32;
    let clock = libc::CLOCK_MONOTONIC as u64;
    let args = [
        clock,
        &raw const event as u64,
        &raw mut timer as u64,
        0,
        0,
        0,
    ];
    // SAFETY: 1. Linux reads a sigevent and writes an int, the timer's id (timer_create(2), "C library/kernel differences").
    let ret = unsafe { stub::syscall(libc::SYS_timer_create as u64, &args) };
    (ret == 0).then_some(timer)
}

/// Has a timer expire once, in so many ns; u64::MAX: never.
fn set_timer(timer: i32, after_ns: u64) {
    /// struct __kernel_timespec (uapi/linux/time_types.h).
    const NS_PER_S: u64 = 1_000_000_000;
    let value = match after_ns {
        u64::MAX => [0, 0],
        ns => [ns / NS_PER_S, ns % NS_PER_S],
    };
    let setting = [[0, 0], value];
    let args = [timer as u64, 0, setting.as_ptr() as u64, 0, 0, 0];
    // SAFETY: 1. Linux reads a struct itimerspec, four u64: interval and value.
    unsafe { stub::syscall(libc::SYS_timer_settime as u64, &args) };
}
