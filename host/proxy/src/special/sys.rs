//! The parts of /sys that speak of processors and memory: a tree of the node's, in place of the host's.
//!
//! The node may have more cores than the host, so what exists here does not depend on what Linux has. A path is followed
//! link by link (module `lead`); where it enters one of the trees, it goes on here. Descriptors of files and directories
//! are texts as those of /proc are (module `text`), whose name is the path: what begins at such a descriptor begins here.
//!
//! The trees are like a sysfs that is mounted read-only.

mod calls;
mod here;
mod lead;
mod list;
pub mod node;
mod stat;
mod tree;

use abi::Errno;
use abi::syscall::{Arg, Call};

use super::answer::Special;
use crate::call::args::Scratch;
use crate::rank::Rank;
use crate::stub;
use here::{go, here};
use lead::{Led, Start};
use node::facts;
use tree::{Dir, Entry};

pub use calls::instead;

/// What a call with a path is about.
#[derive(Debug)]
pub enum About {
    /// Nothing of this.
    No,
    /// It has been carried out.
    Done(i64),
    /// It begins here, but its path leads elsewhere: to this one, with its NUL.
    Elsewhere(Vec<u8>),
}

/// Carries out a call whose path, the argument number `at`, leads into a tree.
pub fn of_path(rank: &Rank, call: &Call, args: &[u64; 6], at: usize, path: &[u8]) -> About {
    let base = match at.checked_sub(1).map(|i| (call.args[i], args[i])) {
        Some((Arg::DirFd, fd)) if fd as i32 != libc::AT_FDCWD => directory(rank, fd),
        _ => here(),
    };
    let start = match base {
        Some(dir) if !path.starts_with(b"/") => Start::Tree(dir),
        _ if !may_lead_here(path) => return About::No,
        _ if path.starts_with(b"/") || at == 0 || call.args[at - 1] != Arg::DirFd => {
            Start::Linux(libc::AT_FDCWD)
        }
        _ => Start::Linux(args[at - 1] as i32),
    };
    if path.is_empty() {
        return About::No;
    }
    let how = match calls::How::of(rank, call, args) {
        Ok(how) if how.resolve != 0 && matches!(start, Start::Linux(_)) => return About::No,
        Ok(how) => how,
        Err(errno) => return About::Done(errno.ret()),
    };
    let led = lead::lead(rank, start, path, how.follow, how.resolve);
    match led {
        Ok(Led::Outside(None)) => About::No,
        Ok(Led::Outside(Some(path))) => About::Elsewhere(path),
        Ok(Led::Missing) => About::Done(how.missing().ret()),
        Ok(Led::Here(path, entry)) => {
            let done = calls::carry_out(rank, call, args, at, &how, &path, &entry);
            About::Done(done.unwrap_or_else(Errno::ret))
        }
        Err(errno) => About::Done(errno.ret()),
    }
}

/// Carries out a call about a descriptor of a tree, or about a working directory in one.
pub fn of_descriptor(rank: &Rank, call: &Call, args: &[u64; 6], scratch: &Scratch) -> Special {
    let number = i64::from(call.nr);
    if number == libc::SYS_getcwd {
        return here().map_or(Special::No, |dir| {
            Special::Answer(calls::getcwd(rank, args, dir).unwrap_or_else(Errno::ret))
        });
    }
    if call
        .args
        .first()
        .is_none_or(|arg| !matches!(arg, Arg::Fd | Arg::DirFd))
        || !rank.texts().has(args[0])
    {
        return Special::No;
    }
    let Some(path) = super::text::name(rank, args[0])
        .and_then(|name| name.strip_prefix("sys").map(str::to_owned))
    else {
        return Special::No;
    };
    let nameless =
        args[1] == 0 || args[1] == scratch.string_address() && scratch.string().is_empty();
    match facts(rank).find(&path) {
        Some(entry) => calls::of_open(rank, call, args, nameless, &path, &entry).map_or_else(
            |errno| Special::Answer(errno.ret()),
            |done| done.map_or(Special::No, Special::Answer),
        ),
        None => Special::No,
    }
}

/// Notes that the working directory is another, if Linux makes it so.
pub fn leave(call: &Call, args: &[u64; 6], special: Special) -> Special {
    let leaves = matches!(i64::from(call.nr), libc::SYS_chdir | libc::SYS_fchdir);
    if !leaves || here().is_none() || !matches!(special, Special::No) {
        return special;
    }
    // SAFETY: 1. chdir and fchdir write no memory. 2. What they read is a private copy.
    let ret = unsafe { stub::syscall(call.nr.into(), args) };
    if ret == 0 {
        go(None);
    }
    Special::Answer(ret)
}

/// The directory of a tree that a descriptor is.
fn directory(rank: &Rank, fd: u64) -> Option<Dir> {
    let name = super::text::name(rank, fd)?;
    match facts(rank).find(name.strip_prefix("sys")?)? {
        Entry::Directory(dir) => Some(dir),
        _ => None,
    }
}

/// Whether a path can enter a tree: both have names that show. A symbolic link may hide them; what is opened behind one is
/// recognised nevertheless ([`instead`]).
fn may_lead_here(path: &[u8]) -> bool {
    path.windows(3).any(|part| part == b"cpu") || path.windows(4).any(|part| part == b"node")
}
