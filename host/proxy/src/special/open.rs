//! Opening files for the rank.
//!
//! However a path is spelled and through whatever links it leads: what counts is the object that it ends at. Linux opens
//! it, but is not let through the magic links of a procfs (those are followed in `walk`), and what it opened is looked at
//! before the rank gets it; where other threads of the rank could guess its number, before it is open (`pinned`).

mod pinned;

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use abi::Errno;
use abi::syscall::Call;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::device;
use super::place::Place;
use super::walk::{Found, walk};
use super::{content, give, sys, text};
use crate::call::coherent;
use crate::errno::linux;
use crate::fds;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::stub;

/// struct open_how (uapi/linux/openat2.h) in words: flags, mode, resolve. A longer one of the future ends in more.
type How = Vec<u8>;
const HOW_BYTES: usize = 24;
const FLAGS_AT: usize = 0;
const MODE_AT: usize = 8;
/// Most bytes of one (openat2(2), E2BIG).
const MOST_HOW_BYTES: u64 = 4096;
const RESOLVE_AT: usize = 16;
/// uapi/linux/openat2.h
const RESOLVE_NO_MAGICLINKS: u64 = 2;
/// With both of these flags what is opened did not exist before.
pub const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
/// O_TMPFILE's own bit.
pub const TEMPORARY: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// The bits that open(2) uses; it leaves out the others, which openat2(2) refuses (VALID_OPEN_FLAGS, include/linux/fcntl.h).
const KNOWN: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | LARGEFILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;
/// uapi/asm-generic/fcntl.h; the C library has it 0.
const LARGEFILE: i32 = 0o100_000;
/// What O_PATH lets stand beside it (O_PATH_FLAGS).
const WITH_PATH: i32 = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_PATH | libc::O_CLOEXEC;

/// What the rank is to open.
struct Asked<'a> {
    /// The directory that a relative path begins in.
    at: u64,
    /// Address of the path, for Linux.
    name: u64,
    /// The path.
    path: &'a [u8],
    how: How,
    /// The rank itself forbids some links.
    restricted: bool,
}

impl Asked<'_> {
    fn flags(&self) -> i32 {
        word(&self.how, FLAGS_AT) as i32
    }

    /// The same path, opened otherwise.
    fn otherwise(&self, how: How) -> Self {
        Asked { how, ..*self }
    }
}

/// Whether a call opens a file by its path.
pub fn is_open(nr: u16) -> bool {
    matches!(
        i64::from(nr),
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat
    )
}

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
        &Asked {
            at,
            name,
            path,
            how,
            restricted,
        },
    )
}

/// The flags of an open, and where the path may not lead (RESOLVE_* of openat2(2)).
///
/// # Errors
/// EFAULT, EINVAL.
pub fn flags(rank: &Rank, call: &Call, args: &[u64; 6]) -> Result<(i32, u64), Errno> {
    let flags = match i64::from(call.nr) {
        libc::SYS_open => args[1],
        libc::SYS_creat => (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64,
        libc::SYS_openat => args[2],
        _ if args[3] < HOW_BYTES as u64 => return Err(Errno::EINVAL),
        _ => {
            let mut how = [0; HOW_BYTES];
            rank.read(args[2], &mut how)?;
            return Ok((word(&how, FLAGS_AT) as i32, word(&how, RESOLVE_AT)));
        }
    };
    Ok((word(&how(flags, 0), 0) as i32, 0))
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
        &Asked {
            at,
            name,
            path,
            how,
            restricted,
        },
    )
}

/// What open(2) makes of its flags and mode.
fn how(flags: u64, mode: u64) -> How {
    const CREATES: i32 = libc::O_CREAT | TEMPORARY;
    let mut flags = flags as i32 & KNOWN;
    if flags & libc::O_PATH != 0 {
        flags &= WITH_PATH;
    }
    let mode = if flags & CREATES == 0 {
        0
    } else {
        mode & 0o7777
    };
    let words = [flags as u32 as u64, mode, 0];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(how: &[u8], at: usize) -> u64 {
    let bytes = how.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

fn set(how: &mut How, at: usize, word: u64) {
    if let Some(bytes) = how.get_mut(at..at + 8) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
}

/// Opens what a path leads to.
fn opened(rank: &Rank, asked: &Asked<'_>) -> i64 {
    let flags = asked.flags();
    if pinned::is_due(rank, flags) {
        return pinned::open(rank, asked).unwrap_or_else(Errno::ret);
    }
    // What cannot be had is closed again. A thread that is alone may be kept waiting, but no other is in its way.
    let _turn = (rank.workers.all().len() > 1).then(fds::turn);
    let file = match owned(reach(rank, asked)) {
        Ok(file) => file,
        Err(Errno::EACCES) => return unreadable(rank, asked),
        Err(errno) => return errno.ret(),
    };
    let seen = look(rank, &file, flags).and_then(|text| match text {
        Some(text) => text::replace(rank, &text, &file, flags),
        None => Ok(()),
    });
    if let Err(errno) = seen {
        return errno.ret();
    }
    if flags & libc::O_TRUNC != 0 {
        coherent::truncate(rank, file.as_fd(), 0, || 0);
    }
    give(file)
}

/// Opens what a path leads to, whatever it is; an empty path only as Linux does.
fn reach(rank: &Rank, asked: &Asked<'_>) -> i64 {
    let ret = without_magic(asked.at, asked.name, &asked.how);
    if ret == Errno::ELOOP.ret() && !asked.restricted && !asked.path.is_empty() {
        return followed(rank, asked).unwrap_or_else(Errno::ret);
    }
    ret
}

/// The descriptor that a call has just made.
fn owned(ret: i64) -> Result<OwnedFd, Errno> {
    let fd = Errno::check(ret)?;
    // SAFETY: 1. Every caller passes on what a call has just returned that opens; no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Files of the rank that Linux keeps from it, since the proxy is not to be traced: those whose text is made here.
fn unreadable(rank: &Rank, asked: &Asked<'_>) -> i64 {
    let flags = asked.flags();
    let without_access = how((libc::O_PATH | flags & libc::O_NOFOLLOW) as u64, 0);
    let Ok(file) = owned(reach(rank, &asked.otherwise(without_access))) else {
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

/// Opens a file that no magic link leads to; ELOOP for others.
fn without_magic(at: u64, name: u64, how: &How) -> i64 {
    let mut how = how.clone();
    let resolve = word(&how, RESOLVE_AT) | RESOLVE_NO_MAGICLINKS;
    set(&mut how, RESOLVE_AT, resolve);
    linux_call(
        libc::SYS_openat2,
        &[at, name, how.as_ptr() as u64, how.len() as u64],
    )
}

/// Opens a file behind magic links.
fn followed(rank: &Rank, asked: &Asked<'_>) -> Result<i64, Errno> {
    let how = &asked.how;
    let found = find(rank, asked.at, asked.path, word(how, FLAGS_AT))?;
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
fn find(rank: &Rank, at: u64, path: &[u8], flags: u64) -> Result<Found, Errno> {
    let flags = flags as i32;
    let follow = flags & libc::O_NOFOLLOW == 0 && flags & NEW != NEW;
    rank.limits.with_room(|| {
        let found = walk(rank, start(at)?, path, follow)?;
        Ok(Found {
            directory: rank.limits.above(found.directory),
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

/// Carries out truncate(2): of what the path was seen to lead to, and nothing else. Through a magic link it would reach
/// files that have no path, such as a node's memory.
pub fn truncate(rank: &Rank, len_bytes: u64, path: &[u8]) -> i64 {
    let pinned = match pin(rank, libc::AT_FDCWD as u64, path, 0) {
        Ok(pinned) => pinned,
        Err(errno) => return errno.ret(),
    };
    let path = format!("/proc/self/fd/{}\0", pinned.as_raw_fd());
    coherent::truncate(rank, pinned.as_fd(), len_bytes, || {
        linux_call(libc::SYS_truncate, &[path.as_ptr() as u64, len_bytes, 0, 0])
    })
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
    rank.limits.with_room(|| {
        let how = how(libc::O_PATH as u64 | flags & libc::O_NOFOLLOW as u64, 0);
        let name = CString::new(path).map_err(|_| Errno::EINVAL)?;
        let pinned = match owned(without_magic(at, name.as_ptr().addr() as u64, &how)) {
            Err(Errno::ELOOP) => pin_behind_links(rank, at, path, flags)?,
            pinned => pinned?,
        };
        Ok(rank.limits.above(pinned))
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

/// Looks at what was opened, whether the rank may have it; returns the text that the rank gets instead, if there is one.
fn look(rank: &Rank, file: &OwnedFd, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let stat = fstat(file).map_err(linux)?;
    let on_no_device = rustix::fs::major(stat.st_dev) == 0;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice if device::is_flat(stat.st_rdev) => Ok(None),
        FileType::CharacterDevice => Err(Errno::ENXIO),
        // A file without a name may be a text.
        FileType::RegularFile if on_no_device && stat.st_nlink == 0 => {
            text::again(rank, file, flags)
        }
        // Files of a procfs lie on no device and have no size.
        FileType::RegularFile if on_no_device && stat.st_size == 0 => in_proc(rank, file, flags),
        FileType::Symlink if on_no_device => in_proc(rank, file, flags),
        FileType::Directory if on_no_device => {
            if let Some(place) = Place::of(rank, file) {
                place.may_list()?;
            }
            sys::instead(rank, file, stat.st_dev, flags)
        }
        FileType::RegularFile | FileType::Directory => sys::instead(rank, file, stat.st_dev, flags),
        _ => Ok(None),
    }
}

fn in_proc(rank: &Rank, file: &OwnedFd, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let Some(place) = Place::of(rank, file) else {
        return Ok(None);
    };
    place.may_open(writes(flags), rank.limits.first_own_fd())?;
    text_at(rank, &place, flags)
}

pub const fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// The text that the rank has at a place where Linux has a file. It is there to be read only, also for root, whom Linux lets
/// open it for writing and then write nothing.
fn text_at(rank: &Rank, place: &Place, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let Some(file) = content::File::at(place).filter(|_| flags & libc::O_PATH == 0) else {
        return Ok(None);
    };
    match file {
        // The machine's, for all its processes: a user that may set it may.
        content::File::PtraceScope if writes(flags) => return Ok(None),
        _ if writes(flags) => return Err(Errno::EACCES),
        _ => {}
    }
    let name = format!("{}{}", text::PROC, file.path(place.thread));
    text::create(rank, &name, flags).map(Some)
}

/// Makes one of the calls of this module.
fn linux_call(nr: i64, args: &[u64; 4]) -> i64 {
    let [a, b, c, d] = *args;
    // SAFETY: 1. openat, openat2 and truncate write no memory. 2. What they read is a private copy or clamped by `prepare`.
    unsafe { stub::syscall(nr as u64, &[a, b, c, d, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_open_does() {
        let flags = |flags: i32| word(&how(flags as u64, 0o10644), 0) as i32;
        let mode = |flags: i32| word(&how(flags as u64, 0o10644), 8);
        assert_eq!(flags(1 << 30 | libc::O_RDWR), libc::O_RDWR);
        assert_eq!(flags(libc::O_PATH | libc::O_RDWR), libc::O_PATH);
        assert_eq!(mode(libc::O_RDWR), 0);
        assert_eq!(mode(libc::O_CREAT), 0o644);
        assert_eq!(mode(libc::O_TMPFILE), 0o644);
        assert_eq!(mode(libc::O_DIRECTORY), 0);
    }
}
