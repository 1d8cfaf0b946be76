//! What yod was started with.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use abi::ident::NSIG;

use super::{How, disposition, mask, set};
use crate::stub;

/// This process's personality(2), as Linux shows it (proc(5)): PER_LINUX where it does not.
fn personality() -> u64 {
    let shown = std::fs::read_to_string("/proc/self/personality").unwrap_or_default();
    u64::from_str_radix(shown.trim(), 16).unwrap_or(0)
}

/// Signal mask, ignored signals and personality that yod was started with, which the rank inherits as across an exec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, core::default::Default)]
pub struct Inherited {
    /// Ignored signals.
    pub ignored: u64,
    /// Blocked signals.
    pub blocked: u64,
    /// personality(2).
    pub personality: u64,
}

impl Inherited {
    /// Reads them from this process. Call it before anything in yod changes its mask or dispositions. Standard descriptors
    /// that were closed when the process started are close-on-exec from here on.
    #[must_use]
    pub fn now() -> Inherited {
        mark_placeholders();
        let mut ignored = 0;
        for signo in 1..=NSIG as i32 {
            if disposition(signo) == Some(libc::SIG_IGN) {
                ignored |= set(signo);
            }
        }
        // The Rust runtime ignores SIGPIPE before main: what it was is known from before.
        ignored &= !set(libc::SIGPIPE);
        if SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed) {
            ignored |= set(libc::SIGPIPE);
        }
        Inherited {
            ignored,
            blocked: mask(How::Block, 0),
            personality: personality(),
        }
    }

    /// Whether a signal would take its default action at once.
    #[must_use]
    pub const fn is_default(&self, signo: i32) -> bool {
        (self.ignored | self.blocked) & set(signo) == 0
    }
}

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// Which of the descriptors 0 to 2 were closed, a bit each.
static WERE_CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before the runtime that changes the disposition and opens /dev/null where a standard descriptor is closed.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = {
    extern "C" fn record() {
        let ignored = disposition(libc::SIGPIPE) == Some(libc::SIG_IGN);
        SIGPIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
        let closed = (0..STANDARD_FDS).filter(|&fd| fcntl(fd, libc::F_GETFD, 0) < 0);
        WERE_CLOSED.store(closed.fold(0, |set, fd| set | 1 << fd), Ordering::Relaxed);
    }
    record
};

/// stdin, stdout, stderr.
const STANDARD_FDS: u64 = 3;

/// Marks what the runtime opened in the place of closed descriptors close-on-exec: proxies close it, so that the program
/// finds them closed.
fn mark_placeholders() {
    let were_closed = WERE_CLOSED.load(Ordering::Relaxed);
    for fd in (0..STANDARD_FDS).filter(|fd| were_closed & 1 << fd != 0) {
        fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
    }
}

/// fcntl(2) of a descriptor's flags.
fn fcntl(fd: u64, command: i32, flags: i32) -> i64 {
    let args = [fd, command as u64, flags as u64, 0, 0, 0];
    // SAFETY: 1. No memory is passed.
    unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) }
}
