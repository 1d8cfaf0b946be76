//! Following a path link by link, for paths that lead through a magic link of a procfs.
//!
//! Linux follows no such link for the rank (RESOLVE_NO_MAGICLINKS, openat2(2)). When it meets one all the same,
//! the path is followed here, and each link that a procfs has is checked before it is taken. What is found is named by a
//! directory that is held open and one last name, so that nothing changes between the check and the use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::Errno;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io;

use super::place::{Link, Place};
use crate::errno::linux;
use crate::rank::Rank;

/// Most symbolic links of a path (MAXSYMLINKS, include/linux/namei.h).
pub const MOST_LINKS: usize = 40;

/// Where a path leads.
#[derive(Debug)]
pub struct Found {
    /// A directory.
    pub directory: OwnedFd,
    /// The last name in it.
    pub name: Vec<u8>,
    /// Whether that is a magic link which the rank may follow. Otherwise it is no link, unless the last was not to be
    /// followed.
    pub magic: bool,
}

/// Follows `path`, from `from` unless it is absolute; its last component only if `follow`.
///
/// # Errors
/// As path_resolution(7) has them, and those of [`Place::link`].
pub fn walk(rank: &Rank, from: BorrowedFd<'_>, path: &[u8], follow: bool) -> Result<Found, Errno> {
    let mut directory = enter(from, if path.starts_with(b"/") { b"/" } else { b"." })?;
    let mut rest = Vec::new(); // the next component last
    push(&mut rest, path);
    let mut links = 0;
    loop {
        let Some(name) = rest.pop() else {
            return Ok(found(directory, b".".into(), false));
        };
        let last = rest.is_empty();
        let text = match readlinkat(&directory, &name[..], Vec::new()) {
            _ if last && !follow => return Ok(found(directory, name, false)),
            Ok(text) => text.into_bytes(),
            Err(io::Errno::INVAL | io::Errno::NOENT) if last => {
                return Ok(found(directory, name, false));
            }
            Err(io::Errno::INVAL) => {
                directory = enter(directory.as_fd(), &name)?;
                continue;
            }
            Err(errno) => return Err(linux(errno)),
        };
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::ELOOP);
        }
        let place = Place::of(rank, &directory);
        let link = place.map_or(Ok(Link::Plain), |place| {
            place.link(&name, rank.limits().first_own_fd())
        })?;
        let text = match link {
            Link::Magic if last => return Ok(found(directory, name, true)),
            Link::Magic => {
                directory = enter(directory.as_fd(), &name)?;
                continue;
            }
            Link::Program => rank.program().real_path.to_bytes().to_vec(),
            Link::Plain => text,
        };
        if text.starts_with(b"/") {
            directory = enter(CWD, b"/")?;
        }
        push(&mut rest, &text);
    }
}

fn found(directory: OwnedFd, name: Vec<u8>, magic: bool) -> Found {
    Found {
        directory,
        name,
        magic,
    }
}

/// Puts the components of a path before what is left to follow.
pub fn push(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        rest.push(b".".into()); // what is before it has to be a directory
    }
    let components = path.split(|&byte| byte == b'/').rev();
    rest.extend(components.filter(|c| !c.is_empty()).map(<[u8]>::to_vec));
}

/// Opens a directory of a directory.
pub fn enter(from: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(from, name, flags, Mode::empty()).map_err(linux)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_followed_in_their_order() {
        let mut rest = vec![b"z".to_vec()];
        push(&mut rest, b"//a/./b");
        rest.reverse();
        assert_eq!(rest, [&b"a"[..], b".", b"b", b"z"]);
        let mut rest = Vec::new();
        push(&mut rest, b"a/");
        assert_eq!(rest, [b".", b"a"]);
    }
}
