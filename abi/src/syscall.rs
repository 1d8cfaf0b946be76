//! The one table of Linux x86-64 system calls.
//!
//! A row says how a call is served and what its arguments are. It drives dispatch in the QK, pointer checking in the
//! proxy, strace, the counters and the documentation. Numbers and prototypes: arch/x86/entry/syscalls/syscall_64.tbl
//! and include/linux/syscalls.h of Linux 6.18.

pub mod layout;
pub mod operand;
pub mod request;
mod table;
#[cfg(test)]
mod tests;

use core::num::NonZeroU8;

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
    /// So many more than that.
    Plus(u8, u32),
    /// As many as the argument with this index says, but at most so many: Linux fills no more.
    Most(u8, u32),
    /// Argument `.0` elements of `.1` bytes.
    Times(u8, u32),
    /// A bit for each of as many as argument `.0` (an int) says, in words of 8 bytes (fd_set).
    Bits(u8),
    /// As the 32-bit value behind the pointer in argument `.0` says (socklen_t *).
    AtPtr(u8),
}

/// What becomes of a call that a signal interrupts (signal(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// It fails with EINTR, or it is over soon.
    Never,
    /// It starts again when no handler ran after all. It may block for long.
    NoHandler,
    /// The same of one that has no place for what is left of its time ([`Arg::Millis`]): it goes on to its old end (do_restart_poll).
    OldEnd,
    /// It starts again also after a handler with SA_RESTART. It may block for long.
    Handler,
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A number, shown in decimal.
    Int,
    /// A number: the milliseconds that the call waits at most, for ever when negative.
    Millis,
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
    /// What it is depends on the request in the argument before, of ioctl(2).
    Ioctl,
    /// The same of fcntl(2).
    Fcntl,
    /// The same of semctl(2): the command.
    Semctl,
    /// The same of sysfs(2): the option.
    Sysfs,
    /// The same of prctl(2): the option.
    Prctl,
    /// What it is depends on the command of keyctl(2), the first argument.
    Keyctl,
    /// A signal mask for the time of the call, its length in the argument with this index.
    Sigset(u8),
    /// pselect6's pair of pointer to such a mask and length.
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
    /// What becomes of it when a signal interrupts it.
    pub restart: Restart,
    /// Linux may send SIGPIPE for it.
    pub sigpipe: bool,
    /// Local, but handed on to the proxy where it concerns others than the rank (another process, a limit that Linux
    /// enforces on the proxy).
    pub relayed: bool,
    /// Some argument may have pointers inside: to buffers (vectors, messages, requests), to a mask.
    pub nests: bool,
    /// It may write to the program's memory.
    pub writes: bool,
    /// The argument, if any, that is a signal mask for the time of the call; never the first.
    pub mask_at: Option<NonZeroU8>,
}

impl Call {
    const fn new(nr: u16, name: &'static str, serve: Serve, args: &'static [Arg]) -> Call {
        assert!(args.len() <= 6 && (nr as usize) < MAX_CALLS);
        let (mut nests, mut writes, mut mask_at) = (false, false, None);
        let mut i = 0;
        while i < args.len() {
            nests |= args[i].nests();
            writes |= args[i].writes();
            if matches!(args[i], Arg::Sigset(_) | Arg::SigsetPair) {
                mask_at = NonZeroU8::new(i as u8);
            }
            i += 1;
        }
        Call {
            nr,
            name,
            serve,
            args,
            restart: Restart::Never,
            sigpipe: false,
            relayed: false,
            nests,
            writes,
            mask_at,
        }
    }

    const fn restart(mut self) -> Call {
        self.restart = Restart::Handler;
        self
    }

    const fn relayed(mut self) -> Call {
        self.relayed = true;
        self
    }

    const fn blocks(mut self) -> Call {
        self.restart = Restart::NoHandler;
        self
    }

    const fn blocks_to_its_end(mut self) -> Call {
        self.restart = Restart::OldEnd;
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

impl Arg {
    /// Whether it may lead to memory.
    #[inline]
    const fn may_lead(&self) -> bool {
        !matches!(
            self,
            Arg::Int | Arg::Millis | Arg::Hex | Arg::Fd | Arg::DirFd
        )
    }

    const fn nests(&self) -> bool {
        use Arg::{Fcntl, Ioctl, Iovec, Mmsghdr, Msghdr, SigsetPair};
        matches!(
            self,
            Iovec(..) | Msghdr(_) | Mmsghdr(..) | SigsetPair | Ioctl | Fcntl
        )
    }

    const fn writes(&self) -> bool {
        match self {
            Arg::Mem(dir, _) | Arg::Iovec(dir, _) | Arg::Msghdr(dir) => !matches!(dir, Dir::In),
            _ => matches!(
                self,
                Arg::Mmsghdr(..) | Arg::Ioctl | Arg::Fcntl | Arg::Semctl | Arg::Prctl | Arg::Keyctl
            ),
        }
    }
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
