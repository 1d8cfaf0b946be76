//! A call as strace prints it: `openat(AT_FDCWD, "data.txt", O_RDONLY|O_CLOEXEC) = 3`.
//!
//! [`kinds`] says what the arguments of a call mean. The table in `abi` says for all calls what kind of thing they are: that is
//! shown where nothing better is known.

use abi::Errno;
use abi::map::in_window;
use abi::syscall::operand::Operand;
use abi::syscall::{Arg, Call, Dir, Len, by_nr};

use super::memory::{Memory, buffer, path};
use super::names::{self, Names, choice, flags};
use super::shapes::{self, Shape, View};

/// What an argument means.
#[derive(Clone, Copy, Debug)]
enum K {
    Dec,
    Hex,
    Mode,
    Fd,
    DirFd,
    Path,
    /// A buffer that the call reads or writes.
    In,
    Out,
    Flags(Names, &'static str),
    Choice(Names),
    Open,
    /// open's third argument, which counts only when it makes a file.
    OpenMode(usize),
    SocketType,
    FutexOp,
    Signal,
    /// A structure that the call reads, writes, or both.
    Read(Shape),
    Wrote(Shape),
    Both(Shape),
    /// What fcntl's and ioctl's request makes of it.
    FcntlArg,
    Pointer,
}

use K::*;

/// AT_FDCWD (uapi/linux/fcntl.h).
const AT_FDCWD: i32 = -100;
/// A call that a signal interrupts: the kernel's own numbers, settled on the way back to the program (`qk/kernel`, syscall).
const RESTART: u16 = 512;
const RESTART_NO_HANDLER: u16 = 514;

/// A call with its arguments as text.
pub struct Shown {
    pub name: String,
    /// Each with whether it is known only when the call has returned.
    pub args: Vec<(bool, String)>,
}

/// The call; `exit` holds what it wrote and returned.
pub fn arguments(
    nr: u64,
    args: &[u64; 6],
    enter: Memory<'_>,
    exit: Option<(Memory<'_>, i64)>,
) -> Shown {
    let Some(row) = by_nr(nr) else {
        let args = args.iter().map(|value| (false, format!("{value:#x}")));
        return Shown {
            name: format!("syscall_{nr:#x}"),
            args: args.collect(),
        };
    };
    let known = kinds(nr).map(|kinds| kinds.to_vec());
    let kinds = known.unwrap_or_else(|| row.args.iter().map(|arg| general(*arg)).collect());
    let before = View {
        memory: enter,
        before: enter,
        args,
        len: 0,
        ret: None,
    };
    let after = exit.map(|(memory, ret)| View {
        memory,
        before: enter,
        args,
        len: 0,
        ret: Some(ret),
    });
    let shown = kinds.iter().zip(args).enumerate();
    let shown = shown.filter_map(|(i, (kind, &value))| {
        let late = matches!(kind, Out | Wrote(_));
        let written = late || matches!(kind, Both(_));
        let mut view = *after.as_ref().filter(|_| written).unwrap_or(&before);
        view.len = length(row, i, &view);
        Some((late, argument(*kind, value, &view)?))
    });
    Shown {
        name: row.name.to_owned(),
        args: shown.collect(),
    }
}

/// Bytes of what an argument points to, or how many vectors, as the program says.
fn length(row: &Call, i: usize, view: &View<'_>) -> u64 {
    match row.args.get(i).map(|_| row.operand(i, view.args)) {
        Some(Operand::Flat(_, size)) => size.bytes(&view.memory),
        Some(Operand::Vectors(_, count)) => count,
        _ => 0,
    }
}

/// What came back.
pub fn result(nr: u64, args: &[u64; 6], ret: i64) -> String {
    match Errno::from_ret(ret) {
        Some(Errno(RESTART)) => {
            "? ERESTARTSYS (a signal came: starts again or fails with EINTR)".into()
        }
        Some(Errno(RESTART_NO_HANDLER)) => {
            "? ERESTARTNOHAND (a signal came: starts again if no handler runs)".into()
        }
        Some(Errno(errno)) => format!("-1 {}", names::errno(errno)),
        None => match (nr as i64, args[1] as i32) {
            (libc::SYS_mmap | libc::SYS_mremap | libc::SYS_brk, _) => format!("{ret:#x}"),
            (libc::SYS_fcntl, libc::F_GETFL) => {
                format!("{ret:#x} (flags {})", names::open_flags(ret as u64))
            }
            (libc::SYS_fcntl, libc::F_GETFD) if ret != 0 => {
                format!(
                    "{ret:#x} (flags {})",
                    flags(ret as u64, names::FD_FLAGS, "")
                )
            }
            (libc::SYS_umask, _) => format!("{:#05o}", ret).replacen("0o", "0", 1),
            _ => ret.to_string(),
        },
    }
}

fn argument(kind: K, value: u64, view: &View<'_>) -> Option<String> {
    let failed = view.ret.is_some_and(|ret| ret < 0);
    Some(match kind {
        Dec => signed(value).to_string(),
        Hex => format!("{value:#x}"),
        Mode => names::file_mode(value),
        Fd => (value as i32).to_string(),
        DirFd if value as i32 == AT_FDCWD => "AT_FDCWD".into(),
        DirFd => (value as i32).to_string(),
        Path => view.memory.from(value).map_or_else(|| pointer(value), path),
        In => match view.memory.from(value) {
            Some(bytes) if value != 0 => buffer(bytes, view.len),
            _ => pointer(value),
        },
        Out => out_buffer(value, view),
        Flags(names, none) => flags(value, names, none),
        Choice(names) => choice(value, names),
        Open => names::open_flags(value),
        OpenMode(flags) => {
            let makes = libc::O_CREAT as u64 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
            return (view.args[flags] & makes != 0).then(|| names::file_mode(value));
        }
        SocketType => names::socket_type(value),
        FutexOp => names::futex_op(value),
        Signal => names::signal(value),
        Read(shape) => shapes::show(shape, value, view).unwrap_or_else(|| pointer(value)),
        Wrote(_) | Both(_) if value == 0 || failed => pointer(value),
        Wrote(shape) | Both(shape) => {
            shapes::show(shape, value, view).unwrap_or_else(|| pointer(value))
        }
        FcntlArg => return fcntl_argument(value, view.args[1]),
        Pointer => pointer(value),
    })
}

/// What was written is valid as far as the call returned.
fn out_buffer(value: u64, view: &View<'_>) -> String {
    match (view.memory.from(value), view.ret) {
        (Some(bytes), Some(ret)) if ret > 0 && value != 0 => {
            buffer(bytes, view.len.min(ret as u64))
        }
        (_, Some(0)) if value != 0 => "\"\"".into(),
        _ => pointer(value),
    }
}

fn fcntl_argument(value: u64, request: u64) -> Option<String> {
    Some(match request as i32 {
        libc::F_GETFD | libc::F_GETFL | libc::F_GETOWN | libc::F_GETPIPE_SZ => return None,
        libc::F_SETFD => flags(value, names::FD_FLAGS, "0"),
        libc::F_SETFL => names::open_flags(value),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => signed(value).to_string(),
        _ => pointer(value),
    })
}

/// An address; one in a SMARTMAP window as the rank and the address there.
fn pointer(value: u64) -> String {
    match (value, in_window(value)) {
        (0, _) => "NULL".into(),
        (_, Some((rank, addr))) => format!("rank {rank}:{addr:#x}"),
        _ => format!("{value:#x}"),
    }
}

/// A C `int` arrives with its upper half zero, so that -1 looks like 4294967295: small negative values are recognised.
fn signed(value: u64) -> i64 {
    let as_int = value as u32 as i32;
    if value <= u64::from(u32::MAX) && (-4096..0).contains(&as_int) {
        i64::from(as_int)
    } else {
        value as i64
    }
}

/// What the table of all calls says of an argument.
fn general(arg: Arg) -> K {
    match arg {
        Arg::Int | Arg::Millis => Dec,
        Arg::Hex => Hex,
        Arg::Fd => Fd,
        Arg::DirFd => DirFd,
        Arg::Path | Arg::Str => Path,
        Arg::Mem(Dir::In, Len::Arg(_)) => In,
        Arg::Mem(Dir::Out, Len::Arg(_)) => Out,
        Arg::Iovec(Dir::In, _) => Read(Shape::Vectors),
        Arg::Iovec(..) => Wrote(Shape::Vectors),
        Arg::Sigset(_) => Read(Shape::SignalSet),
        Arg::Msghdr(Dir::In) => Read(Shape::Message),
        Arg::Msghdr(_) => Wrote(Shape::Message),
        Arg::Mem(..)
        | Arg::Mmsghdr(..)
        | Arg::SigsetPair
        | Arg::Ioctl
        | Arg::Fcntl
        | Arg::Semctl
        | Arg::Sysfs
        | Arg::Prctl
        | Arg::Keyctl => Pointer,
    }
}

/// What the arguments of a call mean; `None`: see [`general`].
#[rustfmt::skip] // A table: one row, one line.
fn kinds(nr: u64) -> Option<&'static [K]> {
    const NO_FLAGS: &str = "0";
    const PATH_FLAGS: K = Flags(names::AT, NO_FLAGS);
    const OPEN_FLAGS: K = Flags(names::OPEN, NO_FLAGS);
    const TIMESPEC_IN: K = Read(Shape::Timespec);
    Some(match nr as i64 {
        // Files.
        libc::SYS_open => &[Path, Open, OpenMode(1)],
        libc::SYS_openat => &[DirFd, Path, Open, OpenMode(2)],
        libc::SYS_creat | libc::SYS_mkdir | libc::SYS_chmod => &[Path, Mode],
        libc::SYS_mkdirat | libc::SYS_fchmodat => &[DirFd, Path, Mode],
        libc::SYS_mknod => &[Path, Mode, Hex],
        libc::SYS_mknodat => &[DirFd, Path, Mode, Hex],
        libc::SYS_fchmod => &[Fd, Mode],
        libc::SYS_umask => &[Mode],
        libc::SYS_stat | libc::SYS_lstat => &[Path, Wrote(Shape::Stat)],
        libc::SYS_fstat => &[Fd, Wrote(Shape::Stat)],
        libc::SYS_newfstatat => &[DirFd, Path, Wrote(Shape::Stat), PATH_FLAGS],
        libc::SYS_statx => &[DirFd, Path, PATH_FLAGS, Hex, Pointer],
        libc::SYS_access => &[Path, Flags(names::ACCESS, "F_OK")],
        libc::SYS_faccessat => &[DirFd, Path, Flags(names::ACCESS, "F_OK")],
        libc::SYS_faccessat2 => &[DirFd, Path, Flags(names::ACCESS, "F_OK"), Flags(names::AT_ACCESS, NO_FLAGS)],
        libc::SYS_unlinkat => &[DirFd, Path, PATH_FLAGS],
        libc::SYS_linkat => &[DirFd, Path, DirFd, Path, PATH_FLAGS],
        libc::SYS_fchownat => &[DirFd, Path, Dec, Dec, PATH_FLAGS],
        libc::SYS_renameat2 => &[DirFd, Path, DirFd, Path, Flags(names::RENAME, NO_FLAGS)],
        libc::SYS_utimensat => &[DirFd, Path, Read(Shape::TwoTimespecs), PATH_FLAGS],
        libc::SYS_lseek => &[Fd, Dec, Choice(names::WHENCE)],
        libc::SYS_fcntl => &[Fd, Choice(names::FCNTL), FcntlArg],
        libc::SYS_ioctl => &[Fd, Choice(names::IOCTLS), Pointer],
        libc::SYS_flock => &[Fd, Flags(names::FLOCK, NO_FLAGS)],
        libc::SYS_dup3 => &[Fd, Fd, OPEN_FLAGS],
        libc::SYS_pipe => &[Wrote(Shape::Ints(2))],
        libc::SYS_pipe2 => &[Wrote(Shape::Ints(2)), OPEN_FLAGS],
        libc::SYS_getdents | libc::SYS_getdents64 => &[Fd, Pointer, Dec],
        libc::SYS_sendfile => &[Fd, Fd, Both(Shape::Offset), Dec],
        libc::SYS_memfd_create => &[Path, Flags(names::MEMFD, NO_FLAGS)],
        libc::SYS_eventfd2 => &[Dec, Flags(names::EVENTFD, NO_FLAGS)],
        libc::SYS_signalfd => &[Fd, Read(Shape::SignalSet), Dec],
        libc::SYS_signalfd4 => &[Fd, Read(Shape::SignalSet), Dec, Flags(names::SIGNALFD, NO_FLAGS)],
        libc::SYS_add_key => &[Path, Path, In, Dec, Dec],
        libc::SYS_request_key => &[Path, Path, Path, Dec],
        // Memory.
        libc::SYS_mmap => &[Pointer, Dec, Flags(names::PROT, "PROT_NONE"), Flags(names::MAP, NO_FLAGS), Fd, Hex],
        libc::SYS_mprotect => &[Pointer, Dec, Flags(names::PROT, "PROT_NONE")],
        libc::SYS_munmap | libc::SYS_mlock | libc::SYS_munlock => &[Pointer, Dec],
        libc::SYS_mremap => &[Pointer, Dec, Dec, Flags(names::MREMAP, NO_FLAGS), Pointer],
        libc::SYS_madvise => &[Pointer, Dec, Choice(names::MADVICE)],
        libc::SYS_msync => &[Pointer, Dec, Flags(names::MSYNC, NO_FLAGS)],
        libc::SYS_brk => &[Pointer],
        // Signals.
        libc::SYS_rt_sigaction => &[Signal, Read(Shape::SigAction), Wrote(Shape::SigAction), Dec],
        libc::SYS_rt_sigprocmask => &[Choice(names::SIG_HOW), Read(Shape::SignalSet), Wrote(Shape::SignalSet), Dec],
        libc::SYS_rt_sigpending => &[Wrote(Shape::SignalSet), Dec],
        libc::SYS_rt_sigsuspend => &[Read(Shape::SignalSet), Dec],
        libc::SYS_rt_sigtimedwait => &[Read(Shape::SignalSet), Pointer, TIMESPEC_IN, Dec],
        libc::SYS_sigaltstack => &[Read(Shape::AltStack), Wrote(Shape::AltStack)],
        libc::SYS_kill | libc::SYS_tkill => &[Dec, Signal],
        libc::SYS_tgkill => &[Dec, Dec, Signal],
        libc::SYS_rt_sigqueueinfo => &[Dec, Signal, Pointer],
        libc::SYS_rt_tgsigqueueinfo => &[Dec, Dec, Signal, Pointer],
        // Time.
        libc::SYS_nanosleep => &[TIMESPEC_IN, Pointer],
        libc::SYS_clock_nanosleep => &[Choice(names::CLOCKS), Flags(names::TIMER_FLAGS, NO_FLAGS), TIMESPEC_IN, Pointer],
        libc::SYS_clock_gettime | libc::SYS_clock_getres => &[Choice(names::CLOCKS), Wrote(Shape::Timespec)],
        libc::SYS_gettimeofday => &[Wrote(Shape::Timeval), Pointer],
        libc::SYS_setitimer => &[Choice(names::ITIMERS), Read(Shape::Itimerval), Wrote(Shape::Itimerval)],
        libc::SYS_getitimer => &[Choice(names::ITIMERS), Wrote(Shape::Itimerval)],
        libc::SYS_timer_create => &[Choice(names::CLOCKS), Read(Shape::SigEvent), Wrote(Shape::Int)],
        libc::SYS_timer_settime => &[Dec, Flags(names::TIMER_FLAGS, NO_FLAGS), Read(Shape::Itimerspec), Wrote(Shape::Itimerspec)],
        libc::SYS_timer_gettime => &[Dec, Wrote(Shape::Itimerspec)],
        libc::SYS_timerfd_settime => &[Fd, Flags(names::TIMER_FLAGS, NO_FLAGS), Read(Shape::Itimerspec), Wrote(Shape::Itimerspec)],
        libc::SYS_timerfd_gettime => &[Fd, Wrote(Shape::Itimerspec)],
        libc::SYS_timerfd_create => &[Choice(names::CLOCKS), OPEN_FLAGS],
        // The process.
        libc::SYS_getrlimit => &[Choice(names::RLIMITS), Wrote(Shape::Rlimit)],
        libc::SYS_setrlimit => &[Choice(names::RLIMITS), Read(Shape::Rlimit)],
        libc::SYS_prlimit64 => &[Dec, Choice(names::RLIMITS), Read(Shape::Rlimit), Wrote(Shape::Rlimit)],
        libc::SYS_getrusage => &[Choice(names::RUSAGE), Pointer],
        libc::SYS_uname => &[Wrote(Shape::Uname)],
        libc::SYS_prctl => &[Choice(names::PRCTL), Hex, Hex, Hex, Hex],
        libc::SYS_arch_prctl => &[Choice(names::ARCH), Hex],
        libc::SYS_futex => &[Pointer, FutexOp, Dec, Pointer, Pointer, Hex],
        libc::SYS_set_tid_address => &[Pointer],
        libc::SYS_set_robust_list => &[Pointer, Dec],
        libc::SYS_rseq => &[Pointer, Hex, Hex, Hex],
        libc::SYS_wait4 => &[Dec, Wrote(Shape::WaitStatus), Flags(names::WAIT, NO_FLAGS), Pointer],
        libc::SYS_clone => &[Flags(names::CLONE, NO_FLAGS), Pointer, Pointer, Pointer, Pointer],
        libc::SYS_clone3 => &[Pointer, Dec],
        libc::SYS_getrandom => &[Out, Dec, Flags(names::GETRANDOM, NO_FLAGS)],
        // Waiting for descriptors.
        libc::SYS_poll => &[Both(Shape::PollFds), Dec, Dec],
        libc::SYS_ppoll => &[Both(Shape::PollFds), Dec, TIMESPEC_IN, Read(Shape::SignalSet), Dec],
        libc::SYS_select => &[Dec, Both(Shape::FdSet), Both(Shape::FdSet), Both(Shape::FdSet), Read(Shape::Timeval)],
        libc::SYS_pselect6 => &[Dec, Both(Shape::FdSet), Both(Shape::FdSet), Both(Shape::FdSet), TIMESPEC_IN, Pointer],
        libc::SYS_epoll_create1 => &[Flags(names::EPOLL_CREATE, NO_FLAGS)],
        libc::SYS_epoll_ctl => &[Fd, Choice(names::EPOLL_OPS), Fd, Read(Shape::EpollEvent)],
        libc::SYS_epoll_wait => &[Fd, Wrote(Shape::EpollEvents), Dec, Dec],
        libc::SYS_epoll_pwait => &[Fd, Wrote(Shape::EpollEvents), Dec, Dec, Read(Shape::SignalSet), Dec],
        // Sockets.
        libc::SYS_socket => &[Choice(names::FAMILIES), SocketType, Dec],
        libc::SYS_socketpair => &[Choice(names::FAMILIES), SocketType, Dec, Wrote(Shape::Ints(2))],
        libc::SYS_connect | libc::SYS_bind => &[Fd, Read(Shape::Sockaddr), Dec],
        libc::SYS_accept | libc::SYS_getsockname | libc::SYS_getpeername => &[Fd, Wrote(Shape::Sockaddr), Both(Shape::Int)],
        libc::SYS_accept4 => &[Fd, Wrote(Shape::Sockaddr), Both(Shape::Int), OPEN_FLAGS],
        libc::SYS_sendto => &[Fd, In, Dec, Flags(names::MSG, NO_FLAGS), Read(Shape::Sockaddr), Dec],
        libc::SYS_recvfrom => &[Fd, Out, Dec, Flags(names::MSG, NO_FLAGS), Wrote(Shape::Sockaddr), Both(Shape::Int)],
        libc::SYS_sendmsg => &[Fd, Read(Shape::Message), Flags(names::MSG, NO_FLAGS)],
        libc::SYS_recvmsg => &[Fd, Wrote(Shape::Message), Flags(names::MSG, NO_FLAGS)],
        libc::SYS_shutdown => &[Fd, Choice(names::SHUTDOWN)],
        libc::SYS_setsockopt => &[Fd, Choice(names::SOCKET_LEVELS), Dec, Read(Shape::Int), Dec],
        libc::SYS_getsockopt => &[Fd, Choice(names::SOCKET_LEVELS), Dec, Wrote(Shape::Int), Both(Shape::Int)],
        _ => return None,
    })
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
