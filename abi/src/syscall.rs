//! The one table of Linux x86-64 system calls.
//!
//! A row says how a call is served and what its arguments are. It drives dispatch in the QK, pointer checking in the
//! proxy, strace, the counters and the documentation. Numbers and prototypes: arch/x86/entry/syscalls/syscall_64.tbl
//! and include/linux/syscalls.h of Linux 6.1.

pub mod request;
mod table;
#[cfg(test)]
mod tests;

use crate::Errno;
pub use table::ALL;

/// Numbers below this have a row or are unknown; above are unknown. A power of two, so that lookup is a mask.
pub const MAX_CALLS: usize = 512;

/// How a call is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serve {
    /// The QK, on the calling core.
    Local,
    /// The rank's proxy, by the same Linux call in its own context.
    Shipped,
    /// Not served: this error, for this reason (one line, shown in the documentation and when a rank fails).
    Refused(Errno, &'static str),
}

/// Bytes of a set of bits ([`Len::Bits`]).
#[must_use]
pub const fn bytes_of_bits(bits: u64) -> u64 {
    (bits as u32 as u64).div_ceil(64) * 8
}

/// Which way memory behind a pointer moves, seen from the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    /// The call reads it.
    In,
    /// The call writes it.
    Out,
    /// Both.
    InOut,
}

/// How many bytes a pointer spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Len {
    /// Just so many.
    Bytes(u32),
    /// As many as the argument with this index says.
    Arg(u8),
    /// Argument `.0` elements of `.1` bytes.
    Times(u8, u32),
    /// A bit for each of as many as argument `.0` (an int) says, in words of 8 bytes (fd_set).
    Bits(u8),
    /// As the 32-bit value behind the pointer in argument `.0` says (socklen_t *).
    AtPtr(u8),
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A number, shown in decimal.
    Int,
    /// Flags, addresses and masks: a number shown in hexadecimal; never dereferenced by Linux.
    Hex,
    /// A descriptor of the rank.
    Fd,
    /// A directory descriptor or AT_FDCWD.
    DirFd,
    /// A path: NUL-terminated, at most PATH_MAX bytes.
    Path,
    /// Another NUL-terminated string (extended attribute names, file system types).
    Str,
    /// Flat memory; a null pointer is passed on.
    Mem(Dir, Len),
    /// Array of struct iovec, its count in the argument with this index.
    Iovec(Dir, u8),
    /// struct msghdr with its nested name, iovec and control.
    Msghdr(Dir),
    /// Array of struct mmsghdr, count in the argument with this index.
    Mmsghdr(Dir, u8),
    /// An open file's third argument: meaning depends on the request in the argument before (ioctl, fcntl).
    Request,
    /// epoll_pwait's, ppoll's, pselect's sigset: In memory of 8 bytes, or pselect6's pair of pointer and size.
    SigsetPair,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Linux's number.
    pub nr: u16,
    /// Linux's name.
    pub name: &'static str,
    /// How it is served.
    pub serve: Serve,
    /// Its arguments, in order; at most six.
    pub args: &'static [Arg],
    /// After a handler with SA_RESTART interrupted it, Linux starts it again.
    pub restart: bool,
    /// Linux may send SIGPIPE for it.
    pub sigpipe: bool,
    /// It may block for long, and Linux starts it again when no handler ran after all (not so epoll_wait and its kin: signal(7)).
    pub blocks: bool,
    /// Local, but handed on to the proxy where it concerns others than the rank (another process, a limit that Linux
    /// enforces on the proxy).
    pub relayed: bool,
    /// Some argument may have pointers inside: to buffers (vectors, messages, requests), to a mask.
    pub nests: bool,
}

impl Call {
    const fn new(nr: u16, name: &'static str, serve: Serve, args: &'static [Arg]) -> Call {
        assert!(args.len() <= 6 && (nr as usize) < MAX_CALLS);
        Call {
            nr,
            name,
            serve,
            args,
            restart: false,
            sigpipe: false,
            blocks: false,
            relayed: false,
            nests: nests(args),
        }
    }

    const fn restart(mut self) -> Call {
        self.restart = true;
        self.blocks = true;
        self
    }

    const fn relayed(mut self) -> Call {
        self.relayed = true;
        self
    }

    const fn blocks(mut self) -> Call {
        self.blocks = true;
        self
    }

    const fn sigpipe(mut self) -> Call {
        self.sigpipe = true;
        self
    }

    /// Whether Linux may have sent a signal to the thread that made the call, which returned `ret`: SIGPIPE, or SIGXFSZ for a file
    /// that would be longer than RLIMIT_FSIZE.
    #[inline]
    #[must_use]
    pub const fn may_raise(&self, ret: i64) -> bool {
        self.sigpipe || ret == Errno::EFBIG.ret()
    }
}

const fn nests(args: &[Arg]) -> bool {
    let mut i = 0;
    while i < args.len() {
        let arg = args[i];
        if matches!(
            arg,
            Arg::Iovec(..) | Arg::Msghdr(_) | Arg::Mmsghdr(..) | Arg::SigsetPair | Arg::Request
        ) {
            return true;
        }
        i += 1;
    }
    false
}

const fn local(nr: u16, name: &'static str, args: &'static [Arg]) -> Call {
    Call::new(nr, name, Serve::Local, args)
}

const fn ship(nr: u16, name: &'static str, args: &'static [Arg]) -> Call {
    Call::new(nr, name, Serve::Shipped, args)
}

const fn refuse(nr: u16, name: &'static str, errno: Errno, why: &'static str) -> Call {
    Call::new(nr, name, Serve::Refused(errno, why), &[])
}

/// Rows by number: `BY_NR[nr]` is an index into [`ALL`] plus one, or 0.
const BY_NR: [u16; MAX_CALLS] = {
    let mut index = [0u16; MAX_CALLS];
    let mut i = 0;
    while i < ALL.len() {
        let nr = ALL[i].nr as usize;
        assert!(index[nr] == 0, "two rows with one number");
        index[nr] = i as u16 + 1;
        i += 1;
    }
    index
};

/// The row of a call.
#[must_use]
pub const fn by_nr(nr: u64) -> Option<&'static Call> {
    if nr >= MAX_CALLS as u64 {
        return None;
    }
    match BY_NR[nr as usize] {
        0 => None,
        row => Some(&ALL[row as usize - 1]),
    }
}

/// The row of the call with this name.
#[must_use]
pub const fn by_name(name: &str) -> Option<&'static Call> {
    let mut i = 0;
    while i < ALL.len() {
        if same(ALL[i].name, name) {
            return Some(&ALL[i]);
        }
        i += 1;
    }
    None
}

/// Whether two names are the same, for tables that the compiler makes.
#[must_use]
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
