//! Files that speak of the process or of its memory: answered for the rank, not for its proxy or the host.
//!
//! A file that is opened is recognised by what it is (module `open`). For other calls a path is recognised by where it leads:
//! when its last component is one of a few names (a comparison that other paths cost nothing more than), the directory
//! before it is resolved and must be this process's own in a procfs. What is not answered here is Linux's answer about the
//! proxy, which has the rank's pid, credentials, descriptors and limits.

mod answer;
pub mod content;
mod device;
mod limits;
mod listing;
mod machine;
pub(crate) mod marks;
pub mod open;
mod path;
mod place;
mod query;
pub mod regions;
mod sizes;
mod sys;
mod text;
pub(crate) mod walk;
pub mod xpmem;

use std::os::fd::{AsRawFd, BorrowedFd};

use abi::Errno;
use abi::syscall::{Arg, Call};
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::call::args::Scratch;
use crate::call::make::linux;
use crate::memory::RankMemory;
use crate::rank::Rank;
use path::split;
use place::{Place, Whose};

pub use answer::Special;
pub use content::auxv;
pub use open::how::is_open;

/// A file that says something else about the proxy than about the rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    /// The program.
    Exe,
    /// A number that a descriptor of the proxy has, or a thread of it that the rank does not have.
    Own(u32),
}

/// A path that Linux does not follow (PATH_MAX, uapi/linux/limits.h).
static TOO_LONG: [u8; 4096] = [b'x'; 4096];

/// Finds out whether a call speaks of the process or the machine; its arguments have been prepared.
pub fn recognise(rank: &Rank, call: &Call, args: &[u64; 6], scratch: &Scratch) -> Special {
    let special = match sys::of_descriptor(rank, call, args, scratch) {
        Special::No => examine(rank, call, args, scratch),
        special => special,
    };
    sys::leave(call, args, special)
}

fn examine(rank: &Rank, call: &Call, args: &[u64; 6], scratch: &Scratch) -> Special {
    let number = i64::from(call.nr);
    if matches!(number, libc::SYS_getdents | libc::SYS_getdents64) {
        return listing::without_ours(rank, call, args);
    }
    if let Some(errno) = text::denied(rank, call, args) {
        return Special::Answer(errno.ret());
    }
    if query::is_one(call, args) {
        return Special::Answer(query::answer(rank, args));
    }
    text::refresh(rank, call, args);
    let Some(at) = call.args.iter().position(|arg| *arg == Arg::Path) else {
        return Special::No;
    };
    if args[at] != scratch.string_address() {
        return Special::No; // a null pointer
    }
    if xpmem::is_named(call, args, at, scratch.string()) {
        let special = elsewhere(rank, call, args, at, xpmem::NOTHING.to_bytes_with_nul());
        return xpmem::opened(rank, call, special);
    }
    match sys::of_path(rank, call, args, at, scratch.string()) {
        sys::About::No => of_path(rank, call, args, at, scratch.string()),
        sys::About::Done(ret) => Special::Answer(ret),
        sys::About::Elsewhere(path) => elsewhere(rank, call, args, at, &path),
    }
}

/// Carries out a call with another path, which ends in a NUL.
fn elsewhere(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> Special {
    let mut args = *args;
    args[at] = path.as_ptr() as u64;
    if let Some(base) = base(call, at) {
        args[base] = libc::AT_FDCWD as u64;
    }
    let special = of_path(rank, call, &args, at, &path[..path.len() - 1]);
    match sys::leave(call, &args, special) {
        Special::No => Special::Answer(linux(call.nr, &args)),
        answer => answer,
    }
}

fn of_path(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> Special {
    if is_open(call.nr) {
        return Special::Answer(open::open(rank, call, args, path));
    }
    if i64::from(call.nr) == libc::SYS_truncate && !path.is_empty() {
        return Special::Answer(open::truncate(rank, args[1], path));
    }
    match of_named(rank, call, args, at, path) {
        Special::No if through_link(call, args) && !path.is_empty() => {
            pinned(rank, call, args, at, path)
        }
        special => special,
    }
}

/// Carries out a call on what its path was seen to lead to, and nothing else: a link may be exchanged before Linux follows it.
fn pinned(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> Special {
    let here = libc::AT_FDCWD as u64;
    let from = base(call, at).map_or(here, |base| args[base]);
    let mut args = *args;
    let object = match open::pin(rank, from, path, 0) {
        Ok(object) => object,
        Err(errno) => {
            // What is wrong with other arguments Linux says first: before it follows this path.
            args[at] = TOO_LONG.as_ptr() as u64;
            let ret = linux(call.nr, &args);
            let first = (ret != Errno::ENAMETOOLONG.ret()).then_some(ret);
            return Special::Answer(first.unwrap_or_else(|| errno.ret()));
        }
    };
    let path = format!("/proc/self/fd/{}\0", object.as_raw_fd());
    args[at] = path.as_ptr() as u64;
    if let Some(base) = base(call, at) {
        args[base] = here;
    }
    match sys::leave(call, &args, Special::No) {
        Special::No => Special::Answer(linux(call.nr, &args)),
        answer => answer,
    }
}

/// Which argument names the directory that the path, argument `at`, begins in.
fn base(call: &Call, at: usize) -> Option<usize> {
    at.checked_sub(1)
        .filter(|before| call.args[*before] == Arg::DirFd)
}

/// Answers a call about a few names in the directory of the process.
fn of_named(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> Special {
    let (directory, last) = split(path);
    let is_own_fd = |number| number >= rank.limits().first_own_fd();
    let is_own = |number| is_own_fd(number) || place::is_hidden(rank, number);
    let Some(name) = named(last, is_own) else {
        return Special::No;
    };
    let from = match args[0] as i32 {
        // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open. `prepare` has
        // made sure that it is not the proxy's.
        fd if at > 0 && fd >= 0 => unsafe { BorrowedFd::borrow_raw(fd) },
        fd if at > 0 && fd != libc::AT_FDCWD && !directory.starts_with(b"/") => return Special::No,
        _ => CWD,
    };
    let place = rank.limits().with_room(|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(from, directory, flags, Mode::empty()).ok()?;
        Place::of(rank, directory)
    });
    let Some(place) = place else {
        return Special::No;
    };
    match (name, place.whose) {
        (Name::Own(number), whose) => {
            let is_hidden = match (whose, &place.inside[..]) {
                (Whose::Rank, "fd" | "fdinfo") => is_own_fd(number),
                (Whose::Rank, "task") | (Whose::System, "") => place::is_hidden(rank, number),
                _ => false,
            };
            match is_hidden {
                true => Special::Answer(Errno::ENOENT.ret()),
                false => Special::No,
            }
        }
        (Name::Exe, Whose::Rank) => program_file(rank, call, args, at, &place),
        (Name::Exe, Whose::Other) => Special::Answer(Errno::EACCES.ret()),
        _ => Special::No,
    }
}

/// Answers a call about the link to the program's file.
fn program_file(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, place: &Place) -> Special {
    let error = |errno: Errno| Special::Answer(errno.ret());
    match (place.inside.as_str(), i64::from(call.nr)) {
        ("", libc::SYS_readlink | libc::SYS_readlinkat) => {
            let program = rank.program();
            let path = program.real_path.to_bytes();
            let room = args[at + 2] as i32;
            if room <= 0 {
                return error(Errno::EINVAL);
            }
            let path = &path[..path.len().min(room as usize)];
            match rank.write(args[at + 1], path) {
                Ok(()) => Special::Answer(path.len() as i64),
                Err(errno) => error(errno),
            }
        }
        ("", _) if follows(call, args) => {
            let program = rank.program();
            let mut args = *args;
            args[at] = program.real_path.as_ptr() as u64;
            Special::Answer(linux(call.nr, &args))
        }
        _ => Special::No,
    }
}

/// Whether a call only examines what a final symbolic link leads to.
fn follows(call: &Call, args: &[u64; 6]) -> bool {
    let without = |flags: u64, flag: i32| flags & flag as u64 == 0;
    match i64::from(call.nr) {
        libc::SYS_newfstatat => without(args[3], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_statx => without(args[2], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_faccessat2 => without(args[3], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_stat | libc::SYS_access | libc::SYS_faccessat | libc::SYS_statfs => true,
        _ => false,
    }
}

/// Whether a call examines or changes what a final symbolic link leads to.
fn through_link(call: &Call, args: &[u64; 6]) -> bool {
    let without = |flags: u64, flag: i32| flags & flag as u64 == 0;
    match i64::from(call.nr) {
        libc::SYS_chmod | libc::SYS_chown | libc::SYS_utime | libc::SYS_utimes => true,
        libc::SYS_setxattr | libc::SYS_getxattr | libc::SYS_listxattr => true,
        libc::SYS_removexattr | libc::SYS_chdir | libc::SYS_futimesat => true,
        libc::SYS_fchmodat => true,
        libc::SYS_fchmodat2 => without(args[3], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_fchownat => without(args[4], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_utimensat => without(args[3], libc::AT_SYMLINK_NOFOLLOW),
        libc::SYS_inotify_add_watch => without(args[2], libc::IN_DONT_FOLLOW as i32),
        libc::SYS_linkat => !without(args[4], libc::AT_SYMLINK_FOLLOW),
        _ => follows(call, args),
    }
}

/// Completes a call that has returned `ret`.
///
/// # Errors
/// EFAULT.
pub fn complete(rank: &Rank, call: &Call, args: &[u64; 6], ret: i64) -> Result<(), Errno> {
    xpmem::complete(rank, call, args, ret);
    text::complete(rank, call, args, ret)
}

/// Whether a descriptor of the rank is a text that was made here.
pub fn is_text(rank: &Rank, fd: u64) -> bool {
    text::name(rank, fd).is_some()
}

fn named(last: &[u8], is_own: impl Fn(u32) -> bool) -> Option<Name> {
    match last {
        b"exe" => Some(Name::Exe),
        [b'0'..=b'9', ..] => {
            let number: u32 = std::str::from_utf8(last).ok()?.parse().ok()?;
            is_own(number).then_some(Name::Own(number))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_names_are_looked_at() {
        let named = |last| named(last, |number| number >= 100);
        assert_eq!(named(b"exe"), Some(Name::Exe));
        assert_eq!(named(b"100"), Some(Name::Own(100)));
        assert_eq!(named(b"99"), None);
        assert_eq!(named(b"1x"), None);
        assert_eq!(named(b"data.txt"), None);
        assert_eq!(named(b""), None);
    }
}
