//! Opening files for a rank of several threads.
//!
//! A descriptor is there for all threads as soon as Linux has made it, and its number is easy to guess. So nothing may be open
//! before it was looked at. What a path leads to is opened without access first (O_PATH), by which nothing can be read or
//! written, and looked at. Then Linux opens that very object, by its link in /proc/self/fd, with the access that was asked for.
//! A file that does not exist yet is only made new (O_EXCL): that it is harmless is known.
//!
//! What differs: F_GETFL does not show O_NOFOLLOW, and Linux's protection of others' files in directories like /tmp
//! (fs.protected_regular), which looks at O_CREAT, is not asked.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use abi::Errno;
use rustix::fs::{FileType, fstat};

use super::{FLAGS_AT, How, MODE_AT, find, linux_call, look, reach, set, without_magic, word};
use crate::fds;
use crate::rank::Rank;
use crate::special::text;
use crate::special::walk::linux;

/// How often a file may come and go between two looks; Linux itself gives up on names that change for ever.
const TRIES: usize = 100;
const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
const TEMPORARY: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Whether an open with these flags could be made use of by another thread before it was looked at. Without a second worker
/// there is no other thread, and none can begin before the call has ended.
pub fn is_due(rank: &Rank, flags: i32) -> bool {
    let harmless = flags & (libc::O_PATH | TEMPORARY) != 0 || flags & NEW == NEW;
    !harmless && rank.workers.all().len() > 1
}

/// Opens what a path leads to; the arguments are those of [`super::opened`].
///
/// # Errors
/// Those of open(2); ELOOP for a path that leads elsewhere each time.
pub fn open(
    rank: &Rank,
    at: u64,
    name: u64,
    path: &[u8],
    how: &How,
    restricted: bool,
) -> Result<i64, Errno> {
    // With a structure that it does not like Linux does not come as far as the missing path.
    let liked = linux_call(
        libc::SYS_openat2,
        &[at, 0, how.as_ptr() as u64, how.len() as u64],
    );
    if liked != Errno::EFAULT.ret() {
        return Ok(liked);
    }
    let flags = word(how, FLAGS_AT) as i32;
    for _ in 0..TRIES {
        match pin(rank, at, name, path, how, restricted) {
            Ok(object) => return open_object(rank, &object, flags),
            Err(Errno::ENOENT) if flags & libc::O_CREAT != 0 => {}
            Err(errno) => return Err(errno),
        }
        match create(rank, at, name, path, how, restricted) {
            Err(Errno::EEXIST) => {}
            done => return done,
        }
    }
    Err(Errno::ELOOP)
}

/// Opens what is there without access, above the rank's descriptors.
fn pin(
    rank: &Rank,
    at: u64,
    name: u64,
    path: &[u8],
    how: &How,
    restricted: bool,
) -> Result<OwnedFd, Errno> {
    const KEPT: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let flags = word(how, FLAGS_AT) as i32 & KEPT | libc::O_PATH | libc::O_CLOEXEC;
    let mut without_access = how.clone();
    set(&mut without_access, FLAGS_AT, flags as u64);
    set(&mut without_access, MODE_AT, 0);
    let low = owned(reach(rank, at, name, path, &without_access, restricted))?;
    Ok(fds::with_room(rank.raised_fds, || {
        fds::above(low, rank.first_own_fd)
    }))
}

/// Makes the file.
fn create(
    rank: &Rank,
    at: u64,
    name: u64,
    path: &[u8],
    how: &How,
    restricted: bool,
) -> Result<i64, Errno> {
    let mut new = how.clone();
    set(
        &mut new,
        FLAGS_AT,
        word(how, FLAGS_AT) | libc::O_EXCL as u64,
    );
    let ret = without_magic(at, name, &new);
    let behind_link = [Errno::EEXIST, Errno::ELOOP].map(Errno::ret).contains(&ret);
    if !behind_link || restricted {
        return result(ret);
    }
    // A link that leads to nothing is followed, unlike with O_EXCL.
    let found = find(rank, at, path, word(how, FLAGS_AT))?;
    if found.magic {
        return Err(Errno::EEXIST);
    }
    let mut name = found.name;
    name.push(0);
    let name = name.as_ptr() as u64;
    result(without_magic(fds::raw(&found.directory), name, &new))
}

/// Opens what was looked at.
fn open_object(rank: &Rank, object: &OwnedFd, flags: i32) -> Result<i64, Errno> {
    let stat = fstat(object).map_err(linux)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Directory if flags & libc::O_CREAT != 0 => return Err(Errno::EISDIR),
        _ => {}
    }
    if let Some(text) = look(rank, object, flags)? {
        return result(text::give(rank, &text, flags));
    }
    let path = format!("/proc/self/fd/{}\0", object.as_raw_fd());
    let flags = flags & !(libc::O_CREAT | libc::O_NOFOLLOW);
    let at = libc::AT_FDCWD as u64;
    result(linux_call(
        libc::SYS_openat,
        &[at, path.as_ptr() as u64, flags as u64, 0],
    ))
}

fn owned(ret: i64) -> Result<OwnedFd, Errno> {
    // SAFETY: 1. Linux has just made this descriptor; nobody else owns it.
    result(ret).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn result(ret: i64) -> Result<i64, Errno> {
    Errno::from_ret(ret).map_or(Ok(ret), Err)
}
