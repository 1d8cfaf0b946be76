//! A call as strace prints it: `openat(AT_FDCWD, "data.txt", O_RDONLY|O_CLOEXEC) = 3`.
//!
//! [`kinds`] says what the arguments of a call mean. The table in `abi` says for all calls what kind of thing they are: that is
//! shown where nothing better is known.

use abi::Errno;
use abi::map::in_window;
use abi::syscall::{Arg, Dir, Len, by_nr};

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
    /// A buffer that the call reads or writes, with the index of its length.
    In(usize),
    Out(usize),
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
    let known = kinds(row.name).map(|kinds| kinds.to_vec());
    let kinds = known.unwrap_or_else(|| row.args.iter().map(|arg| general(*arg)).collect());
    let before = View {
        memory: enter,
        before: enter,
        args,
        ret: None,
    };
    let after = exit.map(|(memory, ret)| View {
        memory,
        before: enter,
        args,
        ret: Some(ret),
    });
    let shown = kinds.iter().zip(args).filter_map(|(kind, &value)| {
        let late = matches!(kind, Out(_) | Wrote(_));
        let written = late || matches!(kind, Both(_));
        let view = after.as_ref().filter(|_| written).unwrap_or(&before);
        Some((late, argument(*kind, value, view)?))
    });
    Shown {
        name: row.name.to_owned(),
        args: shown.collect(),
    }
}

/// What came back.
pub fn result(nr: u64, args: &[u64; 6], ret: i64) -> String {
    let name = by_nr(nr).map_or("", |row| row.name);
    match Errno::from_ret(ret) {
        Some(Errno(RESTART)) => {
            "? ERESTARTSYS (a signal came: starts again or fails with EINTR)".into()
        }
        Some(Errno(RESTART_NO_HANDLER)) => {
            "? ERESTARTNOHAND (a signal came: starts again if no handler runs)".into()
        }
        Some(Errno(errno)) => format!("-1 {}", names::errno(errno)),
        None => match (name, args[1] as i32) {
            ("mmap" | "mremap" | "brk", _) => format!("{ret:#x}"),
            ("fcntl", libc::F_GETFL) => {
                format!("{ret:#x} (flags {})", names::open_flags(ret as u64))
            }
            ("fcntl", libc::F_GETFD) if ret != 0 => {
                format!(
                    "{ret:#x} (flags {})",
                    flags(ret as u64, names::FD_FLAGS, "")
                )
            }
            ("umask", _) => format!("{:#05o}", ret).replacen("0o", "0", 1),
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
        In(len) => match view.memory.from(value) {
            Some(bytes) if value != 0 => buffer(bytes, view.args[len]),
            _ => pointer(value),
        },
        Out(len) => out_buffer(value, len, view),
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
fn out_buffer(value: u64, len: usize, view: &View<'_>) -> String {
    match (view.memory.from(value), view.ret) {
        (Some(bytes), Some(ret)) if ret > 0 && value != 0 => {
            buffer(bytes, view.args[len].min(ret as u64))
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
        Arg::Int => Dec,
        Arg::Hex => Hex,
        Arg::Fd => Fd,
        Arg::DirFd => DirFd,
        Arg::Path | Arg::Str => Path,
        Arg::Mem(Dir::In, Len::Arg(len)) => In(len.into()),
        Arg::Mem(Dir::Out, Len::Arg(len)) => Out(len.into()),
        Arg::Iovec(Dir::In, count) => Read(Shape::Vectors(count.into())),
        Arg::Iovec(_, count) => Wrote(Shape::Vectors(count.into())),
        Arg::Msghdr(Dir::In) => Read(Shape::Message),
        Arg::Msghdr(_) => Wrote(Shape::Message),
        Arg::Mem(..) | Arg::Mmsghdr(..) | Arg::SigsetPair | Arg::Request => Pointer,
    }
}

/// What the arguments of a call mean; `None`: see [`general`].
#[rustfmt::skip] // A table: one row, one line.
fn kinds(name: &str) -> Option<&'static [K]> {
    const NO_FLAGS: &str = "0";
    const PATH_FLAGS: K = Flags(names::AT, NO_FLAGS);
    const OPEN_FLAGS: K = Flags(names::OPEN, NO_FLAGS);
    const TIMESPEC_IN: K = Read(Shape::Timespec);
    Some(match name {
        // Files.
        "open" => &[Path, Open, OpenMode(1)],
        "openat" => &[DirFd, Path, Open, OpenMode(2)],
        "creat" | "mkdir" | "chmod" => &[Path, Mode],
        "mkdirat" | "fchmodat" => &[DirFd, Path, Mode],
        "mknod" => &[Path, Mode, Hex],
        "mknodat" => &[DirFd, Path, Mode, Hex],
        "fchmod" => &[Fd, Mode],
        "umask" => &[Mode],
        "stat" | "lstat" => &[Path, Wrote(Shape::Stat)],
        "fstat" => &[Fd, Wrote(Shape::Stat)],
        "newfstatat" => &[DirFd, Path, Wrote(Shape::Stat), PATH_FLAGS],
        "statx" => &[DirFd, Path, PATH_FLAGS, Hex, Pointer],
        "access" => &[Path, Flags(names::ACCESS, "F_OK")],
        "faccessat" => &[DirFd, Path, Flags(names::ACCESS, "F_OK")],
        "faccessat2" => &[DirFd, Path, Flags(names::ACCESS, "F_OK"), Flags(names::AT_ACCESS, NO_FLAGS)],
        "unlinkat" => &[DirFd, Path, PATH_FLAGS],
        "linkat" => &[DirFd, Path, DirFd, Path, PATH_FLAGS],
        "fchownat" => &[DirFd, Path, Dec, Dec, PATH_FLAGS],
        "renameat2" => &[DirFd, Path, DirFd, Path, Flags(names::RENAME, NO_FLAGS)],
        "utimensat" => &[DirFd, Path, Read(Shape::TwoTimespecs), PATH_FLAGS],
        "lseek" => &[Fd, Dec, Choice(names::WHENCE)],
        "fcntl" => &[Fd, Choice(names::FCNTL), FcntlArg],
        "ioctl" => &[Fd, Choice(names::IOCTLS), Pointer],
        "flock" => &[Fd, Flags(names::FLOCK, NO_FLAGS)],
        "dup3" => &[Fd, Fd, OPEN_FLAGS],
        "pipe" => &[Wrote(Shape::Ints(2))],
        "pipe2" => &[Wrote(Shape::Ints(2)), OPEN_FLAGS],
        "getdents" | "getdents64" => &[Fd, Pointer, Dec],
        "sendfile" => &[Fd, Fd, Both(Shape::Offset), Dec],
        "memfd_create" => &[Path, Flags(names::MEMFD, NO_FLAGS)],
        "eventfd2" => &[Dec, Flags(names::EVENTFD, NO_FLAGS)],
        // Memory.
        "mmap" => &[Pointer, Dec, Flags(names::PROT, "PROT_NONE"), Flags(names::MAP, NO_FLAGS), Fd, Hex],
        "mprotect" => &[Pointer, Dec, Flags(names::PROT, "PROT_NONE")],
        "munmap" | "mlock" | "munlock" => &[Pointer, Dec],
        "mremap" => &[Pointer, Dec, Dec, Flags(names::MREMAP, NO_FLAGS), Pointer],
        "madvise" => &[Pointer, Dec, Choice(names::MADVICE)],
        "msync" => &[Pointer, Dec, Flags(names::MSYNC, NO_FLAGS)],
        "brk" => &[Pointer],
        // Signals.
        "rt_sigaction" => &[Signal, Read(Shape::SigAction), Wrote(Shape::SigAction), Dec],
        "rt_sigprocmask" => &[Choice(names::SIG_HOW), Read(Shape::SignalSet), Wrote(Shape::SignalSet), Dec],
        "rt_sigpending" => &[Wrote(Shape::SignalSet), Dec],
        "rt_sigsuspend" => &[Read(Shape::SignalSet), Dec],
        "rt_sigtimedwait" => &[Read(Shape::SignalSet), Pointer, TIMESPEC_IN, Dec],
        "sigaltstack" => &[Read(Shape::AltStack), Wrote(Shape::AltStack)],
        "kill" | "tkill" => &[Dec, Signal],
        "tgkill" => &[Dec, Dec, Signal],
        "rt_sigqueueinfo" => &[Dec, Signal, Pointer],
        "rt_tgsigqueueinfo" => &[Dec, Dec, Signal, Pointer],
        // Time.
        "nanosleep" => &[TIMESPEC_IN, Pointer],
        "clock_nanosleep" => &[Choice(names::CLOCKS), Flags(names::TIMER_FLAGS, NO_FLAGS), TIMESPEC_IN, Pointer],
        "clock_gettime" | "clock_getres" => &[Choice(names::CLOCKS), Wrote(Shape::Timespec)],
        "gettimeofday" => &[Wrote(Shape::Timeval), Pointer],
        "setitimer" => &[Choice(names::ITIMERS), Read(Shape::Itimerval), Wrote(Shape::Itimerval)],
        "getitimer" => &[Choice(names::ITIMERS), Wrote(Shape::Itimerval)],
        "timer_create" => &[Choice(names::CLOCKS), Read(Shape::SigEvent), Wrote(Shape::Int)],
        "timer_settime" => &[Dec, Flags(names::TIMER_FLAGS, NO_FLAGS), Read(Shape::Itimerspec), Wrote(Shape::Itimerspec)],
        "timer_gettime" => &[Dec, Wrote(Shape::Itimerspec)],
        "timerfd_settime" => &[Fd, Flags(names::TIMER_FLAGS, NO_FLAGS), Read(Shape::Itimerspec), Wrote(Shape::Itimerspec)],
        "timerfd_gettime" => &[Fd, Wrote(Shape::Itimerspec)],
        "timerfd_create" => &[Choice(names::CLOCKS), OPEN_FLAGS],
        // The process.
        "getrlimit" => &[Choice(names::RLIMITS), Wrote(Shape::Rlimit)],
        "setrlimit" => &[Choice(names::RLIMITS), Read(Shape::Rlimit)],
        "prlimit64" => &[Dec, Choice(names::RLIMITS), Read(Shape::Rlimit), Wrote(Shape::Rlimit)],
        "getrusage" => &[Choice(names::RUSAGE), Pointer],
        "uname" => &[Wrote(Shape::Uname)],
        "prctl" => &[Choice(names::PRCTL), Hex, Hex, Hex, Hex],
        "arch_prctl" => &[Choice(names::ARCH), Hex],
        "futex" => &[Pointer, FutexOp, Dec, Pointer, Pointer, Hex],
        "set_tid_address" => &[Pointer],
        "set_robust_list" => &[Pointer, Dec],
        "rseq" => &[Pointer, Hex, Hex, Hex],
        "wait4" => &[Dec, Wrote(Shape::WaitStatus), Flags(names::WAIT, NO_FLAGS), Pointer],
        "clone" => &[Flags(names::CLONE, NO_FLAGS), Pointer, Pointer, Pointer, Pointer],
        "clone3" => &[Pointer, Dec],
        "getrandom" => &[Out(1), Dec, Flags(names::GETRANDOM, NO_FLAGS)],
        "process_vm_readv" => &[Dec, Wrote(Shape::Vectors(2)), Dec, Pointer, Dec, Hex],
        "process_vm_writev" => &[Dec, Read(Shape::Vectors(2)), Dec, Pointer, Dec, Hex],
        // Waiting for descriptors.
        "poll" => &[Both(Shape::PollFds(1)), Dec, Dec],
        "ppoll" => &[Both(Shape::PollFds(1)), Dec, TIMESPEC_IN, Read(Shape::SignalSet), Dec],
        "select" => &[Dec, Both(Shape::FdSet), Both(Shape::FdSet), Both(Shape::FdSet), Read(Shape::Timeval)],
        "pselect6" => &[Dec, Both(Shape::FdSet), Both(Shape::FdSet), Both(Shape::FdSet), TIMESPEC_IN, Pointer],
        "epoll_create1" => &[Flags(names::EPOLL_CREATE, NO_FLAGS)],
        "epoll_ctl" => &[Fd, Choice(names::EPOLL_OPS), Fd, Read(Shape::EpollEvent)],
        "epoll_wait" => &[Fd, Wrote(Shape::EpollEvents), Dec, Dec],
        "epoll_pwait" => &[Fd, Wrote(Shape::EpollEvents), Dec, Dec, Read(Shape::SignalSet), Dec],
        // Sockets.
        "socket" => &[Choice(names::FAMILIES), SocketType, Dec],
        "socketpair" => &[Choice(names::FAMILIES), SocketType, Dec, Wrote(Shape::Ints(2))],
        "connect" | "bind" => &[Fd, Read(Shape::Sockaddr(2)), Dec],
        "accept" | "getsockname" | "getpeername" => &[Fd, Wrote(Shape::SockaddrAt(2)), Both(Shape::Int)],
        "accept4" => &[Fd, Wrote(Shape::SockaddrAt(2)), Both(Shape::Int), OPEN_FLAGS],
        "sendto" => &[Fd, In(2), Dec, Flags(names::MSG, NO_FLAGS), Read(Shape::Sockaddr(5)), Dec],
        "recvfrom" => &[Fd, Out(2), Dec, Flags(names::MSG, NO_FLAGS), Wrote(Shape::SockaddrAt(5)), Both(Shape::Int)],
        "sendmsg" => &[Fd, Read(Shape::Message), Flags(names::MSG, NO_FLAGS)],
        "recvmsg" => &[Fd, Wrote(Shape::Message), Flags(names::MSG, NO_FLAGS)],
        "shutdown" => &[Fd, Choice(names::SHUTDOWN)],
        "setsockopt" => &[Fd, Choice(names::SOCKET_LEVELS), Dec, Read(Shape::Int), Dec],
        "getsockopt" => &[Fd, Choice(names::SOCKET_LEVELS), Dec, Wrote(Shape::Int), Both(Shape::Int)],
        _ => return None,
    })
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
