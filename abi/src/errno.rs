//! Linux error numbers (include/uapi/asm-generic/errno-base.h and errno.h).

use core::fmt;

/// A Linux error number, 1..=4095. A system call returns it negated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub u16);

macro_rules! errnos {
    ($($name:ident = $nr:literal)*) => {
        #[allow(missing_docs)] // The names are Linux's own.
        impl Errno {
            $(pub const $name: Errno = Errno($nr);)*
            /// The symbolic name, where Margay itself uses the number.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($nr => Some(stringify!($name)),)* _ => None }
            }
        }
    };
}

errnos! {
    EPERM = 1 ENOENT = 2 ESRCH = 3 EINTR = 4 EIO = 5 ENXIO = 6 E2BIG = 7 ENOEXEC = 8 EBADF = 9 ECHILD = 10
    EAGAIN = 11 ENOMEM = 12 EACCES = 13 EFAULT = 14 ENOTBLK = 15 EBUSY = 16 EEXIST = 17 EXDEV = 18 ENODEV = 19
    ENOTDIR = 20 EISDIR = 21 EINVAL = 22 ENFILE = 23 EMFILE = 24 ENOTTY = 25 ETXTBSY = 26 EFBIG = 27 ENOSPC = 28
    ESPIPE = 29 EROFS = 30 EMLINK = 31 EPIPE = 32 EDOM = 33 ERANGE = 34 EDEADLK = 35 ENAMETOOLONG = 36 ENOLCK = 37
    ENOSYS = 38 ENOTEMPTY = 39 ELOOP = 40 ENODATA = 61 ETIME = 62 EPROTO = 71 EOVERFLOW = 75 ELIBBAD = 80
    ENOTSOCK = 88 EDESTADDRREQ = 89 EMSGSIZE = 90 EPROTONOSUPPORT = 93 EOPNOTSUPP = 95 EAFNOSUPPORT = 97
    EADDRINUSE = 98 ENETDOWN = 100 ENETUNREACH = 101 ECONNABORTED = 103 ECONNRESET = 104 ENOBUFS = 105 EISCONN = 106
    ENOTCONN = 107 ETIMEDOUT = 110 ECONNREFUSED = 111 EHOSTUNREACH = 113 EALREADY = 114 EINPROGRESS = 115
}

impl Errno {
    /// The value a system call returns for this error.
    #[must_use]
    pub const fn ret(self) -> i64 {
        -(self.0 as i64)
    }

    /// The error in a system call's return value, if it is one (-4095..=-1).
    #[must_use]
    pub const fn from_ret(ret: i64) -> Option<Errno> {
        if ret < 0 && ret >= -4095 {
            Some(Errno((-ret) as u16))
        } else {
            None
        }
    }

    /// A system call's return value, told apart from an error.
    ///
    /// # Errors
    /// The error in it ([`Self::from_ret`]).
    pub const fn check(ret: i64) -> Result<i64, Errno> {
        match Errno::from_ret(ret) {
            Some(errno) => Err(errno),
            None => Ok(ret),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "E{}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
