//! Who may be at the other end of a connection between yods.
//!
//! It must be a process of this user. Where user ids are mapped in part, as in a user namespace, all others read as one and
//! the same id (overflowuid): when that is the user's own as well, users cannot be distinguished, and no peer is let in.
//!
//! And it must not be a rank's proxy, which makes the calls of a program. A proxy looks at whom it has connected its rank to,
//! but another thread of the rank may speak before it has. So those that are spoken to look as well, before they listen:
//! a proxy is what a yod has started.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

/// User ids of a complete map: all but -1 (user_namespaces(7)).
const ALL_IDS: u64 = u32::MAX as u64;
/// The name of the process that starts proxies.
const YOD: &str = "yod";

/// The process at the other end of a connection. Of a listener that is the one that called listen(2).
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// `None` in another PID namespace (pid_namespaces(7)).
    pub pid: Option<Pid>,
    uid: u32,
}

impl Peer {
    /// By SO_PEERCRED (unix(7)); `None` of what has none.
    pub fn of(connection: &impl AsFd) -> Option<Peer> {
        let peer = getsockopt(connection, sockopt::PeerCredentials).ok()?;
        Some(Peer {
            pid: Pid::from_raw(peer.pid()),
            uid: peer.uid(),
        })
    }

    /// Whether it may take part.
    pub fn is_admitted(self) -> bool {
        Some(self.uid) == user() && self.pid.is_some_and(|pid| !may_be_rank(pid))
    }

    /// Whether it is no more.
    pub fn has_ended(self) -> bool {
        let found = self.pid.map(test_kill_process);
        found == Some(Err(Errno::SRCH))
    }
}

/// Whether the process at the other end of a connection may take part.
pub fn admits(connection: &impl AsFd) -> bool {
    Peer::of(connection).is_some_and(Peer::is_admitted)
}

/// This process's user, if no other user has that id.
pub fn user() -> Option<u32> {
    let number = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
    let overflow = number("/proc/sys/kernel/overflowuid")?;
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let own = geteuid().as_raw();
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

/// Whether a process is a rank's proxy, or cannot be read: where /proc hides processes it hides those that may not be traced.
fn may_be_rank(pid: Pid) -> bool {
    let parent = status(pid.as_raw_pid(), "PPid").and_then(|parent| parent.parse().ok());
    parent.is_none_or(is_yod)
}

/// Whether a process runs yod, and not a script of that name. One that is hidden is another user's, or in another PID namespace.
pub fn is_yod(pid: i32) -> bool {
    let exe = format!("/proc/{pid}/exe");
    match fs::read_link(&exe) {
        Ok(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.trim_end_matches(" (deleted)") == YOD || is_same_file(&exe, "/proc/self/exe")
        }
        Err(_) => status(pid, "Name").is_some_and(|name| name == YOD),
    }
}

fn is_same_file(one: &str, other: &str) -> bool {
    let id = |path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    id(one).is_some_and(|one| id(other) == Some(one))
}

/// A field of /proc/PID/status (proc(5)).
fn status(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let found = lines.find(|(name, _)| *name == field);
    found.map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOBODY, SOCKET, listener, no_process_starts, skipped};
    use super::*;
    use rustix::net::{
        AddressFamily, RecvFlags, SocketAddrUnix, SocketType, accept, connect, recv, socket,
    };
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    const CONNECTS: &str = "rendezvous::peer::tests::connects";
    /// By a shell: what this program itself has started would pass for a rank's proxy.
    const RUN: &str = "\"$0\" --exact \"$1\" --ignored >&2; exit $?";

    /// What is started to connect: not a test by itself.
    #[test]
    #[ignore = "for another test to start"]
    fn connects() {
        let path = std::env::var_os(SOCKET).expect("a path");
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        connect(
            &socket,
            &SocketAddrUnix::new(Path::new(&path)).expect("short"),
        )
        .expect("listens");
        let _ = recv(&socket, &mut [0u8; 1][..], RecvFlags::empty()); // until it is let go
    }

    /// A second thread of a rank could introduce itself as a yod of another job, and be given that job's node, before its proxy
    /// had seen to whom the first thread had connected it.
    #[test]
    fn what_a_yod_has_started_is_not_let_in() {
        let _alone = no_process_starts();
        let (dir, path, listener) = listener("rank");
        let script = dir.join("script");
        fs::create_dir(&script).expect("a directory");
        for (shell, admitted) in [
            (dir.join("mpirun"), true),
            (dir.join("yod"), false),
            (script.join("yod"), true),
        ] {
            if shell.starts_with(&script) {
                std::os::unix::fs::symlink("/bin/sh", &shell).expect("a link");
            } else {
                // Not by this process: whatever another test forks meanwhile would have the file open for writing.
                let mut copy = Command::new("cp");
                copy.arg("/bin/sh").arg(&shell);
                assert!(copy.status().expect("cp").success());
            }
            let own = std::env::current_exe().expect("this program");
            let mut starter = Command::new(&shell)
                .args(["-c", RUN])
                .args([own.as_os_str(), CONNECTS.as_ref()])
                .env(SOCKET, &path)
                .spawn()
                .expect("a shell");
            let connection = accept(&listener).expect("a connection");
            assert_eq!(
                admits(&connection),
                admitted,
                "started by {}",
                shell.display()
            );
            drop(connection);
            assert!(starter.wait().expect("its status").success());
        }
        fs::remove_dir_all(dir).expect("removed");
    }

    /// A process of another user is refused, even where the mode lets it reach the socket.
    #[test]
    fn another_user_is_not_let_in() {
        if !geteuid().is_root() {
            skipped("only root has a process of another user");
            return;
        }
        let _alone = no_process_starts();
        let (dir, path, listener) = listener("user");
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("its owner");
        fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("its owner");
        // Where that user can run it.
        let program = dir.join("connects");
        let own = std::env::current_exe().expect("this program");
        let copied = Command::new("cp").arg(own).arg(&program).status();
        assert!(copied.expect("cp").success());
        for (uid, admitted) in [(0, true), (NOBODY, false)] {
            let mut peer = Command::new("/bin/sh")
                .args(["-c", RUN])
                .args([program.as_os_str(), CONNECTS.as_ref()])
                .env(SOCKET, &path)
                .uid(uid)
                .spawn()
                .expect("a process");
            let connection = accept(&listener).expect("a connection");
            assert_eq!(admits(&connection), admitted, "user {uid}");
            drop(connection);
            assert!(peer.wait().expect("its status").success());
        }
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
