//! Reaching what a path leads to.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use abi::Errno;
use rustix::fs::CWD;

use super::how::{FLAGS_AT, How, MODE_AT, NEW, RESOLVE_AT, RESOLVE_NO_MAGICLINKS, set, word};
use crate::fds;
use crate::rank::Rank;
use crate::special::walk::{Found, walk};
use crate::stub;

/// What the rank is to open.
pub struct Opening<'a> {
    /// The directory that a relative path begins in.
    pub at: u64,
    /// Address of the path, for Linux.
    pub name: u64,
    /// The path.
    pub path: &'a [u8],
    /// How.
    pub how: How,
    /// The rank itself forbids some links.
    pub restricted: bool,
}

impl Opening<'_> {
    /// The flags.
    pub fn flags(&self) -> i32 {
        word(&self.how, FLAGS_AT) as i32
    }

    /// The same path, opened otherwise.
    pub fn otherwise(&self, how: How) -> Self {
        Opening { how, ..*self }
    }
}

/// Opens what a path leads to, whatever it is; an empty path only as Linux does.
pub fn reach(rank: &Rank, opening: &Opening<'_>) -> i64 {
    let ret = without_magic(opening.at, opening.name, &opening.how);
    if ret == Errno::ELOOP.ret() && !opening.restricted && !opening.path.is_empty() {
        return followed(rank, opening).unwrap_or_else(Errno::ret);
    }
    ret
}

/// The descriptor that a call has just made.
pub fn owned(ret: i64) -> Result<OwnedFd, Errno> {
    let fd = Errno::check(ret)?;
    // SAFETY: 1. Every caller passes on what a call has just returned that opens; no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Opens a file that no magic link leads to; ELOOP for others.
pub fn without_magic(at: u64, name: u64, how: &How) -> i64 {
    let mut how = how.clone();
    let resolve = word(&how, RESOLVE_AT) | RESOLVE_NO_MAGICLINKS;
    set(&mut how, RESOLVE_AT, resolve);
    linux_call(
        libc::SYS_openat2,
        &[at, name, how.as_ptr() as u64, how.len() as u64],
    )
}

/// Opens a file behind magic links.
fn followed(rank: &Rank, opening: &Opening<'_>) -> Result<i64, Errno> {
    let how = &opening.how;
    let found = find(rank, opening.at, opening.path, word(how, FLAGS_AT))?;
    let (directory, mut name) = (fds::raw(&found.directory), found.name);
    name.push(0);
    let name = name.as_ptr() as u64;
    Ok(if found.magic {
        linux_call(
            libc::SYS_openat,
            &[directory, name, word(how, FLAGS_AT), word(how, MODE_AT)],
        )
    } else {
        without_magic(directory, name, how)
    })
}

/// Follows a path with room for descriptors; the directory found lies above the rank's.
pub fn find(rank: &Rank, at: u64, path: &[u8], flags: u64) -> Result<Found, Errno> {
    let flags = flags as i32;
    let follow = flags & libc::O_NOFOLLOW == 0 && flags & NEW != NEW;
    rank.limits().with_room(|| {
        let found = walk(rank, start(at)?, path, follow)?;
        Ok(Found {
            directory: rank.limits().above(found.directory),
            ..found
        })
    })
}

/// The directory that a relative path begins in.
fn start<'a>(at: u64) -> Result<BorrowedFd<'a>, Errno> {
    match at as i32 {
        libc::AT_FDCWD => Ok(CWD),
        // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open. `prepare` has made
        // sure that it is not the proxy's.
        fd @ 0.. => Ok(unsafe { BorrowedFd::borrow_raw(fd) }),
        _ => Err(Errno::EBADF),
    }
}

/// Makes one of the calls of this module.
pub fn linux_call(nr: i64, args: &[u64; 4]) -> i64 {
    let [a, b, c, d] = *args;
    // SAFETY: 1. openat, openat2 and truncate write no memory. 2. What they read is a private copy or clamped by `prepare`.
    unsafe { stub::syscall(nr as u64, &[a, b, c, d, 0, 0]) }
}
