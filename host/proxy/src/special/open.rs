//! Opening files for the rank.
//!
//! However a path is spelled and through whatever links it leads: what counts is the object that it ends at. Linux opens
//! it, but is not let through the magic links of a procfs (those are followed in `walk`), and what it opened is checked
//! before the rank gets it; where other threads of the rank could guess its number, before it is open (`pinned`).

mod check;
pub mod how;
mod pinned;
mod reach;

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use abi::Errno;
use abi::syscall::Call;
use rustix::fs::{Mode, OFlags, openat};

use super::place::Place;
use super::text;
use crate::errno::linux;
use crate::fds;
use crate::memory::RankMemory;
use crate::rank::Rank;
use check::{check, text_at};
use how::{HOW_BYTES, MOST_HOW_BYTES, RESOLVE_AT, how, word};
use reach::{Opening, find, linux_call, owned, reach, without_magic};

/// Carries out one; `path` is the private copy of what `args` name.
pub fn open(rank: &Rank, call: &Call, args: &[u64; 6], path: &[u8]) -> i64 {
    let (at, flags, mode) = match i64::from(call.nr) {
        libc::SYS_open => (libc::AT_FDCWD as u64, args[1], args[2]),
        libc::SYS_creat => {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            (libc::AT_FDCWD as u64, flags as u64, args[1])
        }
        libc::SYS_openat => (args[0], args[2], args[3]),
        _ => return open2(rank, args, path),
    };
    let name = args[usize::from(i64::from(call.nr) == libc::SYS_openat)];
    let (how, restricted) = (how(flags, mode), false);
    opened(
        rank,
        &Opening {
            at,
            name,
            path,
            how,
            restricted,
        },
    )
}

/// openat2(2), whose `open_how` is the rank's.
fn open2(rank: &Rank, args: &[u64; 6], path: &[u8]) -> i64 {
    let [at, name, from, len_bytes, ..] = *args;
    let mut how = vec![0; len_bytes.clamp(HOW_BYTES as u64, MOST_HOW_BYTES) as usize];
    if how.len() as u64 != len_bytes || rank.read(from, &mut how).is_err() {
        return linux_call(libc::SYS_openat2, &[at, name, from, len_bytes]); // it says what is wrong with that
    }
    let restricted = word(&how, RESOLVE_AT) != 0;
    opened(
        rank,
        &Opening {
            at,
            name,
            path,
            how,
            restricted,
        },
    )
}

/// Opens what a path leads to.
fn opened(rank: &Rank, opening: &Opening<'_>) -> i64 {
    let flags = opening.flags();
    if pinned::is_due(rank, flags) {
        return pinned::open(rank, opening).unwrap_or_else(Errno::ret);
    }
    // What cannot be had is closed again. A thread that is alone may be kept waiting, but no other is in its way.
    let _turn = (rank.workers().all().len() > 1).then(fds::turn);
    let file = match owned(reach(rank, opening)) {
        Ok(file) => file,
        Err(Errno::EACCES) => return unreadable(rank, opening),
        Err(errno) => return errno.ret(),
    };
    let seen = check(rank, &file, flags).and_then(|text| match text {
        Some(text) => text::replace(rank, &text, &file, flags),
        None => Ok(()),
    });
    if let Err(errno) = seen {
        return errno.ret();
    }
    fds::give(file)
}

/// Files of the rank that Linux keeps from it, since the proxy is not to be traced: those whose text is made here.
fn unreadable(rank: &Rank, opening: &Opening<'_>) -> i64 {
    let flags = opening.flags();
    let without_access = how((libc::O_PATH | flags & libc::O_NOFOLLOW) as u64, 0);
    let Ok(file) = owned(reach(rank, &opening.otherwise(without_access))) else {
        return Errno::EACCES.ret();
    };
    let place = Place::of(rank, &file).filter(|_| flags & libc::O_TRUNC == 0);
    let text = place.and_then(|place| text_at(rank, &place, flags).transpose());
    drop(file); // its number is the one that the rank gets
    match text {
        Some(Ok(text)) => text::give(rank, &text, flags),
        _ => Errno::EACCES.ret(),
    }
}

/// Carries out truncate(2): of what the path was seen to lead to, and nothing else. Through a magic link it would reach
/// files that have no path, such as a node's memory.
pub fn truncate(rank: &Rank, len_bytes: u64, path: &[u8]) -> i64 {
    let pinned = match pin(rank, libc::AT_FDCWD as u64, path, 0) {
        Ok(pinned) => pinned,
        Err(errno) => return errno.ret(),
    };
    let path = format!("/proc/self/fd/{}\0", pinned.as_raw_fd());
    linux_call(libc::SYS_truncate, &[path.as_ptr() as u64, len_bytes, 0, 0])
}

/// Opens what a path leads to without access, so that it cannot be another thing later; a final link only if `flags` have
/// O_NOFOLLOW. It lies above the rank's descriptors.
///
/// # Errors
/// As open(2), but for what concerns access; those of [`Place::link`].
pub fn pin(rank: &Rank, at: u64, path: &[u8], flags: u64) -> Result<OwnedFd, Errno> {
    let at = if path.starts_with(b"/") {
        libc::AT_FDCWD as u64
    } else {
        at
    };
    rank.limits().with_room(|| {
        let how = how(libc::O_PATH as u64 | flags & libc::O_NOFOLLOW as u64, 0);
        let name = CString::new(path).map_err(|_| Errno::EINVAL)?;
        let pinned = match owned(without_magic(at, name.as_ptr().addr() as u64, &how)) {
            Err(Errno::ELOOP) => pin_behind_links(rank, at, path, flags)?,
            pinned => pinned?,
        };
        Ok(rank.limits().above(pinned))
    })
}

fn pin_behind_links(rank: &Rank, at: u64, path: &[u8], flags: u64) -> Result<OwnedFd, Errno> {
    let found = find(rank, at, path, flags)?;
    let follow = if found.magic {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC | follow;
    openat(&found.directory, &found.name[..], flags, Mode::empty()).map_err(linux)
}
