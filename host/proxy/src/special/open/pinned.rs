//! Opening files for a rank of several threads.
//!
//! A descriptor is there for all threads as soon as Linux has made it, and its number is easy to guess. So nothing may be open
//! before it was checked. What a path leads to is opened without access first (O_PATH), by which nothing can be read or
//! written, and checked. Then Linux opens that very object, by its link in /proc/self/fd, with the access that was requested.
//! A file that does not exist yet is only made new (O_EXCL): that it is harmless is known.
//!
//! What differs: F_GETFL does not show O_NOFOLLOW, and Linux's protection of others' files in directories like /tmp
//! (fs.protected_regular), which depends on O_CREAT, is not applied.

use std::os::fd::{AsRawFd, OwnedFd};

use abi::Errno;
use rustix::fs::{FileType, fstat};

use super::check::check;
use super::how::{FLAGS_AT, MODE_AT, NEW, TEMPORARY, set, word};
use super::reach::{Opening, find, linux_call, owned, reach, without_magic};
use crate::errno::linux;
use crate::fds;
use crate::rank::Rank;
use crate::special::text;

/// How often a file may come and go between two checks; Linux itself gives up on names that change for ever.
const TRIES: usize = 100;

/// Whether an open with these flags could be made use of by another thread before it was checked. Without a second worker
/// there is no other thread, and none can begin before the call has ended.
pub fn is_due(rank: &Rank, flags: i32) -> bool {
    let harmless = flags & (libc::O_PATH | TEMPORARY) != 0 || flags & NEW == NEW;
    !harmless && rank.workers().all().len() > 1
}

/// Opens what a path leads to.
///
/// # Errors
/// Those of open(2); ELOOP for a path that leads elsewhere each time.
pub fn open(rank: &Rank, opening: &Opening<'_>) -> Result<i64, Errno> {
    let how = &opening.how;
    // With a structure that it does not like Linux does not come as far as the missing path.
    let liked = linux_call(
        libc::SYS_openat2,
        &[opening.at, 0, how.as_ptr() as u64, how.len() as u64],
    );
    if liked != Errno::EFAULT.ret() {
        return Ok(liked);
    }
    let flags = opening.flags();
    for _ in 0..TRIES {
        match pin(rank, opening) {
            Ok(object) => return open_object(rank, &object, flags),
            Err(Errno::ENOENT) if flags & libc::O_CREAT != 0 => {}
            Err(errno) => return Err(errno),
        }
        match create(rank, opening) {
            Err(Errno::EEXIST) => {}
            done => return done,
        }
    }
    Err(Errno::ELOOP)
}

/// Opens what is there without access, above the rank's descriptors.
fn pin(rank: &Rank, opening: &Opening<'_>) -> Result<OwnedFd, Errno> {
    const KEPT: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let flags = opening.flags() & KEPT | libc::O_PATH | libc::O_CLOEXEC;
    let mut without_access = opening.how.clone();
    set(&mut without_access, FLAGS_AT, flags as u64);
    set(&mut without_access, MODE_AT, 0);
    let _turn = fds::turn();
    let low = owned(reach(rank, &opening.otherwise(without_access)))?;
    Ok(rank.limits().with_room(|| rank.limits().above(low)))
}

/// Makes the file.
fn create(rank: &Rank, opening: &Opening<'_>) -> Result<i64, Errno> {
    let flags = word(&opening.how, FLAGS_AT);
    let mut new = opening.how.clone();
    set(&mut new, FLAGS_AT, flags | libc::O_EXCL as u64);
    let made = Errno::check(without_magic(opening.at, opening.name, &new));
    let behind_link = matches!(made, Err(Errno::EEXIST | Errno::ELOOP));
    if !behind_link || opening.restricted {
        return made;
    }
    // A link that leads to nothing is followed, unlike with O_EXCL.
    let found = find(rank, opening.at, opening.path, flags)?;
    if found.magic {
        return Err(Errno::EEXIST);
    }
    let mut name = found.name;
    name.push(0);
    let name = name.as_ptr() as u64;
    Errno::check(without_magic(fds::raw(&found.directory), name, &new))
}

/// Opens what was checked.
fn open_object(rank: &Rank, object: &OwnedFd, flags: i32) -> Result<i64, Errno> {
    let stat = fstat(object).map_err(linux)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => return Err(Errno::ELOOP),
        FileType::Directory if flags & libc::O_CREAT != 0 => return Err(Errno::EISDIR),
        _ => {}
    }
    if let Some(text) = check(rank, object, flags)? {
        return Errno::check(text::give(rank, &text, flags));
    }
    let path = format!("/proc/self/fd/{}\0", object.as_raw_fd());
    let flags = flags & !(libc::O_CREAT | libc::O_NOFOLLOW);
    let at = libc::AT_FDCWD as u64;
    let args = [at, path.as_ptr() as u64, flags as u64, 0];
    Errno::check(linux_call(libc::SYS_openat, &args))
}
