//! The rows, in the order of Linux's numbers.
//!
//! One file per hundred numbers. What decides how a call is served:
//!
//! - what acts on the program's memory, its threads, its signals or its time is local, since only the node has them;
//! - what acts on descriptors, paths, sockets, other processes or credentials is shipped, since only Linux has them;
//! - what is neither served yet nor ever to be served is refused, with the error a Linux without it gives and a reason
//!   of one line. No call is answered with a success that did not happen.
//!
//! Sizes of structures are those of the x86-64 uapi headers; each is named where it first appears.

mod n000;
mod n100;
mod n200;
mod n300;

use super::Arg::{
    DirFd, Fcntl, Fd, Hex, Int, Ioctl, Iovec, Keyctl, Mem, Millis, Mmsghdr, Msghdr, Path, Prctl,
    Semctl, Sigset, SigsetPair, Str, Sysfs,
};
use super::Dir::{In, InOut, Out};
use super::Len::{Arg as Len, AtPtr, Bits, Bytes, Most, Plus, Times};
use super::layout::STRING_BYTES;
use super::{Arg, Call, local, refuse, ship};
use crate::Errno;

/// Every system call of Linux 6.18 on x86-64.
pub static ALL: &[Call] = &ROWS;

const PARTS: [&[Call]; 4] = [n000::ROWS, n100::ROWS, n200::ROWS, n300::ROWS];

const COUNT: usize = {
    let (mut part, mut count) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

static ROWS: [Call; COUNT] = {
    let mut rows = [PARTS[0][0]; COUNT];
    let (mut part, mut filled) = (0, 0);
    while part < PARTS.len() {
        let mut i = 0;
        while i < PARTS[part].len() {
            rows[filled] = PARTS[part][i];
            filled += 1;
            i += 1;
        }
        part += 1;
    }
    rows
};

/// A number that Linux keeps but has no code behind on x86-64 (sys_ni_syscall).
const fn gone(nr: u16, name: &'static str) -> Call {
    refuse(nr, name, Errno::ENOSYS, "Linux has no such call any more")
}

// Reasons that several rows share.
const NO_FANOTIFY: &str = "fanotify is not supported: use inotify";
const NO_PKEYS: &str = "memory protection keys are not supported yet";
const NO_PEEKING: &str = "access to another process's memory is not supported yet";
const NO_LANDLOCK: &str = "Landlock is not supported";
const NO_IO_URING: &str = "io_uring is not supported";
const NO_SCHED_CLASSES: &str = "a core runs its tasks in turn: there are no scheduling classes";
const STAYS_PUT: &str = "memory does not move: a rank's partition lies in one place";
const FIXED_NAMESPACES: &str = "a rank stays in the namespaces it was started in";
const FIXED_ROOT: &str =
    "mounts and the root directory are the host's and are not changed from a rank";
const OF_PROBES: &str = "only code that a tracer of Linux puts into a program makes it";
const HOST_MODULES: &str = "security modules are the host's";
const XATTR_AT: &str = "use fsetxattr and its kin, or a path in /proc/self/fd";
const FILE_FLAGS: &str = "flags of files are the host's affair: use statx to read them";
const HOST_CLOCKS: &str = "the clocks are the host's and are not set from a rank";
const HOST_ADMIN: &str = "administering the host is not for a rank";
const NODE_ADMIN: &str = "administering the node is not for a rank";

// Bytes of structures that many calls take.
const TIMESPEC: u32 = 16; // struct timespec: tv_sec, tv_nsec (uapi/linux/time_types.h); struct timeval is as long
const TWO_TIMES: u32 = 2 * TIMESPEC; // access and modification time
const STAT: u32 = 144; // struct stat (arch/x86/include/uapi/asm/stat.h)
const STATFS: u32 = 120; // struct statfs (uapi/asm-generic/statfs.h)
const RUSAGE: u32 = 144; // struct rusage (uapi/linux/resource.h)
const RLIMIT: u32 = 16; // struct rlimit, struct rlimit64 (uapi/linux/resource.h)
const SIGINFO: u32 = 128; // siginfo_t (uapi/asm-generic/siginfo.h, SI_MAX_SIZE)
const SIGEVENT: u32 = 64; // struct sigevent (uapi/asm-generic/siginfo.h, SIGEV_MAX_SIZE)
const SOCKLEN: u32 = 4; // socklen_t
const POLLFD: u32 = 8; // struct pollfd (uapi/asm-generic/poll.h)
const EPOLL_EVENT: u32 = 12; // struct epoll_event, packed on x86-64 (uapi/linux/eventpoll.h)
const OFFSET: u32 = 8; // loff_t
const SEMBUF: u32 = 6; // struct sembuf (uapi/linux/sem.h)
const IO_EVENT: u32 = 32; // struct io_event (uapi/linux/aio_abi.h)
const ITIMER: u32 = 32; // struct itimerval and struct itimerspec

/// A descriptor set of select: a bit for each of argument 0.
const FD_SET: Arg = Mem(InOut, Bits(0));
/// The address that a socket call writes to argument 1, its length behind argument 2.
const SOCKADDR_1: Arg = Mem(Out, AtPtr(2));
/// The address that a socket call writes to argument 4, its length behind argument 5.
const SOCKADDR_4: Arg = Mem(Out, AtPtr(5));
