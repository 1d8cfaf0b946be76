//! Names of flags and numbers, as Linux's headers have them. The values are libc's for x86-64 Linux, or the header's that is
//! named where libc has none.

/// Values with their names.
pub type Names = &'static [(u64, &'static str)];

macro_rules! names {
    ($($name:ident)* $(; $($other:ident = $value:literal),*)?) => {
        &[$((libc::$name as u64, stringify!($name)),)* $($(($value, stringify!($other))),*)?]
    };
}

/// `O_RDWR|O_CREAT`: what is set, then what has no name. A name of several bits comes before those of its parts; `none` is
/// shown when nothing is set.
pub fn flags(value: u64, names: Names, none: &str) -> String {
    let mut rest = value;
    let mut parts: Vec<String> = Vec::new();
    for (bits, name) in names {
        if *bits != 0 && rest & bits == *bits {
            parts.push((*name).to_owned());
            rest &= !bits;
        }
    }
    match (rest, parts.is_empty()) {
        (0, true) => return none.to_owned(),
        (0, false) => {}
        _ => parts.push(format!("{rest:#x}")),
    }
    parts.join("|")
}

/// The name of a number, or the number.
pub fn choice(value: u64, names: Names) -> String {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => (*name).to_owned(),
        None if (value as u32 as i32) < 0 => (value as u32 as i32).to_string(),
        None => format!("{value:#x}"),
    }
}

/// open's flags: an access mode, which is a number, and bits.
pub fn open_flags(value: u64) -> String {
    let access = choice(
        value & libc::O_ACCMODE as u64,
        names!(O_RDONLY O_WRONLY O_RDWR),
    );
    match value & !(libc::O_ACCMODE as u64) {
        0 => access,
        rest => format!("{access}|{}", flags(rest, OPEN, "")),
    }
}

/// socket's type: a number and bits.
pub fn socket_type(value: u64) -> String {
    const BITS: u64 = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u64;
    let kind = choice(
        value & !BITS,
        names!(SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET),
    );
    match value & BITS {
        0 => kind,
        bits => format!(
            "{kind}|{}",
            flags(bits, names!(SOCK_CLOEXEC SOCK_NONBLOCK), "")
        ),
    }
}

/// futex's operation: a number and bits (uapi/linux/futex.h).
pub fn futex_op(value: u64) -> String {
    const PRIVATE: u64 = 128;
    const REALTIME: u64 = 256;
    let name = match value & !(PRIVATE | REALTIME) {
        0 => "FUTEX_WAIT",
        1 => "FUTEX_WAKE",
        3 => "FUTEX_REQUEUE",
        4 => "FUTEX_CMP_REQUEUE",
        5 => "FUTEX_WAKE_OP",
        6 => "FUTEX_LOCK_PI",
        7 => "FUTEX_UNLOCK_PI",
        8 => "FUTEX_TRYLOCK_PI",
        9 => "FUTEX_WAIT_BITSET",
        10 => "FUTEX_WAKE_BITSET",
        _ => return format!("{value:#x}"),
    };
    let private = if value & PRIVATE != 0 { "_PRIVATE" } else { "" };
    let realtime = if value & REALTIME != 0 {
        "|FUTEX_CLOCK_REALTIME"
    } else {
        ""
    };
    format!("{name}{private}{realtime}")
}

/// `SIGINT`, `SIGRT_2`.
pub fn signal(number: u64) -> String {
    match number {
        1..=31 => choice(number, SIGNALS),
        32..=64 => format!("SIGRT_{}", number - 32),
        _ => number.to_string(),
    }
}

/// `[INT USR1]`, or `~[KILL]` when most are in it.
pub fn signal_set(set: u64) -> String {
    let list = |set: u64| {
        let members = (1..=64).filter(|number| set >> (number - 1) & 1 == 1);
        let names: Vec<String> = members
            .map(|number| signal(number).trim_start_matches("SIG").to_owned())
            .collect();
        names.join(" ")
    };
    match set.count_ones() {
        0..=32 => format!("[{}]", list(set)),
        _ => format!("~[{}]", list(!set)),
    }
}

/// `ENOENT (No such file or directory)`.
pub fn errno(number: u16) -> String {
    let name = choice(number.into(), ERRNOS);
    let text = std::io::Error::from_raw_os_error(number.into()).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{name} ({text})")
}

/// `S_IFREG|0644`.
pub fn file_mode(mode: u64) -> String {
    let kinds = names!(S_IFREG S_IFDIR S_IFCHR S_IFBLK S_IFIFO S_IFLNK S_IFSOCK);
    let permissions = format!("{:#05o}", mode & 0o7777).replacen("0o", "0", 1);
    match mode & libc::S_IFMT as u64 {
        0 => permissions,
        kind => format!("{}|{permissions}", choice(kind, kinds)),
    }
}

const SIGNALS: Names = names!(
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
    SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR
    SIGSYS
);
const ERRNOS: Names = names!(
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV
    ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG
    ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM ENOSTR ENODATA ETIME ENOSR ENOLINK EPROTO EBADMSG EOVERFLOW ELIBBAD EILSEQ EUSERS
    ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT
    EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN
    ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT ECANCELED EOWNERDEAD
    ENOTRECOVERABLE
);
/// As they are on x86-64 (uapi/asm-generic/fcntl.h); O_LARGEFILE is 0 to libc, not to the kernel.
pub const OPEN: Names = &[
    (libc::O_TMPFILE as u64, "O_TMPFILE"),
    (libc::O_SYNC as u64, "O_SYNC"),
    (libc::O_DSYNC as u64, "O_DSYNC"),
    (libc::O_CREAT as u64, "O_CREAT"),
    (libc::O_EXCL as u64, "O_EXCL"),
    (libc::O_NOCTTY as u64, "O_NOCTTY"),
    (libc::O_TRUNC as u64, "O_TRUNC"),
    (libc::O_APPEND as u64, "O_APPEND"),
    (libc::O_NONBLOCK as u64, "O_NONBLOCK"),
    (libc::O_ASYNC as u64, "O_ASYNC"),
    (libc::O_DIRECT as u64, "O_DIRECT"),
    (0x8000, "O_LARGEFILE"),
    (libc::O_DIRECTORY as u64, "O_DIRECTORY"),
    (libc::O_NOFOLLOW as u64, "O_NOFOLLOW"),
    (libc::O_NOATIME as u64, "O_NOATIME"),
    (libc::O_CLOEXEC as u64, "O_CLOEXEC"),
    (libc::O_PATH as u64, "O_PATH"),
];
pub const PROT: Names = names!(PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP);
pub const MAP: Names = names!(
    MAP_SHARED_VALIDATE MAP_SHARED MAP_PRIVATE MAP_FIXED MAP_ANONYMOUS MAP_GROWSDOWN MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED
    MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_STACK MAP_HUGETLB MAP_SYNC MAP_FIXED_NOREPLACE
);
pub const MREMAP: Names = names!(MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP);
pub const MADVICE: Names = names!(
    MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE MADV_REMOVE MADV_DONTFORK MADV_DOFORK
    MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP MADV_WIPEONFORK MADV_KEEPONFORK
    MADV_POPULATE_READ MADV_POPULATE_WRITE
);
pub const MSYNC: Names = names!(MS_ASYNC MS_INVALIDATE MS_SYNC);
pub const ACCESS: Names = names!(R_OK W_OK X_OK);
pub const AT: Names = names!(
    AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC
);
/// faccessat2's: of the same number as AT_REMOVEDIR.
pub const AT_ACCESS: Names = names!(AT_EACCESS AT_SYMLINK_NOFOLLOW AT_EMPTY_PATH);
pub const WHENCE: Names = names!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE);
pub const CLOCKS: Names = names!(
    CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE
    CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI
);
pub const TIMER_FLAGS: Names = names!(TIMER_ABSTIME);
pub const SIGEV: Names = names!(SIGEV_SIGNAL SIGEV_NONE SIGEV_THREAD SIGEV_THREAD_ID);
pub const ITIMERS: Names = names!(ITIMER_REAL ITIMER_VIRTUAL ITIMER_PROF);
pub const RLIMITS: Names = names!(
    RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS
    RLIMIT_LOCKS RLIMIT_SIGPENDING RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME
);
pub const RUSAGE: Names = names!(RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD);
pub const SIG_HOW: Names = names!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK);
/// SA_RESTORER is not libc's to show (arch/x86/include/uapi/asm/signal.h).
pub const SA: Names = &[
    (0x0400_0000, "SA_RESTORER"),
    (libc::SA_ONSTACK as u64, "SA_ONSTACK"),
    (libc::SA_RESTART as u64, "SA_RESTART"),
    (libc::SA_NODEFER as u64, "SA_NODEFER"),
    (0x8000_0000, "SA_RESETHAND"),
    (libc::SA_SIGINFO as u64, "SA_SIGINFO"),
    (libc::SA_NOCLDSTOP as u64, "SA_NOCLDSTOP"),
    (libc::SA_NOCLDWAIT as u64, "SA_NOCLDWAIT"),
];
pub const SS: Names = names!(SS_ONSTACK SS_DISABLE);
pub const POLL: Names = names!(
    POLLIN POLLPRI POLLOUT POLLRDHUP POLLERR POLLHUP POLLNVAL POLLRDNORM POLLRDBAND POLLWRNORM POLLWRBAND
);
pub const EPOLL: Names = names!(
    EPOLLIN EPOLLPRI EPOLLOUT EPOLLRDHUP EPOLLERR EPOLLHUP EPOLLRDNORM EPOLLRDBAND EPOLLWRNORM EPOLLWRBAND EPOLLEXCLUSIVE
    EPOLLWAKEUP EPOLLONESHOT EPOLLET
);
pub const EPOLL_OPS: Names = names!(EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD);
pub const EPOLL_CREATE: Names = names!(EPOLL_CLOEXEC);
pub const EVENTFD: Names = names!(EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE);
pub const SIGNALFD: Names = names!(SFD_CLOEXEC SFD_NONBLOCK);
pub const FAMILIES: Names =
    names!(AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK);
pub const SHUTDOWN: Names = names!(SHUT_RD SHUT_WR SHUT_RDWR);
pub const MSG: Names = names!(
    MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL MSG_CONFIRM MSG_ERRQUEUE MSG_NOSIGNAL
    MSG_MORE MSG_WAITFORONE MSG_FASTOPEN MSG_CMSG_CLOEXEC
);
pub const SOCKET_LEVELS: Names = &[
    (libc::SOL_SOCKET as u64, "SOL_SOCKET"),
    (libc::IPPROTO_IP as u64, "SOL_IP"),
    (libc::IPPROTO_TCP as u64, "SOL_TCP"),
    (libc::IPPROTO_UDP as u64, "SOL_UDP"),
    (libc::IPPROTO_IPV6 as u64, "SOL_IPV6"),
];
pub const FCNTL: Names = names!(
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_OFD_GETLK F_OFD_SETLK
    F_OFD_SETLKW F_SETLEASE F_GETLEASE F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS
);
pub const FD_FLAGS: Names = names!(FD_CLOEXEC);
pub const FLOCK: Names = names!(LOCK_SH LOCK_EX LOCK_NB LOCK_UN);
pub const IOCTLS: Names = names!(
    TCGETS TCSETS TCSETSW TCSETSF TIOCGWINSZ TIOCSWINSZ TIOCGPGRP TIOCSPGRP TIOCSCTTY TIOCNOTTY TIOCGSID FIONREAD FIONBIO FIOCLEX
    FIONCLEX FIOASYNC; XPMEM_CMD_VERSION = 0x7800, XPMEM_CMD_MAKE = 0x7801, XPMEM_CMD_REMOVE = 0x7802, XPMEM_CMD_GET = 0x7803,
    XPMEM_CMD_RELEASE = 0x7804, XPMEM_CMD_ATTACH = 0x7805, XPMEM_CMD_DETACH = 0x7806, XPMEM_CMD_FORK_BEGIN = 0x7807,
    XPMEM_CMD_FORK_END = 0x7808
);
pub const WAIT: Names = names!(WNOHANG WUNTRACED WCONTINUED);
pub const GETRANDOM: Names = names!(GRND_NONBLOCK GRND_RANDOM);
pub const MEMFD: Names = names!(MFD_CLOEXEC MFD_ALLOW_SEALING MFD_HUGETLB);
pub const RENAME: Names = names!(RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT);
pub const PRCTL: Names = names!(
    PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_SET_NAME PR_GET_NAME PR_SET_NO_NEW_PRIVS
    PR_GET_NO_NEW_PRIVS PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_THP_DISABLE PR_GET_THP_DISABLE PR_SET_VMA PR_CAPBSET_READ
);
/// arch/x86/include/uapi/asm/prctl.h
pub const ARCH: Names = &[
    (0x1001, "ARCH_SET_GS"),
    (0x1002, "ARCH_SET_FS"),
    (0x1003, "ARCH_GET_FS"),
    (0x1004, "ARCH_GET_GS"),
    (0x1011, "ARCH_GET_CPUID"),
    (0x1012, "ARCH_SET_CPUID"),
    (0x3001, "ARCH_CET_STATUS"),
];
pub const CLONE: Names = names!(
    CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_PTRACE CLONE_VFORK CLONE_PARENT CLONE_THREAD CLONE_NEWNS
    CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_DETACHED CLONE_UNTRACED CLONE_CHILD_SETTID
);

/// si_code (uapi/asm-generic/siginfo.h): the same numbers mean other things with other signals.
pub fn si_code(signal: u64, code: i32) -> String {
    let any = [
        (0, "SI_USER"),
        (128, "SI_KERNEL"),
        (-1, "SI_QUEUE"),
        (-2, "SI_TIMER"),
        (-3, "SI_MESGQ"),
        (-6, "SI_TKILL"),
    ];
    let own: &[&str] = match signal as i32 {
        libc::SIGSEGV => &["SEGV_MAPERR", "SEGV_ACCERR"],
        libc::SIGFPE => &[
            "FPE_INTDIV",
            "FPE_INTOVF",
            "FPE_FLTDIV",
            "FPE_FLTOVF",
            "FPE_FLTUND",
            "FPE_FLTRES",
            "FPE_FLTINV",
            "FPE_FLTSUB",
        ],
        libc::SIGILL => &[
            "ILL_ILLOPC",
            "ILL_ILLOPN",
            "ILL_ILLADR",
            "ILL_ILLTRP",
            "ILL_PRVOPC",
        ],
        libc::SIGBUS => &["BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"],
        libc::SIGTRAP => &["TRAP_BRKPT", "TRAP_TRACE"],
        libc::SIGCHLD => &[
            "CLD_EXITED",
            "CLD_KILLED",
            "CLD_DUMPED",
            "CLD_TRAPPED",
            "CLD_STOPPED",
            "CLD_CONTINUED",
        ],
        _ => &[],
    };
    let general = any
        .iter()
        .find(|(known, _)| *known == code)
        .map(|(_, name)| *name);
    let special = usize::try_from(code - 1)
        .ok()
        .and_then(|at| own.get(at).copied());
    general
        .or(special)
        .map_or_else(|| code.to_string(), str::to_owned)
}
