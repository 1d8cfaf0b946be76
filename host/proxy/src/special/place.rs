//! What a place in a procfs is to the rank.
//!
//! The rank is its proxy's process, and its threads are those of the workers that serve one. The proxy's other threads do
//! not exist for it. It has no access to any other
//! process beyond what every user has: what Linux gives to a process that may trace another (ptrace(2), "access mode checking")
//! is denied, whatever the rank's user is.

use std::os::fd::{AsFd, AsRawFd};

use abi::Errno;
use rustix::fs::{CWD, PROC_SUPER_MAGIC, fstat, fstatfs, readlinkat};

use crate::heritage;
use crate::rank::Rank;

/// Whose entry of a procfs something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The rank's own.
    Rank,
    /// A thread's of the proxy that the rank does not have.
    Proxy,
    /// Another process's.
    Other,
    /// No process's: the machine's.
    System,
}

/// A directory or file in a procfs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Whose it is.
    pub whose: Whose,
    /// The thread whose directory it is in; `None` in the process's.
    pub thread: Option<u32>,
    /// The path in that process's or thread's directory, in the procfs for the machine's; empty for the directory itself.
    pub inside: String,
}

/// What a symbolic link in a procfs leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// To a path, as any other does.
    Plain,
    /// To an object, past all paths; the rank may go there.
    Magic,
    /// To the program.
    Program,
}

/// What every user may read of a process.
const PUBLIC: &[&str] = &[
    "cgroup",
    "cmdline",
    "comm",
    "cpuset",
    "limits",
    "loginuid",
    "mountinfo",
    "mounts",
    "oom_adj",
    "oom_score",
    "oom_score_adj",
    "sched",
    "schedstat",
    "sessionid",
    "stat",
    "statm",
    "status",
    "wchan",
];

/// What of its own directory would show the proxy's memory instead of the rank's, or let the rank change it.
const MEMORY: &[&str] = &["mem", "pagemap", "clear_refs"];

/// The directory that lists the proxy's mappings.
const MAPPINGS: &str = "map_files";

/// Directories that list what another process has.
const LISTS: &[&str] = &["fd", "fdinfo", "ns", MAPPINGS];

/// Whether a number is a thread's of the proxy that the rank does not have.
pub fn is_hidden(rank: &Rank, number: u32) -> bool {
    is_thread(number) && !rank.has_thread(number)
}

impl Place {
    /// Where an open file is; `None` unless it is in a procfs.
    pub fn of(rank: &Rank, file: impl AsFd) -> Option<Place> {
        if fstatfs(&file).ok()?.f_type != PROC_SUPER_MAGIC {
            return None;
        }
        let fd = file.as_fd().as_raw_fd();
        let path = readlinkat(CWD, format!("/proc/self/fd/{fd}"), Vec::new());
        let path = path.ok()?.into_string().ok()?;
        let mut place = Place::parse(&path, rank.pid(), |number| {
            if rank.has_thread(number) {
                Whose::Rank
            } else if is_hidden(rank, number) {
                Whose::Proxy
            } else {
                Whose::Other
            }
        });
        if place.thread.is_some() {
            heritage::settle_all(rank);
        }
        // Numbers of another procfs may be those of another namespace.
        if place.whose != Whose::System && fstat(&file).ok()?.st_dev != rank.proc_device() {
            place.whose = Whose::Other;
        }
        Some(place)
    }

    /// Reads the path of an entry of a procfs, wherever that is mounted.
    fn parse(path: &str, pid: u32, whose: impl Fn(u32) -> Whose) -> Place {
        let mut parts = path.trim_start_matches('/').split('/');
        let Some(number) = parts.by_ref().find_map(|part| part.parse().ok()) else {
            let inside = path.strip_prefix("/proc").unwrap_or(path);
            return Place {
                whose: Whose::System,
                thread: None,
                inside: inside.trim_start_matches('/').into(),
            };
        };
        let mut parts: Vec<&str> = parts.collect();
        let mut owner = whose(number);
        let mut of_thread = Some(number).filter(|number| *number != pid);
        if let ["task", thread, ..] = parts[..]
            && let Ok(thread) = thread.parse()
        {
            if owner == Whose::Rank {
                owner = whose(thread);
                of_thread = Some(thread);
            }
            parts.drain(..2);
        }
        Place {
            whose: owner,
            thread: of_thread.filter(|_| owner == Whose::Rank),
            inside: parts.join("/"),
        }
    }

    /// What the symbolic link `name` in this directory is.
    ///
    /// # Errors
    /// EACCES, or ENOENT for what does not exist for the rank.
    pub fn link(&self, name: &[u8], first_own_fd: u32) -> Result<Link, Errno> {
        match (self.whose, self.inside.as_str(), name) {
            (Whose::System, ..) => Ok(Link::Plain),
            (Whose::Proxy, ..) => Err(Errno::ENOENT),
            (Whose::Other, ..) => Err(Errno::EACCES),
            (Whose::Rank, "", b"exe") => Ok(Link::Program),
            (Whose::Rank, "", b"cwd" | b"root") | (Whose::Rank, "ns", _) => Ok(Link::Magic),
            (Whose::Rank, "fd", _) => {
                let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
                ranks_fd(name, first_own_fd).map(|()| Link::Magic)
            }
            (Whose::Rank, ..) => Err(Errno::EACCES),
        }
    }

    /// Whether the rank may have this file or link open, for more than reading if `writes`. What Linux counts of input and output is
    /// the proxy's: `io` does not exist, as where nothing is counted.
    ///
    /// # Errors
    /// EACCES, or ENOENT for what does not exist for the rank.
    pub fn may_open(&self, writes: bool, first_own_fd: u32) -> Result<(), Errno> {
        let inside = self.inside.as_str();
        if self.whose == Whose::Rank
            && let Some(("fd" | "fdinfo", name)) = inside.split_once('/')
        {
            ranks_fd(name, first_own_fd)?;
        }
        let allowed = match self.whose {
            Whose::Proxy => return Err(Errno::ENOENT),
            Whose::Rank if inside == "io" => return Err(Errno::ENOENT),
            Whose::Rank => !MEMORY.contains(&inside),
            Whose::Other => !writes && PUBLIC.contains(&inside),
            Whose::System => inside != "kcore",
        };
        if allowed { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Whether the rank may have this directory open.
    ///
    /// # Errors
    /// As [`Place::may_open`].
    pub fn may_list(&self) -> Result<(), Errno> {
        let denied = match self.whose {
            Whose::Proxy => return Err(Errno::ENOENT),
            Whose::Rank => self.inside == MAPPINGS,
            Whose::Other => LISTS.contains(&self.inside.as_str()),
            Whose::System => false,
        };
        if denied { Err(Errno::EACCES) } else { Ok(()) }
    }
}

/// ENOENT unless `name` is the number of a descriptor that the rank may have.
fn ranks_fd(name: &str, first_own_fd: u32) -> Result<(), Errno> {
    match name.parse::<u32>() {
        Ok(fd) if fd < first_own_fd => Ok(()),
        _ => Err(Errno::ENOENT),
    }
}

/// Whether a number is that of a thread of this process.
pub fn is_thread(number: u32) -> bool {
    rustix::fs::stat(format!("/proc/self/task/{number}")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process is 7, with threads 7 and 8, and 6 which is the proxy's.
    fn whose(number: u32) -> Whose {
        match number {
            7 | 8 => Whose::Rank,
            6 => Whose::Proxy,
            _ => Whose::Other,
        }
    }

    fn parse(path: &str) -> (Whose, String) {
        let place = Place::parse(path, 7, whose);
        (place.whose, place.inside)
    }

    #[test]
    fn entries_have_owners() {
        for (path, whose, inside) in [
            ("/proc/7", Whose::Rank, ""),
            ("/proc/7/mem", Whose::Rank, "mem"),
            ("/proc/7/task", Whose::Rank, "task"),
            ("/proc/7/task/7/fd", Whose::Rank, "fd"),
            ("/proc/7/task/8/mem", Whose::Rank, "mem"),
            ("/proc/8/fd", Whose::Rank, "fd"),
            ("/proc/7/task/6/mem", Whose::Proxy, "mem"),
            ("/proc/6/fd", Whose::Proxy, "fd"),
            ("/proc/9/mem", Whose::Other, "mem"),
            ("/proc/9/task/7/mem", Whose::Other, "mem"),
            ("/elsewhere/proc/9/fd", Whose::Other, "fd"),
            ("/proc/meminfo", Whose::System, "meminfo"),
            ("/proc", Whose::System, ""),
            (
                "/proc/sys/kernel/pid_max",
                Whose::System,
                "sys/kernel/pid_max",
            ),
        ] {
            assert_eq!(parse(path), (whose, inside.into()), "{path}");
        }
    }

    #[test]
    fn a_threads_directory_is_told_from_the_process() {
        let thread = |path| Place::parse(path, 7, whose).thread;
        assert_eq!(thread("/proc/7/status"), None);
        assert_eq!(thread("/proc/7/task"), None);
        assert_eq!(thread("/proc/7/task/7/status"), Some(7));
        assert_eq!(thread("/proc/7/task/8/status"), Some(8));
        assert_eq!(thread("/proc/8/status"), Some(8));
        assert_eq!(thread("/proc/9/task/8/status"), None);
    }

    #[test]
    fn links_lead_where_the_rank_may_go() {
        let place = |path| Place::parse(path, 7, whose);
        let link = |path, name: &str| place(path).link(name.as_bytes(), 100);
        assert_eq!(link("/proc", "self"), Ok(Link::Plain));
        assert_eq!(link("/proc/7", "exe"), Ok(Link::Program));
        assert_eq!(link("/proc/7/fd", "99"), Ok(Link::Magic));
        assert_eq!(link("/proc/7/fd", "100"), Err(Errno::ENOENT));
        assert_eq!(link("/proc/7/task/6/fd", "1"), Err(Errno::ENOENT));
        assert_eq!(link("/proc/9/fd", "1"), Err(Errno::EACCES));
        assert_eq!(link("/proc/7/map_files", "1-2"), Err(Errno::EACCES));
    }

    #[test]
    fn of_others_only_what_is_public_is_read() {
        let may = |path, writes| Place::parse(path, 7, whose).may_open(writes, 100);
        assert_eq!(may("/proc/9/status", false), Ok(()));
        assert_eq!(may("/proc/9/oom_score_adj", true), Err(Errno::EACCES));
        assert_eq!(may("/proc/9/environ", false), Err(Errno::EACCES));
        assert_eq!(may("/proc/7/mem", false), Err(Errno::EACCES));
        assert_eq!(may("/proc/7/environ", false), Ok(()));
        assert_eq!(may("/proc/6/status", false), Err(Errno::ENOENT));
        assert_eq!(may("/proc/7/fdinfo/99", false), Ok(()));
        assert_eq!(may("/proc/7/fd/100", false), Err(Errno::ENOENT));
        assert_eq!(may("/proc/7/fdinfo/100", false), Err(Errno::ENOENT));
        assert_eq!(may("/proc/7/task/8/fdinfo/100", false), Err(Errno::ENOENT));
        assert_eq!(may("/proc/kcore", false), Err(Errno::EACCES));
    }

    #[test]
    fn what_others_have_is_not_listed() {
        let may = |path: &str| Place::parse(path, 7, whose).may_list();
        for list in ["fd", "fdinfo", "ns"] {
            for (place, want) in [
                ("7", Ok(())),
                ("7/task/8", Ok(())),
                ("8", Ok(())),
                ("6", Err(Errno::ENOENT)),
                ("7/task/6", Err(Errno::ENOENT)),
                ("9", Err(Errno::EACCES)),
                ("9/task/9", Err(Errno::EACCES)),
            ] {
                let path = format!("/proc/{place}/{list}");
                assert_eq!(may(&path), want, "{path}");
            }
        }
        // Mappings are the proxy's: for the rank itself they are not listed either.
        assert_eq!(may("/proc/7/map_files"), Err(Errno::EACCES));
        assert_eq!(may("/proc/9/map_files"), Err(Errno::EACCES));
        assert_eq!(may("/proc/6/map_files"), Err(Errno::ENOENT));
        for public in ["/proc", "/proc/7", "/proc/9", "/proc/9/task", "/proc/sys"] {
            assert_eq!(may(public), Ok(()), "{public}");
        }
    }
}
