//! What calls do to entries of the trees: those that read answer for the node, those that would change something get EROFS.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;

use abi::Errno;
use abi::syscall::Call;
use rustix::fs::{readlink, stat as linux_stat};

use super::here::go;
use super::node::facts;
use super::tree::{Dir, Entry};
use super::{list, stat};
use crate::errno::linux;
use crate::memory::RankMemory;
use crate::rank::Rank;
use crate::special::open::how::{NEW, TEMPORARY, flags as open_flags, is_open, writes};
use crate::special::text;
use crate::stub;

/// How a call uses its path.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Flags of an open; 0 for other calls.
    flags: i32,
    opens: bool,
    creates: bool,
    /// Whether a final link is followed.
    pub follow: bool,
    /// Where the path may not lead: RESOLVE_* of openat2(2).
    pub resolve: u64,
}

impl How {
    /// How a call uses its path.
    ///
    /// # Errors
    /// EFAULT, EINVAL for the structure of openat2.
    pub fn of(rank: &Rank, call: &Call, args: &[u64; 6]) -> Result<How, Errno> {
        let number = i64::from(call.nr);
        if is_open(call.nr) {
            let (flags, resolve) = open_flags(rank, call, args)?;
            return Ok(How {
                flags,
                opens: true,
                creates: flags & libc::O_CREAT != 0,
                follow: flags & libc::O_NOFOLLOW == 0 && flags & NEW != NEW,
                resolve,
            });
        }
        let flags = match number {
            libc::SYS_newfstatat
            | libc::SYS_utimensat
            | libc::SYS_faccessat2
            | libc::SYS_fchmodat2 => args[3],
            libc::SYS_statx => args[2],
            libc::SYS_fchownat => args[4],
            _ => 0,
        };
        let creates = matches!(
            number,
            libc::SYS_mkdir
                | libc::SYS_mkdirat
                | libc::SYS_mknod
                | libc::SYS_mknodat
                | libc::SYS_symlink
                | libc::SYS_symlinkat
                | libc::SYS_link
                | libc::SYS_linkat
        );
        let takes_link = matches!(
            number,
            libc::SYS_lstat
                | libc::SYS_readlink
                | libc::SYS_readlinkat
                | libc::SYS_lchown
                | libc::SYS_unlink
                | libc::SYS_unlinkat
                | libc::SYS_rmdir
                | libc::SYS_rename
                | libc::SYS_renameat
                | libc::SYS_renameat2
                | libc::SYS_lgetxattr
                | libc::SYS_llistxattr
                | libc::SYS_lsetxattr
                | libc::SYS_lremovexattr
        );
        Ok(How {
            flags: 0,
            opens: false,
            creates,
            follow: !creates && !takes_link && flags & libc::AT_SYMLINK_NOFOLLOW as u64 == 0,
            resolve: 0,
        })
    }

    /// The error for a name that does not exist.
    pub fn missing(&self) -> Errno {
        if self.creates {
            Errno::EROFS
        } else {
            Errno::ENOENT
        }
    }
}

/// Carries out a call about an entry that its path leads to.
///
/// # Errors
/// As for a sysfs that is mounted read-only.
pub fn carry_out(
    rank: &Rank,
    call: &Call,
    args: &[u64; 6],
    at: usize,
    how: &How,
    path: &str,
    entry: &Entry,
) -> Result<i64, Errno> {
    if how.opens {
        return opened(rank, how.flags, path, entry);
    }
    match i64::from(call.nr) {
        _ if how.creates => Err(Errno::EEXIST),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_newfstatat => {
            stat::stat(rank, args[at + 1], path, entry)
        }
        libc::SYS_statx => stat::statx(rank, args[2], args[3], args[4], path, entry),
        libc::SYS_access | libc::SYS_faccessat | libc::SYS_faccessat2 => {
            access(args[at + 1], entry)
        }
        libc::SYS_readlink | libc::SYS_readlinkat => match entry {
            Entry::Link(text) => give(rank, args[at + 1], args[at + 2], text.as_bytes()),
            _ => Err(Errno::EINVAL),
        },
        libc::SYS_chdir => change_directory(entry),
        libc::SYS_statfs => about_system(call.nr.into(), args, at),
        libc::SYS_getxattr | libc::SYS_lgetxattr => Err(Errno::ENODATA),
        libc::SYS_listxattr | libc::SYS_llistxattr => Ok(0),
        libc::SYS_inotify_add_watch | libc::SYS_name_to_handle_at => {
            about_system(call.nr.into(), args, at)
        }
        _ => Err(Errno::EROFS),
    }
}

/// Carries out a call about an open entry; `None`: Linux does, with the text that stands for it. `nameless`: its path is empty.
///
/// # Errors
/// As [`carry_out`].
pub fn of_open(
    rank: &Rank,
    call: &Call,
    args: &[u64; 6],
    nameless: bool,
    path: &str,
    entry: &Entry,
) -> Result<Option<i64>, Errno> {
    let number = i64::from(call.nr);
    let itself = |flags: u64| nameless && flags & libc::AT_EMPTY_PATH as u64 != 0;
    let done = match (number, entry) {
        (libc::SYS_fstat, _) => stat::stat(rank, args[1], path, entry)?,
        (libc::SYS_newfstatat, _) if itself(args[3]) => stat::stat(rank, args[2], path, entry)?,
        (libc::SYS_statx, _) if itself(args[2]) => {
            stat::statx(rank, args[2], args[3], args[4], path, entry)?
        }
        (libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_fsetxattr | libc::SYS_fremovexattr, _) => {
            return Err(Errno::EROFS);
        }
        (libc::SYS_fstatfs, _) => about_system(libc::SYS_statfs, args, 0)?,
        (libc::SYS_getdents | libc::SYS_getdents64, Entry::Directory(dir)) => {
            let old = number == libc::SYS_getdents;
            list::list(rank, args[0], args[1], args[2], *dir, old)?
        }
        (libc::SYS_fchdir, _) => change_directory(entry)?,
        (
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2,
            Entry::Directory(_),
        ) => return Err(Errno::EISDIR),
        _ => return Ok(None),
    };
    Ok(Some(done))
}

/// Opens an entry.
fn opened(rank: &Rank, flags: i32, path: &str, entry: &Entry) -> Result<i64, Errno> {
    may_open(flags, entry)?;
    let made = text::create(rank, &format!("sys{path}"), flags)?;
    Ok(text::give(rank, &made, flags))
}

fn may_open(flags: i32, entry: &Entry) -> Result<(), Errno> {
    let changes = writes(flags) || flags & libc::O_TRUNC != 0;
    match entry {
        _ if flags & libc::O_PATH != 0 => {}
        _ if flags & NEW == NEW => return Err(Errno::EEXIST),
        Entry::Link(_) => return Err(Errno::ELOOP),
        Entry::Directory(_) if flags & TEMPORARY != 0 => return Err(Errno::EROFS),
        Entry::Directory(_) if changes || flags & libc::O_CREAT != 0 => return Err(Errno::EISDIR),
        Entry::File(_) if flags & libc::O_DIRECTORY == 0 && changes => return Err(Errno::EROFS),
        _ => {}
    }
    if flags & libc::O_DIRECTORY != 0 && !matches!(entry, Entry::Directory(_)) {
        return Err(Errno::ENOTDIR);
    }
    Ok(())
}

fn access(mode: u64, entry: &Entry) -> Result<i64, Errno> {
    match mode as i32 {
        mode if mode & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 => Err(Errno::EINVAL),
        mode if mode & libc::W_OK != 0 => Err(Errno::EROFS),
        mode if mode & libc::X_OK != 0 && matches!(entry, Entry::File(_)) => Err(Errno::EACCES),
        _ => Ok(0),
    }
}

/// Writes as much of a link's text as there is room for.
fn give(rank: &Rank, to: u64, room: u64, text: &[u8]) -> Result<i64, Errno> {
    let room = room as i32;
    if room <= 0 {
        return Err(Errno::EINVAL);
    }
    let text = &text[..text.len().min(room as usize)];
    rank.write(to, text)?;
    Ok(text.len() as i64)
}

/// Enters a directory. For Linux the rank is then in the one that the tree hangs in.
fn change_directory(entry: &Entry) -> Result<i64, Errno> {
    let Entry::Directory(dir) = entry else {
        return Err(Errno::ENOTDIR);
    };
    let path = format!("/sys{}", dir.path());
    let above = match path.starts_with("/sys/bus") {
        true => "/sys/bus",
        false => "/sys/devices/system",
    };
    rustix::process::chdir(above).map_err(linux)?;
    go(Some(*dir));
    Ok(0)
}

/// Carries out getcwd(2) in a directory of a tree.
///
/// # Errors
/// ERANGE, EFAULT.
pub fn getcwd(rank: &Rank, args: &[u64; 6], dir: Dir) -> Result<i64, Errno> {
    let path = format!("/sys{}\0", dir.path());
    if args[1] < path.len() as u64 {
        return Err(Errno::ERANGE);
    }
    rank.write(args[0], path.as_bytes())?;
    Ok(path.len() as i64)
}

/// Makes a call about the directory that the trees hang in, in place of an entry.
fn about_system(nr: i64, args: &[u64; 6], at: usize) -> Result<i64, Errno> {
    let mut args = *args;
    args[at] = stat::LIKE.as_ptr() as u64;
    if at > 0 && nr != libc::SYS_inotify_add_watch {
        args[at - 1] = libc::AT_FDCWD as u64;
    }
    // SAFETY: 1. The rank could make this call itself: `prepare` has clamped what Linux writes through. 2. What is replaced is
    // the path, a string that lives as long as the program.
    let ret = unsafe { stub::syscall(nr as u64, &args) };
    Errno::check(ret)
}

/// What a tree has in place of what Linux opened of the host's; `None` for other files.
///
/// # Errors
/// ENOENT for what the node does not have, EROFS.
pub fn instead(
    rank: &Rank,
    file: &OwnedFd,
    device: u64,
    flags: i32,
) -> Result<Option<OwnedFd>, Errno> {
    static DEVICE: OnceLock<Option<u64>> = OnceLock::new();
    let sysfs = DEVICE.get_or_init(|| linux_stat(stat::LIKE).ok().map(|stat| stat.st_dev));
    if *sysfs != Some(device) {
        return Ok(None);
    }
    let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
    let path = path.ok().and_then(|path| path.into_string().ok());
    let Some(path) = path.as_deref().and_then(|path| path.strip_prefix("/sys")) else {
        return Ok(None);
    };
    let below = |root: &Dir| {
        let rest = path.strip_prefix(root.path().as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if !Dir::ROOTS.iter().any(below) {
        return Ok(None);
    }
    let entry = facts(rank).find(path).ok_or(Errno::ENOENT)?;
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL);
    may_open(flags, &entry)?;
    text::create(rank, &format!("sys{path}"), flags).map(Some)
}
