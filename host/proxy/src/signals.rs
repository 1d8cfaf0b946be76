//! Signal masks and dispositions, spoken to Linux directly.
//!
//! The C library keeps two signals to itself and hides them from masks; here a mask is what Linux has it be, 64 bits with
//! bit `signo - 1`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use abi::ident::NSIG;

use crate::stub;

/// The set of all signals.
pub const ALL: u64 = u64::MAX;

/// The set with one signal.
#[must_use]
pub const fn set(signo: i32) -> u64 {
    1 << (signo - 1)
}

/// What Linux does with a signal that has no handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// Ends the process.
    Terminate,
    /// Nothing.
    Ignore,
    /// Stops the process.
    Stop,
}

impl Default {
    /// The default action of a signal (signal(7)).
    #[must_use]
    pub const fn of(signo: i32) -> Default {
        match signo {
            libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => Default::Ignore,
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Default::Stop,
            _ => Default::Terminate,
        }
    }
}

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

/// struct sigaction as the kernel has it (arch/x86/include/uapi/asm/signal.h).
#[repr(C)]
#[derive(core::default::Default)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Bytes of the kernel's sigset_t.
const SIGSET_BYTES: u64 = 8;

/// The disposition of a signal; `None` when there is no such signal.
fn disposition(signo: i32) -> Option<usize> {
    let mut action = Action::default();
    let args = [signo as u64, 0, &raw mut action as u64, SIGSET_BYTES, 0, 0];
    // SAFETY: 1. Linux writes one `Action`, which has the kernel's layout.
    let ret = unsafe { stub::syscall(libc::SYS_rt_sigaction as u64, &args) };
    (ret == 0).then_some(action.handler)
}

/// Sets a signal's default action, or ignores it. SIGKILL and SIGSTOP stay as they are.
pub fn set_disposition(signo: i32, ignored: bool) {
    set_disposition_with(signo, ignored, 0);
}

/// The same with flags of sigaction(2) that mean something without a handler.
pub fn set_disposition_with(signo: i32, ignored: bool, flags: u64) {
    let handler = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    let action = Action {
        handler,
        flags,
        ..Action::default()
    };
    let args = [
        signo as u64,
        &raw const action as u64,
        0,
        SIGSET_BYTES,
        0,
        0,
    ];
    // SAFETY: 1. Linux reads one `Action`. 2. No handler is installed, so no code of ours runs asynchronously.
    unsafe { stub::syscall(libc::SYS_rt_sigaction as u64, &args) };
}

/// Installs a handler, for the whole process; it interrupts calls.
pub fn handle(signo: i32, handler: extern "C" fn(i32)) {
    // SAFETY: 1. All-zero is a valid sigaction. 2. The handler has the signature of one; what it does is safe at any
    // instruction, as all handlers of this crate (they touch an atomic word at most).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signo, &raw const action, std::ptr::null_mut());
    }
}

/// What to do with the calling thread's mask.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Add to it.
    Block = 0,
    /// Take from it.
    Unblock = 1,
    /// Replace it.
    Set = 2,
}

/// Changes the calling thread's signal mask and returns the one before.
pub fn mask(how: How, signals: u64) -> u64 {
    let mut old = 0u64;
    let args = [
        how as u64,
        &raw const signals as u64,
        &raw mut old as u64,
        SIGSET_BYTES,
        0,
        0,
    ];
    // SAFETY: 1. Linux reads and writes a u64 each.
    unsafe { stub::syscall(libc::SYS_rt_sigprocmask as u64, &args) };
    old
}

/// Sends a signal to a thread of this process.
pub fn send_to_thread(pid: u32, tid: u32, signo: i32) {
    let args = [u64::from(pid), u64::from(tid), signo as u64, 0, 0, 0];
    // SAFETY: 1. No memory is passed. 2. Handlers that may run are those this crate installed.
    unsafe { stub::syscall(libc::SYS_tgkill as u64, &args) };
}

/// Sends a signal to this process.
pub fn send_to_self(signo: i32) {
    let args = [u64::from(std::process::id()), signo as u64, 0, 0, 0, 0];
    // SAFETY: As for `send_to_thread`.
    unsafe { stub::syscall(libc::SYS_kill as u64, &args) };
}

/// Stops this process by [`stop_by`] until SIGCONT comes, or for so long, in ns, by the clock that counts on while it is stopped;
/// u64::MAX: for ever.
pub fn stop_self(signo: i32, limit_ns: u64) {
    if let Some(timer) = *CONTINUES.get_or_init(continuing_timer) {
        set_timer(timer, limit_ns);
    }
    stop_by(signo);
}

/// Does what a signal does by default that stops this process, which the calling thread blocks. Where the process group is orphaned, only
/// SIGSTOP does anything. Linux looks at that when it delivers the signal (kernel/signal.c, get_signal) and reports it nowhere: so
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

/// Takes a pending signal from the calling thread, which blocks it; whether there was one.
pub fn forget(signo: i32) -> bool {
    dequeue(signo).is_some()
}

/// Takes the signal that Linux has sent to the calling thread, which blocks it, for what it did; whether there was one. One that
/// another process has sent is put back: that is for the whole process.
pub fn take_own(signo: i32) -> bool {
    let Some(info) = dequeue(signo) else {
        return false;
    };
    let own_pid = std::process::id();
    // SAFETY: 1. The union has a pid for any signal that is sent (send_sig, kernel/signal.c); whatever it has, it is plain data.
    let own = info.si_code == libc::SI_USER && unsafe { info.si_pid() } as u32 == own_pid;
    if !own {
        let args = [
            own_pid.into(),
            signo as u64,
            &raw const info as u64,
            0,
            0,
            0,
        ];
        // SAFETY: 1. Linux reads a siginfo_t.
        let queued = unsafe { stub::syscall(libc::SYS_rt_sigqueueinfo as u64, &args) };
        if queued != 0 {
            // Only a process's first thread may say who has sent it (Linux: do_rt_sigqueueinfo).
            send_to_self(signo);
        }
    }
    own
}

fn dequeue(signo: i32) -> Option<libc::siginfo_t> {
    // SAFETY: 1. All-zero is a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let (signals, no_time) = (set(signo), [0u64; 2]);
    let args = [
        &raw const signals as u64,
        &raw mut info as u64,
        no_time.as_ptr() as u64,
        SIGSET_BYTES,
        0,
        0,
    ];
    // SAFETY: 1. Linux reads a u64 and a struct timespec, two u64, and writes a siginfo_t.
    let ret = unsafe { stub::syscall(libc::SYS_rt_sigtimedwait as u64, &args) };
    (ret > 0).then_some(info)
}

/// Ends the process by a signal's default action; by exit code 128 + signo when it has none that ends it.
pub fn die(signo: i32) -> ! {
    set_disposition(signo, false);
    mask(How::Unblock, set(signo));
    send_to_self(signo);
    // A signal to the process may be taken by another thread a moment later.
    if Default::of(signo) == Default::Terminate {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    exit(128 + signo)
}

/// Ends the process at once: nothing of yod's that the fork inherited is flushed or run.
pub fn exit(code: i32) -> ! {
    // SAFETY: 1. _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_all_signals() {
        let old = mask(How::Block, set(32) | set(64));
        assert_eq!(mask(How::Set, old), old | set(32) | set(64));
    }

    #[test]
    fn only_linuxs_own_sigpipe_is_taken_for_a_writes() {
        let old = mask(How::Block, set(libc::SIGPIPE));
        // SAFETY: 1. No preconditions.
        send_to_thread(
            std::process::id(),
            unsafe { libc::gettid() } as u32,
            libc::SIGPIPE,
        );
        assert!(!take_own(libc::SIGPIPE));
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        std::io::Write::write(&mut &writer, b"x").expect_err("nothing reads");
        assert!(take_own(libc::SIGPIPE) && !take_own(libc::SIGPIPE));
        mask(How::Set, old);
    }

    #[test]
    fn dispositions_are_set_and_read() {
        set_disposition(libc::SIGURG, true);
        assert_ne!(Inherited::now().ignored & set(libc::SIGURG), 0);
        set_disposition(libc::SIGURG, false);
        assert_eq!(Inherited::now().ignored & set(libc::SIGURG), 0);
    }
}
