//! The little that Rust's libraries cannot say safely: fork, signal masks and signals as a descriptor, the TSC.
//!
//! Everything here is safe to call; each function checks, or cannot break, what its `unsafe` needs.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::Pid;

use crate::stat;

/// Signals that a job is sent for its ranks. Batch systems and service managers send them to every process that they find: what
/// they mean is the yods' to say, and a node lives until the last of these has left.
pub const OF_THE_RANKS: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Where [`fork`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forked {
    /// In the caller; the child's process id.
    Parent(Pid),
    /// In the child.
    Child,
}

/// Forks this process, which must have one thread only.
///
/// # Errors
/// More threads than one, or no room for another process.
pub fn fork() -> io::Result<Forked> {
    if stat::threads_running()? != 1 {
        return Err(io::Error::other("fork with more than one thread"));
    }
    // SAFETY: 1. One thread runs the program, as was just counted, and only such a one can start another: no lock is
    //            held by a thread that the child does not have, so the child may do all that the parent may.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent(
            Pid::from_raw(pid).expect("a process id is positive"),
        )),
    }
}

/// A signal mask to return to.
#[derive(Clone, Copy)]
pub struct Mask(Option<libc::sigset_t>);

impl Mask {
    /// Nothing is blocked.
    pub const NONE: Mask = Mask(None);

    /// Makes it this thread's mask.
    pub fn restore(&self) {
        let set = self.0.unwrap_or_else(|| signal_set(&[]));
        // SAFETY: 1. `set` is an initialised set. 2. The old mask is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut()) };
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: 1. sigemptyset initialises `set` before anything else is done with it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        for &signo in signals {
            libc::sigaddset(&mut set, signo);
        }
        set
    }
}

/// Signals that arrive through a descriptor instead of handlers.
pub struct Signals(OwnedFd);

/// A signal that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrived {
    /// Its number.
    pub signo: i32,
    /// True when another process sent it; false when it came from the terminal or the kernel.
    pub from_process: bool,
    /// That process.
    pub pid: i32,
}

impl Signals {
    /// Blocks `signals` and makes a descriptor for them; also returns the mask as it was before.
    ///
    /// # Errors
    /// What signalfd says.
    pub fn new(signals: &[i32]) -> io::Result<(Signals, Mask)> {
        let set = signal_set(signals);
        let mut old = MaybeUninit::uninit();
        // SAFETY: 1. `set` is initialised. 2. `old` is written by pthread_sigmask, which cannot fail for SIG_BLOCK. 3. A
        //            descriptor that signalfd returns is new and has no other owner.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, old.as_mut_ptr());
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok((
                    Signals(OwnedFd::from_raw_fd(fd)),
                    Mask(Some(old.assume_init())),
                )),
            }
        }
    }

    /// The next signal, if one is pending.
    #[must_use]
    pub fn next(&self) -> Option<Arrived> {
        const BYTES: usize = size_of::<libc::signalfd_siginfo>();
        let mut info = [0u8; BYTES];
        let read = rustix::io::read(&self.0, &mut info[..]);
        let word =
            |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        // struct signalfd_siginfo (signalfd(2)) begins with ssi_signo, ssi_errno, ssi_code, ssi_pid, 32 bits each. Positive codes
        // are the kernel's own; SI_KERNEL is what a key on the terminal gives.
        matches!(read, Ok(BYTES)).then(|| Arrived {
            signo: word(0),
            from_process: word(8) <= 0,
            pid: word(12),
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets a signal to be ignored, or to its default.
pub fn set_ignored(signo: i32, ignored: bool) {
    let action = if ignored {
        libc::SIG_IGN
    } else {
        libc::SIG_DFL
    };
    // SAFETY: 1. Neither disposition runs code of ours.
    unsafe { libc::signal(signo, action) };
}

/// Ends this process by `signo`, as if it had never been caught, and without a core dump.
pub fn die_by(signo: i32) -> ! {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let set = signal_set(&[signo]);
    set_ignored(signo, false);
    // SAFETY: 1. `none` and `set` are initialised and live through the calls. 2. What the signal does to this process is
    //            what the caller requests.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::raise(signo);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    std::process::exit(128 + signo)
}

/// Closes every descriptor of this process but `keep`; for a forked child that takes over from here.
pub fn close_all_but(keep: &[RawFd]) {
    for fd in open_descriptors() {
        if !keep.contains(&fd) {
            // SAFETY: 1. The child of a fork never drops what its parent still owns, for it never returns: no code uses or
            //            closes the number again.
            unsafe { libc::close(fd) };
        }
    }
}

/// The descriptors that are open.
#[must_use]
pub fn open_descriptors() -> Vec<RawFd> {
    let Ok(dir) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let all: Vec<RawFd> = dir
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The directory was open itself while it was read.
    all.into_iter()
        .filter(|&fd| rustix::io::fcntl_getfd(borrow(fd)).is_ok())
        .collect()
}

/// Does something with a descriptor of this process that has no owner, as one that was inherited and is known by its number.
pub fn with_descriptor<T>(fd: RawFd, act: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    act(borrow(fd.max(0)))
}

fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: 1. `fd` is not negative: it comes from a directory of numbers, or was made so. 2. A number that is not open, or is
    //            another file's, makes calls fail or answer for that file: no memory depends on it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Starts `command`; its process dies with this one, gets the descriptors `pass` under their own numbers, and has the signals
/// `blocked` blocked.
///
/// # Errors
/// What fork or exec say.
pub fn spawn_bound(
    command: &mut std::process::Command,
    pass: &[BorrowedFd<'_>],
    blocked: &[i32],
) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    let pass: Vec<RawFd> = pass.iter().map(AsRawFd::as_raw_fd).collect();
    let blocked = signal_set(blocked);
    // SAFETY: 1. The closure runs between fork and exec; it makes system calls only and allocates nothing. 2. `pass` holds
    //            descriptors that the caller keeps open until this function returns. 3. `blocked` is an initialised set, and the
    //            old mask is not asked for.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            for &fd in &pass {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(fd), rustix::io::FdFlags::empty())?;
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut());
            Ok(())
        });
    }
    command.spawn()
}

/// Makes this process `command` (execve(2)), with `ignored` and `blocked` signals, bit n - 1 for signal n.
///
/// Returns why it could not.
pub fn become_program(
    command: &mut std::process::Command,
    ignored: u64,
    blocked: u64,
) -> io::Error {
    use std::os::unix::process::CommandExt;
    let of = |bits: u64| (1..=64).filter(move |signo| bits >> (signo - 1) & 1 != 0);
    let blocked = signal_set(&of(blocked).collect::<Vec<_>>());
    let ignored: Vec<i32> = of(ignored).collect();
    // SAFETY: 1. The closure runs in this process, before execve(2). 2. `blocked` is an initialised set, and the old mask is not
    //            asked for.
    unsafe {
        command.pre_exec(move || {
            ignored.iter().for_each(|&signo| set_ignored(signo, true));
            libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, std::ptr::null_mut());
            Ok(())
        });
    }
    command.exec()
}

/// Has the scheduler let this thread run soon after it wakes up, for short times.
///
/// Since Linux 6.12 a thread of the normal policy may choose its time slice, and one with a shorter slice goes before
/// others (sched_setattr(2)); older kernels ignore the wish.
pub fn prefer_short_slices() {
    const SLICE_NS: u64 = 100_000; // The shortest there is.
    let mut attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        runtime: SLICE_NS,
        ..SchedAttr::default()
    };
    // The nice value is set by the same call: it stays as it is.
    attr.nice = rustix::process::getpriority_process(None).unwrap_or(0);
    // SAFETY: 1. `attr` is what Linux expects, says its own size, and lives through the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// struct sched_attr of include/uapi/linux/sched/types.h, its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Processor time of this process's children that have ended and were waited for.
#[must_use]
pub fn ended_children_cpu_time() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: 1. `usage` has room for what getrusage writes. 2. A structure of integers may be zero, should it write nothing.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The host's time stamp counter.
#[must_use]
pub fn tsc() -> u64 {
    // SAFETY: 1. Every x86-64 CPU has rdtsc.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sends a process a signal with a value (sigqueue(3)).
///
/// # Errors
/// EPERM, ESRCH, or EAGAIN where too many signals wait.
pub fn queue_signal(pid: u32, signo: i32, value: u64) -> io::Result<()> {
    let value = libc::sigval {
        sival_ptr: value as *mut libc::c_void,
    };
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: 1. The value is passed on, and not read as a pointer.
    match unsafe { libc::sigqueue(pid, signo, value) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_is_refused_with_several_threads() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv());
        assert!(fork().is_err());
        drop(done);
        let _ = thread.join();
    }

    #[test]
    fn open_descriptors_are_listed_without_the_listing_itself() {
        let file = std::fs::File::open("/dev/null").expect("a null device");
        let open = open_descriptors();
        assert!(open.contains(&file.as_raw_fd()));
    }

    #[test]
    fn time_goes_on() {
        assert!(tsc() < tsc());
    }
}
