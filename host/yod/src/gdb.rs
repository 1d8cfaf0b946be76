//! `--gdb`: the sockets by which gdb reaches the ranks' proxies.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::console;
use crate::failure::Failure;
use crate::place::Place;

/// Sockets of the ranks that gdb has not come to yet; what is left of them goes with this.
#[derive(Debug)]
pub struct Sockets {
    /// One per rank of this yod, from its first.
    all: Vec<PathBuf>,
    listeners: Vec<Option<UnixListener>>,
    first: usize,
}

impl Sockets {
    /// Makes one for each rank of this yod: at `path`, which is followed by the rank's number when the job has several.
    ///
    /// # Errors
    /// One line: the path, and what Linux says.
    pub fn new(path: Option<&Path>, place: &Place) -> Result<Sockets, Failure> {
        let base = match path {
            Some(path) => path.to_path_buf(),
            None => default_base(),
        };
        let mut sockets = Sockets {
            all: Vec::new(),
            listeners: Vec::new(),
            first: place.ranks.start,
        };
        for rank in place.ranks.clone() {
            let mut name = OsString::from(&base);
            if place.size > 1 {
                name.push(format!(".{rank}"));
            }
            let path = PathBuf::from(name);
            let listener = listen(&path).map_err(|error| cannot(&path, error))?;
            sockets.all.push(path);
            sockets.listeners.push(Some(listener));
        }
        Ok(sockets)
    }

    /// What the proxy of a rank gets.
    pub fn take(&mut self, rank: usize) -> Option<proxy::Gdb> {
        let index = rank - self.first;
        Some(proxy::Gdb {
            socket: self.listeners[index].take()?,
            path: self.all[index].clone(),
        })
    }

    /// Shows the user how to get there.
    pub fn say(&self, program: &Path) {
        for (index, path) in self.all.iter().enumerate() {
            let rank = self.first + index;
            let (program, path) = (program.display(), path.display());
            console::say(format_args!(
                "rank {rank} waits for gdb: gdb {program} -ex 'set sysroot /' -ex 'target remote {path}'"
            ));
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.all {
            let _ = std::fs::remove_file(path);
        }
    }
}

pub fn cannot(path: &Path, error: std::io::Error) -> Failure {
    Failure::os(&format!("listen for gdb at {}", path.display()), error)
}

/// In the directory for such files of the session, else in that for temporary ones.
pub fn default_base() -> PathBuf {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directory = session.filter(|path| path.is_absolute() && path.is_dir());
    let directory = directory.unwrap_or_else(std::env::temp_dir);
    directory.join(format!("margay-gdb-{}", std::process::id()))
}

/// Listens for the user alone. A socket without a listener was left by a yod that was killed.
pub fn listen(path: &Path) -> std::io::Result<UnixListener> {
    match bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path)?;
            bind(path)
        }
        bound => bound,
    }
}

/// The socket gets its path when it listens: who sees the path can connect, and no yod takes it for one that was left.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let mut unheard = OsString::from(path);
    unheard.push(format!(".{}~", std::process::id()));
    let listener = listen_at(Path::new(&unheard))?;
    let named = std::fs::hard_link(&unheard, path);
    std::fs::remove_file(&unheard)?;
    match named {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Errno::ADDRINUSE.into()),
        named => named.map(|()| listener),
    }
}

/// A path gets the socket's mode when it is bound (net/unix/af_unix.c): changed afterwards, others could have connected before.
fn listen_at(path: &Path) -> std::io::Result<UnixListener> {
    /// As many as the standard library lets wait.
    const WAITING: i32 = 128;
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    const HANG: Duration = Duration::from_secs(20);

    fn alone(size: usize) -> Place {
        Place {
            ranks: 0..size,
            size,
            launched: None,
        }
    }

    /// Not only when yod has come round to it.
    #[test]
    fn a_socket_is_the_users_from_the_first_moment() {
        let path = std::env::temp_dir().join(format!("margay-gdb-mode-{}", std::process::id()));
        let _listener = bind(&path).expect("bound");
        let mode = std::fs::metadata(&path).expect("a socket").mode();
        std::fs::remove_file(&path).expect("there");
        assert_eq!(mode & 0o777, 0o600);
    }

    /// gdb was refused that came between bind(2) and listen(2).
    #[test]
    fn who_sees_the_path_can_connect() {
        const ROUNDS: usize = 400;
        let path = std::env::temp_dir().join(format!("margay-gdb-seen-{}", std::process::id()));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let gdb = scope.spawn(|| {
                let address = SocketAddrUnix::new(&path).expect("short");
                // It may come more often than a socket lets wait.
                let flags = SocketFlags::NONBLOCK;
                let mut refused = 0;
                while !over.load(Ordering::Relaxed) {
                    let socket =
                        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                            .expect("a socket");
                    let connected = net::connect(&socket, &address);
                    refused += usize::from(connected == Err(Errno::CONNREFUSED));
                }
                refused
            });
            // They listen to the end: gdb may connect to one whose path is gone.
            let listeners = (0..ROUNDS).map(|_| {
                let listener = bind(&path).expect("bound");
                std::fs::remove_file(&path).expect("there");
                listener
            });
            let listeners: Vec<UnixListener> = listeners.collect();
            over.store(true, Ordering::Relaxed);
            assert_eq!(gdb.join().expect("it ends"), 0);
            drop(listeners);
        });
    }

    #[test]
    fn sockets_are_made_and_go() {
        let base = std::env::temp_dir().join(format!("margay-gdb-test-{}", std::process::id()));
        let mut sockets = Sockets::new(Some(&base), &alone(2)).expect("two");
        let paths = sockets.all.clone();
        assert!(paths[0] != paths[1] && paths.iter().all(|path| path.exists()));
        let busy = Sockets::new(Some(&base), &alone(2)).expect_err("in use");
        assert!(
            busy.line.contains(".0: ") && busy.line.contains("in use"),
            "{busy:?}"
        );
        assert!(paths[0].exists(), "it is another's");
        // What was left behind by a yod that was killed is no hindrance.
        drop(sockets.take(0));
        drop(sockets.take(1));
        // A child that another test starts has the listeners until it calls exec.
        let begin = Instant::now();
        let again = loop {
            match Sockets::new(Some(&base), &alone(2)) {
                Err(failure) => {
                    assert!(begin.elapsed() < HANG, "nothing listens there: {failure:?}")
                }
                Ok(again) => break again,
            }
            std::thread::yield_now();
        };
        drop(again);
        assert!(paths.iter().all(|path| !path.exists()));
        std::fs::write(&base, "a file").expect("written");
        Sockets::new(Some(&base), &alone(1)).expect_err("no socket");
        assert_eq!(std::fs::read(&base).expect("there"), b"a file");
        std::fs::remove_file(&base).expect("removed");
        let nowhere = Sockets::new(Some(Path::new("/nonexistent/socket")), &alone(1));
        assert_eq!(nowhere.expect_err("no directory").status, 71);
    }
}
