//! The socket at which the yods of a job meet: a file in a directory that only its user may enter.
//!
//! The directory is `margay` in XDG_RUNTIME_DIR, which goes away with the session, else `margay-UID` in TMPDIR, else in
//! /tmp; it belongs to the user and has mode 0700, or it is not used. Where another user has made something of that name it is
//! `margay-UID-JOB`, which cannot be made before it is known what job there will be. A lock on it decides who listens when several come at
//! the same moment, and is not held for longer than that takes. The file is removed when all have met, and the
//! directory with the last file. What a yod that was killed meanwhile has left is removed by the next: a socket that refuses connections has
//! no yod.
//!
//! The file system decides who reaches the socket; [`Peer`] is checked as well. Where users cannot be distinguished there
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
        let hash = format!("{:016x}", hash(job));
        let of_the_job = places.last().map(|place| {
            let mut path = place.as_os_str().to_owned();
            path.push(format!("-{hash}"));
            PathBuf::from(path)
        });
        let name = format!("job-{hash}");
        SocketFile {
            paths: places
                .iter()
                .chain(&of_the_job)
                .map(|place| place.join(&name))
                .collect(),
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

    /// Removes the file if no process listens there any more.
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
    // Another yod may have come before the lock was ours.
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

/// A connection, if a process of this user listens. NotFound for one that was killed in the moment between: retry.
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

/// A socket at which no process listens. Between bind(2) and listen(2) its yod holds the lock.
fn is_stale(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    // A full backlog (EAGAIN) has a listener.
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
mod tests;
