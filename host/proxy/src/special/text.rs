//! Texts of a procfs and of a sysfs as files that are open.
//!
//! A text is a memfd that is open for reading only. It is written anew whenever it is read from its beginning, as a file of
//! a procfs is, and says that it has no size. The rank's descriptors of texts are marked, so that others cost a test of a
//! bit; a mark may be stale, so the file's name is read as well.

use std::fs::File as Stream;
use std::io::Write as _;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use abi::Errno;
use abi::syscall::Call;
use rustix::fs::{MemfdFlags, Mode, OFlags, SeekFrom, fchmod, memfd_create, open, readlink, seek};
use rustix::io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::content::File;
use super::open::how::writes;
use super::sys::node;
use crate::errno::linux;
use crate::fds;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::stub;

/// What stands before a memfd's name, as a link in /proc shows it.
const LINK: &str = "/memfd:";
const LINK_END: &str = " (deleted)";
/// What the names of files of a procfs begin with, and of a sysfs.
pub const PROC: &str = "proc/";
const SYS: &str = "sys/";
/// Offsets of st_size and st_blocks in struct stat, of stx_size and stx_blocks in struct statx (uapi/asm/stat.h,
/// uapi/linux/stat.h).
const STAT_SIZES: [u64; 2] = [48, 64];
const STATX_SIZES: [u64; 2] = [40, 48];

/// Makes the text of a file, named by its path without the first slash, open for reading at its beginning, or without access
/// if the flags say so. It lies above the rank's descriptors, out of the way of the number that the rank is to get.
///
/// # Errors
/// EMFILE, ENFILE, ENOMEM.
pub fn create(rank: &Rank, name: &str, flags: i32) -> Result<OwnedFd, Errno> {
    let how = match flags & libc::O_PATH {
        0 => OFlags::RDONLY,
        _ => OFlags::PATH,
    };
    let made = rank.limits().with_room(|| -> io::Result<_> {
        let made = memfd_create(name, MemfdFlags::CLOEXEC)?;
        write(&made, &content(rank, name).unwrap_or_default())?;
        fchmod(&made, mode(name))?;
        let made = reopen(made.as_raw_fd(), how)?;
        Ok(rank.limits().above(made))
    });
    made.map_err(linux)
}

/// The permissions of a file: what might show others too much is its owner's to read, as on Linux.
fn mode(name: &str) -> Mode {
    let owners = name.starts_with(PROC) && (name.ends_with("/auxv") || name.ends_with("/environ"));
    Mode::from_raw_mode(if owners { 0o400 } else { 0o444 })
}

/// The text of the same name anew, if an open file is a text (behind a link of /proc/self/fd): `None` for others. A process
/// with the first one open for writing could put anything into it.
///
/// # Errors
/// EACCES, and those of [`create`].
pub fn again(rank: &Rank, file: &OwnedFd, flags: i32) -> Result<Option<OwnedFd>, Errno> {
    let Some(name) = linked(fds::raw(file)).filter(|name| content(rank, name).is_some()) else {
        return Ok(None);
    };
    if flags & libc::O_PATH == 0 && writes(flags) {
        return Err(Errno::EACCES);
    }
    create(rank, &name, flags).map(Some)
}

/// What a call cannot do to a text, as it cannot to a file of a procfs. A lease would be broken by its writer, the proxy.
pub fn denied(rank: &Rank, call: &Call, args: &[u64; 6]) -> Option<Errno> {
    let errno = match i64::from(call.nr) {
        libc::SYS_fchmod => Errno::EPERM,
        libc::SYS_fcntl if args[1] as i32 == libc::F_SETLEASE => Errno::EAGAIN,
        _ => return None,
    };
    name(rank, args[0]).map(|_| errno)
}

/// Gives the rank a text: its lowest free number, or an error.
pub fn give(rank: &Rank, text: &OwnedFd, flags: i32) -> i64 {
    let command = match flags & libc::O_CLOEXEC {
        0 => libc::F_DUPFD,
        _ => libc::F_DUPFD_CLOEXEC,
    };
    let args = [fds::raw(text), command as u64, 0, 0, 0, 0];
    // SAFETY: 1. fcntl of this kind touches no memory.
    let ret = unsafe { stub::syscall(libc::SYS_fcntl as u64, &args) };
    if ret >= 0 {
        rank.texts().set(ret as u64);
    }
    ret
}

/// Puts a text in the place of a file that the rank is to get.
///
/// # Errors
/// What dup3(2) says.
pub fn replace(rank: &Rank, text: &OwnedFd, file: &OwnedFd, flags: i32) -> Result<(), Errno> {
    let close_on_exec = (flags & libc::O_CLOEXEC) as u64;
    let args = [fds::raw(text), fds::raw(file), close_on_exec, 0, 0, 0];
    // SAFETY: 1. dup3 touches no memory. 2. The number is open for the rank and for nothing else.
    let ret = unsafe { stub::syscall(libc::SYS_dup3 as u64, &args) };
    rank.texts().set(fds::raw(file));
    Errno::check(ret).map(drop)
}

/// What the file of a name says now; `None` for a name of no text.
fn content(rank: &Rank, name: &str) -> Option<Vec<u8>> {
    match name.strip_prefix(PROC) {
        Some(path) => File::of_path(path).map(|(file, thread)| file.text(rank, thread)),
        None => node::text(rank, name.strip_prefix("sys")?),
    }
}

/// Writes a text anew if the call reads one from its beginning.
pub fn refresh(rank: &Rank, call: &Call, args: &[u64; 6]) {
    let offset = match i64::from(call.nr) {
        libc::SYS_read | libc::SYS_readv => None,
        libc::SYS_pread64 | libc::SYS_preadv => Some(args[3]),
        libc::SYS_preadv2 => Some(args[3]).filter(|offset| *offset != u64::MAX),
        _ => return,
    };
    let Some(name) = name(rank, args[0]) else {
        return;
    };
    // SAFETY: 1. The number is open (its name was read) and only used for this call.
    let fd = unsafe { BorrowedFd::borrow_raw(args[0] as i32) };
    if offset.or_else(|| seek(fd, SeekFrom::Current(0)).ok()) != Some(0) {
        return;
    }
    let _turn = fds::turn();
    // What cannot be written anew stays as it is.
    let Some(text) = content(rank, &name) else {
        return;
    };
    let _ = rank.limits().with_room(|| {
        // For this moment its user may write it; the rank's other threads cannot open it so (`again`).
        fchmod(fd, mode(&name) | Mode::WUSR)?;
        let stream = reopen(fd.as_raw_fd(), OFlags::WRONLY | OFlags::TRUNC);
        fchmod(fd, mode(&name))?;
        write(&stream?, &text)
    });
}

/// Completes a call that has succeeded: what it says of a text's size, or another descriptor of it.
///
/// # Errors
/// EFAULT.
pub fn complete(rank: &Rank, call: &Call, args: &[u64; 6], ret: i64) -> Result<(), Errno> {
    let empty_path = |flags: u64| flags & libc::AT_EMPTY_PATH as u64 != 0;
    let (to, offsets) = match i64::from(call.nr) {
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 | libc::SYS_fcntl
            if rank.texts().has(args[0]) && ret >= 0 =>
        {
            rank.texts().set(ret as u64); // of fcntl also what is no descriptor: a mark may be stale
            return Ok(());
        }
        libc::SYS_fstat => (args[1], STAT_SIZES),
        libc::SYS_newfstatat if empty_path(args[3]) => (args[2], STAT_SIZES),
        libc::SYS_statx if empty_path(args[2]) => (args[4], STATX_SIZES),
        _ => return Ok(()),
    };
    if ret != 0 || name(rank, args[0]).is_none_or(|name| !name.starts_with(PROC)) {
        return Ok(());
    }
    let nothing = 0u64.to_ne_bytes();
    offsets
        .into_iter()
        .try_for_each(|offset| rank.write(to + offset, &nothing))
}

/// The name of the text that a descriptor of the rank is: its path without the first slash.
pub fn name(rank: &Rank, fd: u64) -> Option<String> {
    if !rank.texts().has(fd) {
        return None;
    }
    // The number may have been closed since, and be a memfd of the program's own.
    linked(fd).filter(|name| match name.strip_prefix(PROC) {
        Some(path) => File::of_path(path).is_some(),
        None => name.starts_with(SYS),
    })
}

/// The file of the process or of the procfs that a text's name is of.
pub fn file(name: &str) -> Option<File> {
    File::of_path(name.strip_prefix(PROC)?).map(|(file, _)| file)
}

/// The name of the memfd that a descriptor is.
fn linked(fd: u64) -> Option<String> {
    let link = readlink(format!("/proc/self/fd/{}", fd as u32), Vec::new()).ok()?;
    let name = link.to_str().ok()?.strip_prefix(LINK)?;
    name.strip_suffix(LINK_END).map(str::to_owned)
}

fn reopen(fd: i32, how: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{fd}");
    open(path, how | OFlags::CLOEXEC, Mode::empty())
}

/// Writes a text. What Linux shows in /proc is not limited (RLIMIT_FSIZE), and its file here is not either: the proxy raises the
/// limit for this moment, in which another thread of the rank may write beyond it. To be called while the rank sets none
/// ([`fds::turn`]).
fn write(to: &OwnedFd, text: &[u8]) -> io::Result<()> {
    let was = getrlimit(Resource::Fsize);
    if was.current.is_some() {
        let room = Rlimit {
            current: was.maximum,
            maximum: was.maximum,
        };
        let _ = setrlimit(Resource::Fsize, room);
    }
    let written = to
        .try_clone()
        .and_then(|to| Stream::from(to).write_all(text));
    if was.current.is_some() {
        let _ = setrlimit(Resource::Fsize, was);
    }
    written.map_err(|error| io::Errno::from_io_error(&error).unwrap_or(io::Errno::IO))
}
