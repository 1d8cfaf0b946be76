//! Sockets by which others could reach a job: there are none. Skipped where no kernel is built.

mod common;

use std::io::ErrorKind::PermissionDenied;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};

use common::job::{member, program, start};
use common::{assert_gone, descendants, finish, run, signal, skipped, yod, yod_path};
use rustix::process::Signal;

/// Whether a process has a socket of this host's Unix domain that others can connect to; `None` when its descriptors
/// may not be looked at, as those of a process that is not dumpable may by root alone.
fn listens(pid: i32) -> Option<bool> {
    /// __SO_ACCEPTCON, in the fourth column (net/unix/af_unix.c, unix_seq_show); the seventh is the inode.
    const LISTENS: u64 = 1 << 16;
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("/proc");
    let open = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == PermissionDenied => return None,
        open => open.expect("descriptors of a living process"),
    };
    let mut targets = Vec::new();
    for link in open.flatten() {
        match std::fs::read_link(link.path()) {
            Ok(target) => targets.push(target.to_string_lossy().into_owned()),
            Err(error) if error.kind() == PermissionDenied => return None,
            Err(_) => {} // closed meanwhile
        }
    }
    let mut listening = sockets.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let flags = u64::from_str_radix(columns.get(3)?, 16).ok()?;
        (flags & LISTENS != 0).then(|| format!("socket:[{}]", columns[6]))
    });
    Some(listening.any(|socket| targets.contains(&socket)))
}

/// A keeper listened by an abstract name, which any process could take or connect to. Now none can connect to one, a job has
/// nothing in the file system while it runs, and so leaves nothing, whichever process is killed.
#[test]
fn a_running_job_has_no_socket_and_no_file() {
    let Some((program, _)) = program("socket") else {
        return;
    };
    let temporary = program.with_file_name("tmp");
    std::fs::create_dir(&temporary).expect("a directory");
    let name = format!("margay-control-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a name");
    let _control = UnixListener::bind_addr(&address).expect("bound");
    assert_eq!(listens(std::process::id() as i32), Some(true));
    let nothing_there = || {
        let entries = std::fs::read_dir(&temporary).expect("there");
        assert_eq!(entries.count(), 0);
    };
    let mut unseen = false;
    for (victim, status) in [("margay-keeper", 137), ("yod", 137), ("program", 137)] {
        let mut yod = yod();
        yod.args(["-m", "64M"])
            .env_remove("XDG_RUNTIME_DIR")
            .env("TMPDIR", &temporary);
        let child = start(&program, &mut yod, "w");
        nothing_there();
        let pid = child.id() as i32;
        let job = descendants(pid);
        let members = job.iter().map(|process| process.pid);
        for member in members.chain([pid]) {
            let listens = listens(member);
            assert_ne!(listens, Some(true), "{member} of yod {pid}, {job:?}");
            unseen |= listens.is_none();
        }
        signal(
            if victim == "yod" {
                pid
            } else {
                member(&job, victim)
            },
            Signal::KILL,
        );
        assert_eq!(finish(child).status, status, "{victim}");
        assert_gone(&job);
        nothing_there();
    }
    if unseen {
        skipped("only root sees what keeper and proxy have open");
    }
}

/// Where all foreign users have the user's own id there must be no socket: a job of one yod needs none, and yods that a launcher
/// has started say why they cannot meet.
#[test]
fn an_unmapped_user_namespace_has_no_socket() {
    let Some((program, _)) = program("namespace") else {
        return;
    };
    let can = Command::new("unshare").args(["--user", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        skipped("no user namespaces here");
        return;
    }
    let temporary = program.with_file_name("tmp");
    std::fs::create_dir(&temporary).expect("a directory");
    let mut yod = Command::new("unshare");
    yod.args(["--user", yod_path(), "-m", "64M"])
        .env_remove("XDG_RUNTIME_DIR")
        .env("TMPDIR", &temporary);
    let child = start(&program, &mut yod, "w");
    assert_eq!(std::fs::read_dir(&temporary).expect("there").count(), 0);
    let job = descendants(child.id() as i32);
    signal(child.id() as i32, Signal::TERM);
    assert_eq!(finish(child).status, 143);
    assert_gone(&job);
    let launched = yod.stdout(Stdio::piped()).stderr(Stdio::piped()).envs([
        ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ]);
    run(launched).one_line(69, "in this user namespace other users have the same id");
}
