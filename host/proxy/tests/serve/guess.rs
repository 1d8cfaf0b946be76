//! Opening files while another thread may guess the number that they get.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::CWD;

use crate::Case;
use crate::node::{DATA, Directory, Node};
use crate::reach::ram;
use crate::threads::node_of;

pub const CASES: &[Case] = &[
    (
        "nothing_is_open_before_it_was_checked",
        nothing_is_open_before_it_was_checked,
    ),
    ("threads_open_as_one_does", threads_open_as_one_does),
    ("numbers_run_out_alike", numbers_run_out_alike),
    (
        "links_that_change_lead_to_what_was_checked",
        links_that_change_lead_to_what_was_checked,
    ),
    (
        "numbers_that_are_taken_stay_open",
        numbers_that_are_taken_stay_open,
    ),
];

const PATH: u64 = DATA.0;
const HOW: u64 = DATA.0 + 0x1000;
const BUF: u64 = DATA.0 + 0x2000;
const HERE: u64 = libc::AT_FDCWD as u64;
const EBADF: i64 = -9;

/// The proxy's memory was open for as long as it took to see what had been opened: another thread could read and write it.
fn nothing_is_open_before_it_was_checked() {
    const ROUNDS: usize = 3000;
    const EACCES: i64 = -13;
    let mut node = node_of(2);
    node.put(PATH, b"/proc/self/mem\0");
    node.put(BUF, b"its own memory");
    for round in 0..ROUNDS {
        node.begin_on(0, libc::SYS_open, &[PATH, libc::O_RDWR as u64, 0]);
        while !node.answered_on(0) {
            let read = node.call_on(1, libc::SYS_pread64, &[3, BUF + 0x100, 8, BUF]);
            assert_eq!(read, EBADF, "round {round}");
        }
        assert_eq!(node.finish_on(0), EACCES);
    }
}

/// One open: the flags, and where in openat2's structure the path may not lead.
type Open = (&'static str, i32, u64);

const RW: i32 = libc::O_RDWR;
const CREAT: i32 = libc::O_CREAT;
const NEW: i32 = libc::O_CREAT | libc::O_EXCL;
const NOFOLLOW: i32 = libc::O_NOFOLLOW;
const DIRECTORY: i32 = libc::O_DIRECTORY;
const NONBLOCK: i32 = libc::O_NONBLOCK;
// uapi/linux/openat2.h
const NO_SYMLINKS: u64 = 4;
const BENEATH: u64 = 8;
const UNKNOWN: u64 = 1 << 40;

const OPENS: &[Open] = &[
    ("file", 0, 0),
    ("file", RW | libc::O_APPEND | libc::O_CLOEXEC, 0),
    ("file", RW | CREAT, 0),
    ("file", RW | libc::O_TRUNC | NOFOLLOW, 0),
    ("file", NEW, 0),
    ("file", DIRECTORY, 0),
    ("file", libc::O_PATH, 0),
    ("file/", 0, 0),
    ("new", RW | CREAT, 0),
    ("new", RW | NEW, 0),
    ("new", RW, 0),
    ("new/", CREAT, 0),
    ("nowhere/new", CREAT, 0),
    ("", CREAT, 0),
    (".", 0, 0),
    (".", RW, 0),
    (".", CREAT, 0),
    (".", RW | libc::O_TMPFILE, 0),
    ("link", RW, 0),
    ("link", RW | CREAT, 0),
    ("link", NOFOLLOW, 0),
    ("link", NOFOLLOW | CREAT, 0),
    ("link", NEW, 0),
    ("dangling", 0, 0),
    ("dangling", RW | CREAT, 0),
    ("dangling", RW | CREAT | NOFOLLOW, 0),
    ("dangling", RW | NEW, 0),
    ("loop", RW | CREAT, 0),
    ("fifo", RW | NONBLOCK | CREAT, 0),
    ("fifo", libc::O_WRONLY | NONBLOCK, 0),
    ("socket", RW, 0),
    ("/dev/null", RW, 0),
    ("/dev/stdin", 0, 0),
    ("/proc/self/cwd/new", RW | CREAT, 0),
    ("/proc/self/cwd/dangling", RW | CREAT, 0),
    ("/proc/self/status", 0, 0),
    ("/proc/self/status", libc::O_WRONLY, 0),
    ("/proc/self/environ", libc::O_CLOEXEC, 0),
    ("/sys/devices/system/cpu/online", 0, 0),
    ("file", RW | CREAT, NO_SYMLINKS),
    ("link", 0, NO_SYMLINKS),
    ("new", CREAT, BENEATH),
    ("../new", CREAT, BENEATH),
    ("file", 0, UNKNOWN),
];

/// What came of it: the result, status and descriptor flags, mode and length of what is open; and what is in the directory.
type Outcome = (i64, [i64; 2], Option<(u32, u64)>, Vec<(String, u64)>);

fn outcome(threads: usize, (path, flags, resolve): Open) -> Outcome {
    let directory = Directory::new(&format!("guess_{threads}"));
    let at = |name: &str| directory.0.join(name);
    std::fs::write(at("file"), "content").unwrap();
    symlink("file", at("link")).unwrap();
    symlink("made", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    let mut node = node_of(threads);
    node.put(PATH, &directory.path(""));
    assert_eq!(node.call(libc::SYS_chdir, &[PATH]), 0);
    node.put(PATH, format!("{path}\0").as_bytes());
    let mode = if flags & (CREAT | libc::O_TMPFILE & !DIRECTORY) == 0 {
        0
    } else {
        0o640
    };
    let how = node.put_words(HOW, &[flags as u64, mode, resolve]);
    let ret = match resolve {
        0 => node.call(libc::SYS_openat, &[HERE, PATH, flags as u64, mode]),
        _ => node.call(libc::SYS_openat2, &[HERE, PATH, how, 24]),
    };
    let flags = [libc::F_GETFL, libc::F_GETFD]
        .map(|of| node.call(libc::SYS_fcntl, &[ret as u64, of as u64]) & !i64::from(NOFOLLOW));
    let open = std::fs::metadata(format!("/proc/{}/fd/{ret}", node.pid())).ok();
    // How long a status is depends on what is in it.
    let open = open.map(|open| (open.permissions().mode(), open.len()));
    let open = open.filter(|_| !path.starts_with("/proc"));
    let entries = std::fs::read_dir(&directory.0).unwrap();
    let mut entries: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, entry.metadata().unwrap().len())
        })
        .collect();
    entries.sort();
    (ret, flags, open, entries)
}

/// What is checked before it is opened is opened as what is checked afterwards.
fn threads_open_as_one_does() {
    for open in OPENS {
        assert_eq!(outcome(2, *open), outcome(1, *open), "{open:x?}");
    }
}

/// Once files that are answered for the rank could not be opened after a program had set its limit: EINVAL.
fn numbers_run_out_alike() {
    let numbers = |threads| {
        let mut node = node_of(threads);
        let hard = node.area().host.rlimits[libc::RLIMIT_NOFILE as usize][1].load();
        let set = [libc::RLIMIT_NOFILE as u64, 0, 7, hard];
        assert_eq!(node.call(libc::SYS_setrlimit, &set), 0);
        assert_eq!(node.call(libc::SYS_close_range, &[3, 100, 0]), 0);
        ["null", "zero", "/proc/self/status", "full", "null"].map(|name| {
            let path = std::path::Path::new("/dev").join(name);
            let path = path.to_str().unwrap();
            let path = node.put(PATH, format!("{path}\0").as_bytes());
            node.call(libc::SYS_open, &[path, 0, 0])
        })
    };
    assert_eq!(numbers(1), [3, 4, 5, 6, -24]); // EMFILE
    assert_eq!(numbers(2), numbers(1));
}

/// What the proxy opens on the way has one of the rank's numbers for a moment, and is closed by it: a thread that had another
/// file made of just this number lost it again.
fn numbers_that_are_taken_stay_open() {
    const ROUNDS: usize = 3000;
    let mut node = node_of(2);
    let null = node.put(PATH, b"/dev/null\0");
    let tmp = node.put(BUF, b"/tmp\0");
    let check = [tmp, 0];
    node.begin_on(0, libc::SYS_access, &check);
    for round in 0..ROUNDS {
        let first = node.call_on(1, libc::SYS_open, &[null, 0, 0]) as u64;
        for taken in first + 1..first + 4 {
            let copied = node.call_on(1, libc::SYS_dup2, &[first, taken]);
            assert_eq!(copied, taken as i64, "round {round}");
            if node.answered_on(0) {
                assert_eq!(node.finish_on(0), 0);
                node.begin_on(0, libc::SYS_access, &check);
            }
        }
        for taken in first..first + 4 {
            let args = [taken, libc::F_GETFD as u64];
            let open = node.call_on(1, libc::SYS_fcntl, &args);
            assert_eq!(open, 0, "round {round}, {taken}");
            assert_eq!(node.call_on(1, libc::SYS_close, &[taken]), 0);
        }
    }
    assert_eq!(node.finish_on(0), 0);
}

/// Where a path led was checked, and Linux followed it again for the call: a link that was exchanged in between led chmod to
/// guest RAM.
fn links_that_change_lead_to_what_was_checked() {
    const ROUNDS: usize = 400;
    const ENOENT: i64 = -2;
    let directory = Directory::new("links_that_change");
    let mut node = node_of(1);
    let [file, link, other] = ["file", "link", "other"].map(|name| directory.0.join(name));
    std::fs::write(&file, "").unwrap();
    symlink("file", &link).unwrap();
    symlink(format!("/proc/self/fd/{}", ram(&node)), &other).unwrap();
    let mode = |node: &Node| rustix::fs::fstat(&node.memfd).unwrap().st_mode;
    let before = mode(&node);
    // On the way to the link there is time to exchange it.
    std::fs::create_dir(directory.0.join("a")).unwrap();
    node.put(
        PATH,
        &directory.path(&format!("{}link", "a/../".repeat(780))),
    );
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &link, CWD, &other, flags).unwrap();
            }
        });
        let rets: Vec<i64> = (0..ROUNDS)
            .map(|round| node.call(libc::SYS_chmod, &[PATH, 0o600 + round as u64 % 8]))
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(rets.iter().all(|ret| [0, ENOENT].contains(ret)), "{rets:?}");
        assert!(rets.contains(&0) && rets.contains(&ENOENT));
    });
    assert_eq!(mode(&node), before);
}
