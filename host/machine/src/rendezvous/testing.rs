//! What several tests of this room need.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

/// The variable by which a test that another starts finds a socket.
pub const SOCKET: &str = "MARGAY_TEST_SOCKET";
/// A user who is not root.
pub const NOBODY: u32 = 65534;

/// A process that is being started has copies of all descriptors until it calls exec, so sockets and locks that another test has
/// closed are not closed yet. Tests that start one, or that rely on what they have closed, hold this.
pub fn no_process_starts() -> MutexGuard<'static, ()> {
    static STARTS: Mutex<()> = Mutex::new(());
    STARTS.lock().unwrap_or_else(|error| error.into_inner())
}

/// Says that a test was not run. print! is shown of tests that fail only.
pub fn skipped(why: &str) {
    let line = format!("skipped: {why}\n");
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// A socket in a directory of its own that listens: both paths, and the socket.
pub fn listener(test: &str) -> (PathBuf, PathBuf, OwnedFd) {
    let name = format!("margay-peer-{test}-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("socket");
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("bound");
    listen(&listener, 1).expect("listens");
    (dir, path, listener)
}
