//! Errors of Linux as the rank gets them.

use abi::Errno;
use rustix::io;

/// An error that Linux has returned to this process.
pub fn linux(errno: io::Errno) -> Errno {
    Errno(errno.raw_os_error() as u16)
}
