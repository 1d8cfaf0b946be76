//! Where a path leads, if it enters a tree.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use abi::Errno;
use rustix::fs::{CWD, fstat, readlinkat, stat};
use rustix::io;

use super::node::facts;
use super::tree::{Dir, Entry};
use crate::rank::Rank;
use crate::special::place::{Link, Place};
use crate::special::walk::{MOST_LINKS, enter, push};

/// Where a path begins.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// In a directory of a tree.
    Tree(Dir),
    /// Where Linux has it: at a descriptor, or the working directory.
    Linux(i32),
}

/// Where it leads.
#[derive(Debug)]
pub enum Led {
    /// Elsewhere. If it began in a tree: to this path, with its NUL.
    Outside(Option<Vec<u8>>),
    /// To this entry, whose path below /sys is given.
    Here(String, Entry),
    /// To a name in a tree that does not exist, where one could be made.
    Missing,
}

/// A directory on the way.
enum At {
    Linux(OwnedFd),
    Tree(Dir),
}

/// What makes a directory the same one: device, inode.
type Identity = (u64, u64);

/// The directories of the host that the trees hang in.
fn parents() -> [Option<Identity>; 2] {
    static PARENTS: OnceLock<[Option<Identity>; 2]> = OnceLock::new();
    *PARENTS.get_or_init(|| {
        ["/sys/devices/system", "/sys/bus"]
            .map(|path| stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino)))
    })
}

/// The tree that begins at a name in a directory of Linux's.
fn tree(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Dir> {
    let trees = match name {
        b"cpu" => [Dir::Cpus, Dir::CpuBus],
        b"node" => [Dir::Nodes, Dir::NodeBus],
        _ => return None,
    };
    let stat = fstat(directory).ok()?;
    let identity = Some((stat.st_dev, stat.st_ino));
    let parent = parents().iter().position(|parent| *parent == identity)?;
    Some(trees[parent])
}

/// Follows `path`; its last component only if `follow`. `resolve` are RESOLVE_* of
/// openat2(2): what is confined to where it begins takes neither links nor a step up.
///
/// # Errors
/// As path_resolution(7) has them, for what goes wrong in a tree; before it is entered Linux finds it.
pub fn lead(
    rank: &Rank,
    start: Start,
    path: &[u8],
    follow: bool,
    resolve: u64,
) -> Result<Led, Errno> {
    rank.limits()
        .with_room(|| {
            let mut walk = Walk {
                at: begin(start, path)?,
                rest: Vec::new(),
                links: 0,
                left: None,
            };
            push(&mut walk.rest, path);
            walk.run(rank, follow, resolve)
        })
        .or_else(|stop| match stop {
            Stop::Linux => Ok(Led::Outside(None)),
            Stop::Error(errno) => Err(errno),
        })
}

/// uapi/linux/openat2.h
const RESOLVE_NO_SYMLINKS: u64 = 4;
/// RESOLVE_BENEATH, RESOLVE_IN_ROOT.
const CONFINED: u64 = 8 | 16;

/// Why a walk ends early.
enum Stop {
    /// Linux finds out what is wrong.
    Linux,
    /// This is wrong.
    Error(Errno),
}

fn begin(start: Start, path: &[u8]) -> Result<At, Stop> {
    let opened = match start {
        Start::Tree(dir) => return Ok(At::Tree(dir)),
        _ if path.starts_with(b"/") => enter(CWD, b"/"),
        Start::Linux(libc::AT_FDCWD) => enter(CWD, b"."),
        // SAFETY: 1. The number is only used for this call, and Linux says EBADF when it is not open. `prepare` has made
        // sure that it is not the proxy's.
        Start::Linux(fd @ 0..) => enter(unsafe { BorrowedFd::borrow_raw(fd) }, b"."),
        Start::Linux(_) => return Err(Stop::Linux),
    };
    opened.map(At::Linux).map_err(|_| Stop::Linux)
}

struct Walk {
    at: At,
    /// The next component last.
    rest: Vec<Vec<u8>>,
    links: usize,
    /// The path outside of the trees that a walk which began in one goes on by.
    left: Option<Vec<u8>>,
}

impl Walk {
    fn run(&mut self, rank: &Rank, follow: bool, resolve: u64) -> Result<Led, Stop> {
        while let Some(name) = self.rest.pop() {
            let last = self.rest.is_empty();
            if name == b"." {
                continue;
            }
            let At::Tree(dir) = self.at else {
                match self.outside(rank, &name, last, follow)? {
                    true => continue,
                    false => return Ok(Led::Outside(self.left.take())),
                }
            };
            if name == b".." {
                if resolve & CONFINED != 0 {
                    return Err(Stop::Error(Errno::EXDEV));
                }
                self.up(dir)?;
                continue;
            }
            let entry = std::str::from_utf8(&name)
                .ok()
                .and_then(|name| facts(rank).child(dir, name));
            match entry {
                None if name.len() > NAME_MAX => return Err(Stop::Error(Errno::ENAMETOOLONG)),
                None if last => return Ok(Led::Missing),
                None => return Err(Stop::Error(Errno::ENOENT)),
                Some(Entry::Directory(below)) => self.at = At::Tree(below),
                Some(Entry::File(_)) if !last => return Err(Stop::Error(Errno::ENOTDIR)),
                Some(Entry::Link(text)) if follow || !last => {
                    if resolve & RESOLVE_NO_SYMLINKS != 0 {
                        return Err(Stop::Error(Errno::ELOOP));
                    }
                    if resolve & CONFINED != 0 {
                        return Err(Stop::Error(Errno::EXDEV));
                    }
                    self.link(text.as_bytes())?;
                }
                Some(entry) => {
                    let path = format!("{}/{}", dir.path(), String::from_utf8_lossy(&name));
                    return Ok(Led::Here(path, entry));
                }
            }
        }
        Ok(match self.at {
            At::Tree(dir) => Led::Here(dir.path(), Entry::Directory(dir)),
            At::Linux(_) => Led::Outside(self.left.take()),
        })
    }

    /// Takes a step outside; `false`: the path ends there, or Linux has to say what is wrong.
    fn outside(
        &mut self,
        rank: &Rank,
        name: &[u8],
        last: bool,
        follow: bool,
    ) -> Result<bool, Stop> {
        let At::Linux(directory) = &self.at else {
            return Ok(false);
        };
        if let Some(dir) = tree(directory.as_fd(), name) {
            self.at = At::Tree(dir);
            return Ok(true);
        }
        let text = match readlinkat(directory, name, Vec::new()) {
            Ok(_) if last && !follow => return Ok(false),
            Ok(text) => text.into_bytes(),
            Err(io::Errno::INVAL) => match enter(directory.as_fd(), name) {
                Ok(next) => {
                    self.at = At::Linux(next);
                    return Ok(true);
                }
                Err(_) => return Ok(false),
            },
            Err(_) => return Ok(false),
        };
        let link = Place::of(rank, directory).map_or(Ok(Link::Plain), |place| {
            place.link(name, rank.limits().first_own_fd())
        });
        match link {
            Ok(Link::Plain) => {}
            Ok(Link::Magic) if !last => match enter(directory.as_fd(), name) {
                Ok(next) => {
                    self.at = At::Linux(next);
                    return Ok(true);
                }
                Err(_) => return Ok(false),
            },
            _ => return Ok(false),
        }
        if text.starts_with(b"/") {
            self.at = At::Linux(enter(CWD, b"/").map_err(|_| Stop::Linux)?);
        }
        self.link(&text)?;
        Ok(true)
    }

    fn link(&mut self, text: &[u8]) -> Result<(), Stop> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Stop::Error(Errno::ELOOP));
        }
        push(&mut self.rest, text);
        Ok(())
    }

    /// Goes to the directory that `dir` lies in.
    fn up(&mut self, dir: Dir) -> Result<(), Stop> {
        if let Some(parent) = dir.parent() {
            self.at = At::Tree(parent);
            return Ok(());
        }
        let mut path = b"/sys".to_vec();
        path.extend(dir.path().bytes());
        path.truncate(path.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
        self.at = At::Linux(enter(CWD, &path).map_err(Stop::Error)?);
        for name in self.rest.iter().rev() {
            path.push(b'/');
            path.extend(name);
        }
        path.push(0);
        self.left = Some(path);
        Ok(())
    }
}

/// Longest name (uapi/linux/limits.h).
const NAME_MAX: usize = 255;
