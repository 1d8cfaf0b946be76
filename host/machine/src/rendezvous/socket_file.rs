//! The socket at which the yods of a job meet: a file in a directory that only its user may enter.
//!
//! The directory is `margay` in XDG_RUNTIME_DIR, which goes away with the session, else `margay-UID` in TMPDIR, else in
//! /tmp; it belongs to the user and has mode 0700, or it is not used. A lock on it decides who listens when several come at
//! the same moment, and is held by nobody for longer than that takes. The file is removed when all have met, and the
//! directory with the last file. What a yod that was killed meanwhile has left is removed by the next: a socket that refuses connections has
//! no yod.
//!
//! The file system decides who reaches the socket; [`Peer`] is looked at as well. Where users cannot be told apart there
//! is no socket.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use super::peer::{Peer, user};

/// Connections that may wait.
const BACKLOG: i32 = 255;
/// Tries to make a socket in a directory that others remove when they leave.
const TRIES: usize = 5;

/// The socket of a job.
#[derive(Clone, Debug)]
pub struct SocketFile {
    /// Where it may be, the best first.
    paths: Vec<PathBuf>,
}

/// What was found.
#[derive(Debug)]
pub enum Found {
    /// Another yod of the job listens: a connection to it.
    Connection(OwnedFd),
    /// This one does.
    Listener(OwnedFd),
    /// It has to be tried again.
    Busy,
}

impl SocketFile {
    /// That of the job `job`, a name that is any text; `None` when this user can have none.
    pub fn new(job: &str) -> Option<SocketFile> {
        user()?;
        Some(SocketFile::in_one_of(
            &places(|name| std::env::var_os(name)),
            job,
        ))
    }

    fn in_one_of(places: &[PathBuf], job: &str) -> SocketFile {
        let name = format!("job-{:016x}", hash(job));
        SocketFile {
            paths: places.iter().map(|place| place.join(&name)).collect(),
        }
    }

    /// Connects to the socket, or makes it, in the first directory that can be used.
    pub fn find(&self) -> io::Result<Found> {
        let mut last = io::ErrorKind::NotFound.into();
        for path in &self.paths {
            match find_at(path) {
                Err(error) => last = named(path, &error),
                found => return found,
            }
        }
        Err(last)
    }

    /// Removes the file if nobody listens there any more.
    pub fn remove_stale(&self) {
        for path in &self.paths {
            let (Some(place), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            let Ok(dir) = own_directory(place) else {
                continue;
            };
            // A yod that comes just now has the lock until it listens.
            let locked = flock(&dir, FlockOperation::NonBlockingLockExclusive);
            if locked.is_ok() && is_stale(&through(&dir).join(name)) {
                let _ = fs::remove_file(path);
            }
            let _ = fs::remove_dir(place);
        }
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

/// FNV-1a, 64 bits: the same in every yod, whatever it was built with.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    let place = path.parent().unwrap_or(path);
    io::Error::new(error.kind(), format!("{}: {error}", place.display()))
}

fn find_at(path: &Path) -> io::Result<Found> {
    let (Some(place), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut last = io::ErrorKind::NotFound.into();
    for _ in 0..TRIES {
        match own_directory(place).and_then(|dir| find_in(&dir, &through(&dir).join(name))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn find_in(dir: &File, path: &Path) -> io::Result<Found> {
    if let Some(found) = connected(path)? {
        return Ok(found);
    }
    match flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Found::Busy),
        Err(error) => return Err(error.into()),
    }
    // Before the lock was ours somebody may have come.
    if let Some(found) = connected(path)? {
        return Ok(found);
    }
    for entry in fs::read_dir(through(dir))?.flatten() {
        if is_stale(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let listener = socket()?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    listen(&listener, BACKLOG)?;
    Ok(Found::Listener(listener))
}

/// A connection, if somebody of this user listens. NotFound for one that was killed in the moment between: look again.
fn connected(path: &Path) -> io::Result<Option<Found>> {
    let socket = socket()?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => match Peer::of(&socket) {
            Some(peer) if peer.is_admitted() => Ok(Some(Found::Connection(socket))),
            Some(peer) if peer.has_ended() => Err(io::ErrorKind::NotFound.into()),
            Some(Peer { pid: None, .. }) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a yod of another PID namespace (container) listens there",
            )),
            _ => Err(io::ErrorKind::PermissionDenied.into()),
        },
        Err(Errno::AGAIN) => Ok(Some(Found::Busy)),
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
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

/// Opens the directory, making it if need be. It is the user's and closed to all others.
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
    Ok(dir)
}

/// A path that leads to an open directory, whatever its own path is by now, and is short enough for a socket's address.
fn through(dir: &File) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// A socket that nobody listens at. Between bind(2) and listen(2) its yod holds the lock.
fn is_stale(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    // A full backlog (EAGAIN) is somebody's.
    let refuses = || {
        let to = SocketAddrUnix::new(path)?;
        connect(&socket()?, &to)
    };
    is_socket && refuses() == Err(Errno::CONNREFUSED)
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
    use super::super::no_process_starts;
    use super::*;
    use rustix::net::accept;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

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

    fn found(place: &Path, job: &str) -> (SocketFile, Found) {
        let file = SocketFile::in_one_of(&[place.to_path_buf()], job);
        let found = file.find().expect("a socket");
        (file, found)
    }

    #[test]
    fn the_first_listens_and_the_next_connects() {
        let dir = scratch("first");
        let place = dir.join("margay");
        let (file, Found::Listener(listener)) = found(&place, "job") else {
            panic!("somebody is there already");
        };
        let mode = fs::metadata(&place).expect("a directory").mode();
        assert_eq!(mode & 0o777, 0o700);
        let (_, Found::Connection(_connection)) = found(&place, "job") else {
            panic!("nobody is there");
        };
        let connection = accept(&listener).expect("a connection");
        assert!(Peer::of(&connection).is_some_and(Peer::is_admitted));
        let (other, Found::Listener(_listener)) = found(&place, "another job") else {
            panic!("jobs have their own sockets");
        };
        other.remove();
        file.remove();
        assert!(!place.exists());
        fs::remove_dir(dir).expect("empty");
    }

    /// What is started to listen at its standard input: not a test by itself.
    #[test]
    #[ignore = "for another test to start"]
    fn listens() {
        listen(std::io::stdin(), 1).expect("a socket that is bound");
    }

    /// Who was killed while another yod connected to it could not be looked at, and passed for somebody who may not take part.
    #[test]
    fn one_that_is_killed_meanwhile_is_nobody() {
        let _alone = no_process_starts();
        let dir = scratch("killed");
        let path = dir.join("socket");
        let listener = socket().expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("bound");
        let own = std::env::current_exe().expect("this program");
        let mut other = Command::new(own)
            .args(["--exact", "--ignored"])
            .arg("rendezvous::socket_file::tests::listens")
            .stdin(listener.try_clone().expect("a copy"))
            .spawn()
            .expect("started");
        assert!(other.wait().expect("its status").success());
        let error = connected(&path).expect_err("nobody who could be asked");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        drop(listener);
        assert!(connected(&path).expect("nobody at all").is_none());
        fs::remove_dir_all(dir).expect("removed");
    }

    /// What is started in a PID namespace of its own: not a test by itself.
    #[test]
    #[ignore = "for another test to start"]
    fn connects_from_elsewhere() {
        let path = std::env::var_os("MARGAY_TEST_SOCKET").expect("a path");
        let error = connected(Path::new(&path)).expect_err("nobody to be trusted");
        assert!(error.to_string().contains("PID namespace"), "{error}");
    }

    /// Two containers with one temporary directory: which process listens cannot be told. Its number, 0, was no valid value of
    /// the type that it was read into.
    #[test]
    fn a_listener_in_another_pid_namespace_is_named() {
        let _alone = no_process_starts();
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--pid", "--fork"]);
            command
        };
        let can = unshare().arg("true").status();
        if !can.is_ok_and(|status| status.success()) {
            // print! is shown of tests that fail only.
            let line = b"skipped: no namespaces here\n";
            let _ = std::io::Write::write_all(&mut std::io::stdout(), line);
            return;
        }
        let dir = scratch("elsewhere");
        let path = dir.join("socket");
        let listener = socket().expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("bound");
        listen(&listener, 1).expect("listens");
        let own = std::env::current_exe().expect("this program");
        let connects = unshare()
            .arg(own)
            .args(["--exact", "--ignored"])
            .arg("rendezvous::socket_file::tests::connects_from_elsewhere")
            .env("MARGAY_TEST_SOCKET", &path)
            .output();
        let connects = connects.expect("started");
        let said = String::from_utf8_lossy(&connects.stdout);
        assert!(connects.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        fs::remove_dir_all(dir).expect("removed");
    }

    /// Of any number that come at the same moment one listens, also where a yod that was killed has left its socket.
    #[test]
    fn one_of_many_listens() {
        let _alone = no_process_starts();
        let dir = scratch("many");
        let place = dir.join("margay");
        let (dead, Found::Listener(listener)) = found(&place, "dead") else {
            panic!("somebody is there already");
        };
        drop(listener);
        for round in 0..400 {
            let (file, listener) = found(&place, "job");
            drop(listener);
            assert!(file.paths[0].exists(), "{round}: left behind");
            let barrier = std::sync::Barrier::new(8);
            let all: Vec<Found> = std::thread::scope(|scope| {
                let come = || {
                    barrier.wait();
                    loop {
                        match found(&place, "job").1 {
                            Found::Busy => std::thread::yield_now(),
                            found => return found,
                        }
                    }
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(come)).collect();
                let threads = threads.into_iter();
                threads.map(|thread| thread.join().expect("came")).collect()
            });
            let listening = all.iter().filter(|f| matches!(f, Found::Listener(_)));
            assert_eq!(listening.count(), 1, "round {round}");
            file.remove_stale();
            assert!(file.paths[0].exists(), "round {round}: somebody listens");
            drop(all);
            file.remove_stale();
            assert!(!file.paths[0].exists(), "round {round}: left behind");
        }
        assert!(!dead.paths[0].exists(), "what was left is removed");
        fs::remove_dir(dir).expect("empty");
    }

    /// Anybody could take the keeper's name first.
    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let dir = scratch("others");
        let place = dir.join("margay");
        fs::create_dir(&place).expect("a directory");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("its owner");
        let refused = find_at(&place.join("name")).expect_err("open to others");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        if rustix::process::geteuid().is_root() {
            const NOBODY: u32 = 65534;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("its owner");
            std::os::unix::fs::chown(&place, Some(NOBODY), None).expect("root's right");
            let refused = find_at(&place.join("name")).expect_err("another user's");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
        fs::remove_dir(&place).expect("empty");
        std::os::unix::fs::symlink(&dir, &place).expect("a link");
        assert!(
            find_at(&place.join("name")).is_err(),
            "nor where a link leads"
        );
        fs::remove_dir_all(dir).expect("removed");
    }
}
