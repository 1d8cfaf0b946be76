//! The socket by which later yods of a job get to its keeper: a file in a directory that only its user may enter.
//!
//! The directory is `margay` in XDG_RUNTIME_DIR, which goes away with the session, else `margay-UID` in TMPDIR, else in
//! /tmp; it belongs to the user and has mode 0700, or it is not used. Its name is settled before the keeper is forked, which
//! makes it: so whichever of keeper and yod is killed, the other knows what to remove. The last one out removes the
//! directory. What both left behind is removed by the next job: a socket that refuses connections has no keeper. The first
//! yod does not need the socket, so a job runs without where none can be made.
//!
//! The file system decides who reaches the socket; [`SocketFile::admits`] checks the peer's id as well. Where user ids are
//! mapped in part, as in a user namespace, all others read as one and the same id (overflowuid): when that is the user's own
//! as well, users cannot be told apart, and there is no socket.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Connections that may wait.
const BACKLOG: i32 = 64;
/// A socket that refuses connections is between bind(2) and listen(2) when it is younger than this.
const FRESH: Duration = Duration::from_secs(10);
/// Tries to make a socket in a directory that others remove when they leave.
const TRIES: usize = 5;
/// User ids of a complete map: all but -1 (user_namespaces(7)).
const ALL_IDS: u64 = u32::MAX as u64;

/// A listening socket's file.
#[derive(Clone, Debug)]
pub struct SocketFile {
    /// Where it may be, the best first.
    paths: Vec<PathBuf>,
}

impl SocketFile {
    /// Settles its name, if this user can have a socket.
    pub fn new() -> Option<SocketFile> {
        user()?;
        Some(SocketFile::in_one_of(&places(|name| {
            std::env::var_os(name)
        })))
    }

    /// Process ids alone would not do: namespaces of them may share a directory.
    fn in_one_of(places: &[PathBuf]) -> SocketFile {
        let random = RandomState::new().build_hasher().finish();
        let name = format!("{}-{random:016x}", std::process::id());
        SocketFile {
            paths: places.iter().map(|place| place.join(&name)).collect(),
        }
    }

    /// Makes the socket, in the first directory where it can be.
    pub fn open(&self) -> Option<OwnedFd> {
        self.paths.iter().find_map(|path| open_at(path).ok())
    }

    /// Whether the process at the other end of a connection belongs to this user.
    pub fn admits(connection: &impl AsFd) -> bool {
        let peer = rustix::net::sockopt::socket_peercred(connection);
        peer.is_ok_and(|peer| Some(peer.uid.as_raw()) == user())
    }

    /// Removes the file, and the directory if nothing else is in it.
    pub fn remove(&self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
            if let Some(dir) = path.parent() {
                let _ = fs::remove_dir(dir);
            }
        }
    }
}

fn open_at(path: &Path) -> io::Result<OwnedFd> {
    let (Some(place), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut last = io::ErrorKind::NotFound.into();
    for _ in 0..TRIES {
        match own_directory(place).and_then(|dir| make(&through(&dir).join(name))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            other => return other,
        }
    }
    Err(last)
}

/// Directories for sockets, the best first.
fn places(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let base = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let temporary = base("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let uid = rustix::process::geteuid().as_raw();
    base("XDG_RUNTIME_DIR")
        .map(|dir| dir.join("margay"))
        .into_iter()
        .chain([temporary.join(format!("margay-{uid}"))])
        .collect()
}

/// This process's user, if that id is nobody else's.
fn user() -> Option<u32> {
    let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
    let overflow = number("/proc/sys/kernel/overflowuid")?;
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let own = rustix::process::geteuid().as_raw();
    is_unique(own, overflow, &map).then_some(own)
}

/// Whether an id is not what unmapped ids read as; `map` as in /proc/PID/uid_map: lines of "inside outside count".
fn is_unique(own: u32, overflow: u32, map: &str) -> bool {
    let counts = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    let mapped: u64 = counts.filter_map(|count| count.parse::<u64>().ok()).sum();
    own != overflow || mapped >= ALL_IDS
}

/// Opens the directory, making it if need be, and cleans it up. It is the user's and closed to all others.
fn own_directory(place: &Path) -> io::Result<File> {
    match DirBuilder::new().mode(0o700).create(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = File::from(rustix::fs::open(place, flags, Mode::empty())?);
    let meta = dir.metadata()?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    for entry in fs::read_dir(through(&dir))?.flatten() {
        if is_stale(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(dir)
}

/// A path that leads to an open directory, whatever its own path is by now, and is short enough for a socket's address.
fn through(dir: &File) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// A socket whose keeper is gone.
fn is_stale(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let Ok(meta) = fs::symlink_metadata(path) else {
        return false;
    };
    let fresh = meta
        .modified()
        .is_ok_and(|made| made.elapsed().is_ok_and(|age| age < FRESH));
    // A full backlog (EAGAIN) is a keeper's.
    let refuses = || {
        let to = SocketAddrUnix::new(path)?;
        connect(&socket()?, &to)
    };
    meta.file_type().is_socket() && !fresh && refuses() == Err(Errno::CONNREFUSED)
}

fn make(path: &Path) -> io::Result<OwnedFd> {
    let listener = socket()?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn socket() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::accept;
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    fn scratch(test: &str) -> PathBuf {
        let name = format!("margay-socket-{}-{test}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).expect("a directory");
        dir
    }

    #[test]
    fn the_session_is_preferred_to_the_temporary_directory() {
        let places = |set: &[(&str, &str)]| {
            places(|name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        let uid = rustix::process::geteuid().as_raw();
        let temporary = |dir: &str| PathBuf::from(format!("{dir}/margay-{uid}"));
        assert_eq!(
            places(&[("XDG_RUNTIME_DIR", "/run/user/1"), ("TMPDIR", "/t")]),
            [PathBuf::from("/run/user/1/margay"), temporary("/t")]
        );
        assert_eq!(places(&[("TMPDIR", "relative")]), [temporary("/tmp")]);
    }

    fn opened(place: &Path) -> (SocketFile, OwnedFd) {
        let file = SocketFile::in_one_of(&[place.to_path_buf()]);
        let listener = file.open().expect("a socket");
        (file, listener)
    }

    #[test]
    fn a_socket_takes_its_users_connections_and_leaves_nothing() {
        let dir = scratch("takes");
        let place = dir.join("margay");
        let (file, listener) = opened(&place);
        let mode = fs::metadata(&place).expect("a directory").mode();
        assert_eq!(mode & 0o777, 0o700);
        let (second, _listener) = opened(&place);
        let client = socket().expect("a socket");
        connect(
            &client,
            &SocketAddrUnix::new(&file.paths[0]).expect("short"),
        )
        .expect("connects");
        let connection = accept(&listener).expect("a connection");
        assert!(SocketFile::admits(&connection));
        second.remove();
        file.remove();
        assert!(!place.exists());
        fs::remove_dir(dir).expect("empty");
    }

    /// A keeper that was killed together with its yod leaves its socket; the next job must not leave it there, nor mind.
    #[test]
    fn what_killed_keepers_left_is_removed() {
        let dir = scratch("stale");
        let place = dir.join("margay");
        let (living, _listener) = opened(&place);
        let (dead, listener) = opened(&place);
        let (fresh, fresh_listener) = opened(&place);
        drop((listener, fresh_listener));
        for old in [&living, &dead] {
            let long_ago = SystemTime::now() - 2 * FRESH;
            let times = rustix::fs::Timestamps {
                last_access: time(long_ago),
                last_modification: time(long_ago),
            };
            rustix::fs::utimensat(
                rustix::fs::CWD,
                &old.paths[0],
                &times,
                rustix::fs::AtFlags::empty(),
            )
            .expect("a file");
        }
        let (_next, _next_listener) = opened(&place);
        assert!(living.paths[0].exists() && fresh.paths[0].exists());
        assert!(!dead.paths[0].exists());
        fs::remove_dir_all(dir).expect("removed");
    }

    fn time(at: SystemTime) -> rustix::fs::Timespec {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).expect("later");
        rustix::fs::Timespec {
            tv_sec: since.as_secs() as i64,
            tv_nsec: 0,
        }
    }

    /// Anybody could take the keeper's name first.
    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let dir = scratch("others");
        let place = dir.join("margay");
        fs::create_dir(&place).expect("a directory");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("its owner");
        let refused = open_at(&place.join("name")).expect_err("open to others");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir(&place).expect("empty");
        std::os::unix::fs::symlink(&dir, &place).expect("a link");
        assert!(
            open_at(&place.join("name")).is_err(),
            "nor where a link leads"
        );
        fs::remove_dir_all(dir).expect("removed");
    }

    /// In an unmapped user namespace every other user's id was equal to the keeper's own: it handed out guest RAM.
    #[test]
    fn an_id_that_others_read_as_too_is_nobodys() {
        let complete = "         0          0 4294967295\n";
        assert!(is_unique(1000, 65534, complete));
        assert!(is_unique(65534, 65534, complete), "nobody is a user there");
        assert!(is_unique(0, 65534, "0 1000 1\n"));
        assert!(!is_unique(65534, 65534, "0 1000 1\n1 100000 65536\n"));
        assert!(!is_unique(65534, 65534, ""));
    }
}
