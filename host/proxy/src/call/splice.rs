//! vmsplice(2): bytes are copied. By it Linux would put the rank's pages into the pipe, where they would be another's when the rank
//! has given them back.
//!
//! To a pipe it moves what there is room for, and waits only until there is some.

use std::os::fd::BorrowedFd;

use abi::Errno;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};

use super::make::linux;
use crate::errno;

/// uapi/linux/fcntl.h: SPLICE_F_MOVE, _NONBLOCK, _MORE, _GIFT.
const NONBLOCK: u64 = 2;
const KNOWN: u64 = 15;
/// uapi/linux/fs.h
const RWF_NOWAIT: u64 = 8;
/// The position of what has none.
const HERE: u64 = u64::MAX;

/// Carries out a call whose arguments have been prepared.
///
/// # Errors
/// As vmsplice(2).
pub fn carry_out(args: &[u64; 6]) -> Result<i64, Errno> {
    let [fd, vectors, count, flags, ..] = *args;
    if flags & u64::from(u32::MAX) & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if (fd as i32) < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: 1. It is only used for calls that say EBADF when it is not open. 2. It is none of the proxy's own: `prepare` has made
    // sure.
    let pipe = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    let stat = fstat(pipe).map_err(errno::linux)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
        return Err(Errno::EBADF);
    }
    let mode = fcntl_getfl(pipe).map_err(errno::linux)? & OFlags::ACCMODE;
    let (nr, ready) = match mode {
        OFlags::RDONLY => (libc::SYS_preadv2, PollFlags::IN),
        _ => (libc::SYS_pwritev2, PollFlags::OUT),
    };
    loop {
        // HERE in both halves of a position.
        let moved = linux(nr as u16, &[fd, vectors, count, HERE, HERE, RWF_NOWAIT]);
        if moved != Errno::EAGAIN.ret() || flags & NONBLOCK != 0 {
            return Ok(moved);
        }
        poll(&mut [PollFd::new(&pipe, ready)], None).map_err(errno::linux)?;
    }
}
