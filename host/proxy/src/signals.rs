//! Signal masks and dispositions, spoken to Linux directly.
//!
//! The C library keeps two signals to itself and hides them from masks; here a mask is what Linux has it be, 64 bits with
//! bit `signo - 1`.

pub mod inherited;
pub mod stop;

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

/// What waits for the process and the calling thread, which blocks it.
pub fn pending() -> u64 {
    let mut pending = 0u64;
    let args = [&raw mut pending as u64, SIGSET_BYTES, 0, 0, 0, 0];
    // SAFETY: 1. Linux writes a u64.
    unsafe { stub::syscall(libc::SYS_rt_sigpending as u64, &args) };
    pending
}

/// Sends this process, or a thread of it, a signal with all that siginfo_t says: number, code, the union's first two words.
pub fn queue(pid: u32, tid: Option<u32>, signo: i32, code: i32, fields: [u64; 2]) {
    let head = [signo as u32 as u64, code as u32 as u64];
    let mut info = [0u64; 16];
    info[..2].copy_from_slice(&head);
    info[2..4].copy_from_slice(&fields);
    let (pid, signo, info) = (u64::from(pid), signo as u64, info.as_ptr() as u64);
    let (number, args) = match tid {
        None => (libc::SYS_rt_sigqueueinfo, [pid, signo, info, 0, 0, 0]),
        Some(tid) => (
            libc::SYS_rt_tgsigqueueinfo,
            [pid, tid.into(), signo, info, 0, 0],
        ),
    };
    // SAFETY: 1. Linux reads a siginfo_t, 128 bytes.
    let queued = unsafe { stub::syscall(number as u64, &args) };
    if queued == 0 {
        return;
    }
    // Only a process's first thread may say who has sent it (Linux: do_rt_sigqueueinfo).
    match tid {
        Some(tid) => send_to_thread(pid as u32, tid, signo as i32),
        None => send_to_self(signo as i32),
    }
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
    use super::inherited::Inherited;
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
