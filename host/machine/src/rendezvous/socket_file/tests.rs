//! Tests of the socket's file: who listens, who is let in, what is left.

use super::super::peer::admits;
use super::super::testing::{NOBODY, SOCKET, listener, no_process_starts, skipped};
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
    let _alone = no_process_starts();
    let dir = scratch("first");
    let place = dir.join("margay");
    let (file, Found::Listener(listener)) = found(&place, "job") else {
        panic!("somebody is there already");
    };
    let mode = fs::metadata(&place).expect("a directory").mode();
    assert_eq!(mode & 0o777, 0o700);
    let (_, Found::Connection(_connection)) = found(&place, "job") else {
        panic!("no listener");
    };
    let connection = accept(&listener).expect("a connection");
    assert!(admits(&connection));
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

/// A yod killed while another yod connected to it could not be read, and passed for a process that may not take part.
#[test]
fn one_that_is_killed_meanwhile_is_no_listener() {
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
    let error = connected(&path).expect_err("a listener without an answer");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    drop(listener);
    assert!(connected(&path).expect("no listener is no error").is_none());
    fs::remove_dir_all(dir).expect("removed");
}

/// What is started in a PID namespace of its own: not a test by itself.
#[test]
#[ignore = "for another test to start"]
fn connects_from_elsewhere() {
    let path = std::env::var_os(SOCKET).expect("a path");
    let error = connected(Path::new(&path)).expect_err("not a trusted one");
    assert!(error.to_string().contains("PID namespace"), "{error}");
}

/// Two containers with one temporary directory: which process listens cannot be known. Its number, 0, was no valid value of
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
        skipped("no namespaces here");
        return;
    }
    let (dir, path, _listener) = listener("elsewhere");
    let own = std::env::current_exe().expect("this program");
    let connects = unshare()
        .arg(own)
        .args(["--exact", "--ignored"])
        .arg("rendezvous::socket_file::tests::connects_from_elsewhere")
        .env(SOCKET, &path)
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

/// Any process could take the keeper's name first.
/// What another user had made in /tmp kept a user's jobs from starting for ever.
#[test]
fn where_the_name_is_taken_the_job_has_one_of_its_own() {
    let _alone = no_process_starts();
    let dir = scratch("taken");
    let place = dir.join("margay");
    let takers: [fn(&Path) -> io::Result<()>; 3] = [
        |place| fs::write(place, "a file"),
        |place| std::os::unix::fs::symlink("/", place),
        |place| {
            fs::create_dir(place)?;
            fs::write(place.join("something"), "")?;
            fs::set_permissions(place, fs::Permissions::from_mode(0o755))
        },
    ];
    for take in takers {
        take(&place).expect("something there");
        let (file, Found::Listener(_listener)) = found(&place, "job") else {
            panic!("the first listens");
        };
        let (_, Found::Connection(_connection)) = found(&place, "job") else {
            panic!("and the next finds it");
        };
        file.remove();
        assert_eq!(fs::read_dir(&dir).expect("a directory").count(), 1);
        let _ = fs::remove_file(&place).or_else(|_| fs::remove_dir_all(&place));
    }
    fs::remove_dir(&dir).expect("an empty directory");
}

#[test]
fn a_directory_that_others_may_enter_is_not_used() {
    let dir = scratch("others");
    let place = dir.join("margay");
    fs::create_dir(&place).expect("a directory");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("its owner");
    let refused = find_at(&place.join("name")).expect_err("open to others");
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    if rustix::process::geteuid().is_root() {
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
