//! What docs/trust.md promises of a rank's reach: each test is named there.

pub mod processes;

use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

use crate::Case;
use crate::files::open;
use crate::node::{DATA, Directory, Node, wait_for};
use processes::Keeper;

pub const CASES: &[Case] = &[
    ("its_own_memory_file", its_own_memory_file),
    ("threads_of_the_proxy", threads_of_the_proxy),
    ("descriptors_of_the_proxy", descriptors_of_the_proxy),
    ("entries_of_other_processes", entries_of_other_processes),
    ("lists_of_other_processes", lists_of_other_processes),
    ("harmless_links_are_followed", harmless_links_are_followed),
    ("its_own_program_file", its_own_program_file),
    ("devices_that_take_pointers", devices_that_take_pointers),
];

/// A user without rights (nobody).
const USER: u32 = 65534;
const PATH: u64 = DATA.0 + 0x1000;
const RDWR: u64 = libc::O_RDWR as u64;
const ENOENT: i64 = -2;
const EACCES: i64 = -13;

/// Opens a path in every way in which it can be spelled: as it is, behind a symbolic link, relative to a descriptor of its
/// directory, relative to the working directory, and by openat2.
fn open_all_ways(node: &mut Node, directory: &Directory, path: &str, flags: u64) -> Vec<i64> {
    let link = directory.0.join("link");
    let _ = std::fs::remove_file(&link);
    symlink(path, &link).unwrap();
    let mut rets = vec![
        open(node, format!("{path}\0").as_bytes(), flags),
        open(node, &directory.path("link"), flags),
        open(node, &directory.path("link"), flags | libc::O_CREAT as u64),
    ];
    let how = node.put_words(PATH + 0x800, &[flags, 0, 0]);
    node.put(PATH, &directory.path("link"));
    let at = libc::AT_FDCWD as u64;
    rets.push(node.call(libc::SYS_openat2, &[at, PATH, how, 24]));
    let (parent, name) = path.rsplit_once('/').unwrap();
    let (parent, name) = (format!("{parent}\0"), format!("{name}\0"));
    let directory = open(node, parent.as_bytes(), libc::O_DIRECTORY as u64);
    if directory >= 0 {
        node.put(PATH, name.as_bytes());
        rets.push(node.call(libc::SYS_openat, &[directory as u64, PATH, flags]));
        assert_eq!(node.call(libc::SYS_fchdir, &[directory as u64]), 0);
        rets.push(open(node, name.as_bytes(), flags));
        node.call(libc::SYS_close, &[directory as u64]);
    }
    rets
}

fn assert_out_of_reach(node: &mut Node, directory: &Directory, path: &str, errno: i64) {
    for flags in [0, RDWR] {
        for (way, ret) in open_all_ways(node, directory, path, flags)
            .iter()
            .enumerate()
        {
            assert_eq!(*ret, errno, "{path}, way {way}, flags {flags}");
        }
    }
}

/// The number of the proxy's watcher, which names itself.
fn watcher(node: &Node) -> i32 {
    let find = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", node.pid())).unwrap();
        let mut paths = threads.map(|entry| entry.unwrap().path());
        let is_watcher = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "watcher\n")
        };
        let watcher = paths.find(is_watcher)?;
        watcher.file_name()?.to_str()?.parse().ok()
    };
    wait_for(|| find().is_some());
    find().unwrap()
}

/// A descriptor of the proxy that is guest RAM.
pub fn ram(node: &Node) -> i32 {
    let open = std::fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap();
    let is_ram = |path: &std::path::Path| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:ram")
    };
    let path = open
        .map(|entry| entry.unwrap().path())
        .find(|path| is_ram(path));
    path.unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Once only a path that ended in `mem` was checked: a symbolic link of another name led to the proxy's memory. And the
/// directory `map_files` opened, which lists where the proxy's own code and memory are.
fn its_own_memory_file() {
    let (mut node, directory) = (Node::new(), Directory::new("own_memory"));
    let pid = node.pid();
    for path in [
        "/proc/self",
        "/proc/thread-self",
        &format!("/proc/{pid}/task/{pid}"),
    ] {
        assert_out_of_reach(&mut node, &directory, &format!("{path}/mem"), EACCES);
        assert_out_of_reach(&mut node, &directory, &format!("{path}/pagemap"), EACCES);
    }
    for path in ["/proc/self/map_files\0", "/proc/self/map_files/.\0"] {
        assert_eq!(open(&mut node, path.as_bytes(), 0), EACCES, "{path}");
    }
}

/// Once the directories of the proxy's other threads, which share its memory and descriptors, were Linux's affair.
fn threads_of_the_proxy() {
    let (mut node, directory) = (Node::new(), Directory::new("threads"));
    let (pid, watcher, ram) = (node.pid(), watcher(&node), ram(&node));
    for path in [
        format!("/proc/{watcher}"),
        format!("/proc/self/task/{watcher}"),
        format!("/proc/{watcher}/task/{watcher}"),
    ] {
        for name in [
            "mem",
            "status",
            "environ",
            "exe",
            "fd/0",
            &format!("fd/{ram}"),
        ] {
            assert_out_of_reach(&mut node, &directory, &format!("{path}/{name}"), ENOENT);
        }
    }
    let path = format!("/proc/{watcher}/task/{pid}/fd/{ram}");
    assert_out_of_reach(&mut node, &directory, &path, ENOENT);
}

/// Once a symbolic link or the working directory led to the proxy's descriptors, guest RAM among them.
fn descriptors_of_the_proxy() {
    let (mut node, directory) = (Node::new(), Directory::new("descriptors"));
    let (pid, ram) = (node.pid(), ram(&node));
    for path in [
        format!("/proc/self/fd/{ram}"),
        format!("/dev/fd/{ram}"),
        format!("/proc/{pid}/task/{pid}/fd/{ram}"),
    ] {
        assert_out_of_reach(&mut node, &directory, &path, ENOENT);
        for path in [format!("{path}\0").into_bytes(), directory.path("link")] {
            node.put(PATH, &path);
            assert_eq!(node.call(libc::SYS_truncate, &[PATH, 0]), ENOENT);
            // Once only open and truncate checked where a link of another name led.
            assert_eq!(node.call(libc::SYS_stat, &[PATH, PATH + 0x800]), ENOENT);
            assert_eq!(node.call(libc::SYS_chmod, &[PATH, 0]), ENOENT);
        }
    }
    assert!(
        node.get(DATA.0, 16).len() == 16,
        "guest RAM is as long as before"
    );
    assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
}

/// Once the entries of yod, keeper, QEMU and other ranks' proxies were as open as Linux has them for processes of one user.
fn entries_of_other_processes() {
    let (mut node, other) = (Node::new(), Node::new());
    let directory = Directory::new("others");
    let (yod, other_ram) = (std::process::id(), ram(&other));
    for path in [
        format!("/proc/{yod}/mem"),
        format!("/proc/{yod}/environ"),
        format!("/proc/{yod}/fd/0"),
        format!("/proc/{yod}/cwd/."),
        format!("/proc/{}/mem", other.pid()),
        format!("/proc/{}/fd/{other_ram}", other.pid()),
        format!("/proc/{}/exe", other.pid()),
    ] {
        assert_out_of_reach(&mut node, &directory, &path, EACCES);
    }
    // What any user may read.
    for name in ["status", "stat", "cmdline", "comm"] {
        let path = format!("/proc/{yod}/{name}");
        for ret in open_all_ways(&mut node, &directory, &path, 0) {
            assert!(ret >= 0, "{path}: {ret}");
            node.call(libc::SYS_close, &[ret as u64]);
        }
    }
}

/// What lists a process's descriptors, namespaces or mappings is closed of yod, keeper, what a keeper has started, and another
/// rank's proxy; its threads are as public as its name. Those of the rank's own proxy are not there.
fn lists_of_other_processes() {
    let (mut node, other, keeper) = (Node::new(), Node::new(), Keeper::start());
    let directory = Directory::new("lists");
    let (link, own) = (directory.0.join("link"), watcher(&node));
    let mut answers = |path: &str| {
        let _ = std::fs::remove_file(&link);
        symlink(path, &link).unwrap();
        let mut answers = Vec::new();
        for flags in [libc::O_DIRECTORY, libc::O_DIRECTORY | libc::O_PATH] {
            for path in [format!("{path}\0").as_bytes(), &directory.path("link")] {
                let ret = open(&mut node, path, flags as u64);
                if ret >= 0 {
                    node.call(libc::SYS_close, &[ret as u64]);
                }
                answers.push(ret.min(0));
            }
        }
        answers
    };
    let yod = std::process::id() as i32;
    for pid in [
        yod,
        keeper.process.id() as i32,
        keeper.child,
        other.pid(),
        watcher(&other),
    ] {
        for name in ["fd", "fdinfo", "ns"] {
            for path in [
                format!("/proc/{pid}/{name}"),
                format!("/proc/{pid}/task/{pid}/{name}"),
            ] {
                assert_eq!(answers(&path), [EACCES; 4], "{path}");
            }
        }
        let path = format!("/proc/{pid}/map_files");
        assert_eq!(answers(&path), [EACCES; 4], "{path}");
        let path = format!("/proc/{pid}/task");
        assert_eq!(answers(&path), [0; 4], "{path}");
    }
    for list in ["fd", "fdinfo", "task"] {
        let path = format!("/proc/{own}/{list}");
        assert_eq!(answers(&path), [ENOENT; 4], "{path}");
    }
    assert_eq!(answers("/proc/self/fd"), [0; 4]);
    assert_eq!(answers("/proc/self/task"), [0; 4]);
}

fn harmless_links_are_followed() {
    let (mut node, directory) = (Node::new(), Directory::new("links"));
    std::fs::write(directory.0.join("file"), "content").unwrap();
    symlink("file", directory.0.join("first")).unwrap();
    symlink(directory.0.join("first"), directory.0.join("second")).unwrap();
    symlink("loop", directory.0.join("loop")).unwrap();
    symlink("absent", directory.0.join("dangling")).unwrap();
    node.put(PATH, &directory.path(""));
    assert_eq!(node.call(libc::SYS_chdir, &[PATH]), 0);
    let kept = open(&mut node, b"file\0", RDWR);
    assert_eq!(kept, 3);
    let (file, flags) = (DATA.0 + 0x2000, libc::O_CREAT as u64 | RDWR);
    for (path, flags, want) in [
        ("second", 0, 4),
        ("/proc/self/cwd/second", 0, 4),
        ("/proc/self/fd/3", 0, 4),
        (concat!("/proc/self/ro", "ot/dev/null"), 0, 4),
        // Once what is Linux's to refuse and the rank's to read was refused behind a magic link.
        (concat!("/proc/self/ro", "ot/proc/self/environ"), 0, 4),
        ("/dev/stdin", 0, 4),
        ("/proc/self/cwd/new", flags, 4),
        ("/proc/self/cwd/dangling", flags, 4),
        ("/proc/self/cwd/loop", 0, -40),
        ("loop", 0, -40),
        ("/proc/self/cwd/second", libc::O_NOFOLLOW as u64, -40),
        ("/proc/self/cwd/first/", 0, -20),
        ("/proc/self/fd/3/file", 0, -20),
        ("/proc/self/cwd/gone", 0, ENOENT),
        ("/proc/self/cwd/file", flags | libc::O_EXCL as u64, -17),
        ("/proc/self/fd/77", 0, ENOENT),
    ] {
        let ret = open(&mut node, format!("{path}\0").as_bytes(), flags);
        assert_eq!(ret, want, "{path}: the lowest free number, or an error");
        if ret >= 0 {
            node.call(libc::SYS_close, &[ret as u64]);
        }
    }
    node.put(PATH, b"/proc/self/cwd/second\0");
    assert_eq!(node.call(libc::SYS_truncate, &[PATH, 4]), 0);
    assert_eq!(node.call(libc::SYS_pread64, &[3, file, 100, 0]), 4);
    assert!(directory.0.join("absent").exists() && directory.0.join("new").exists());
}

/// Their drivers follow pointers in what is written: into the proxy's memory. Once only root, who can make one, checked.
fn devices_that_take_pointers() {
    const ENXIO: i64 = -6;
    let (mut node, directory) = (Node::new(), Directory::new("devices"));
    let path = std::ffi::CString::new(directory.0.join("mem").to_str().unwrap()).unwrap();
    let device = rustix::fs::makedev(1, 1);
    // SAFETY: 1. mknod reads the path.
    let made = unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, device) } == 0;
    if made {
        assert_eq!(open(&mut node, path.as_bytes_with_nul(), 0), ENXIO);
    }
    // Miscellaneous ones and SCSI generic (Documentation/admin-guide/devices.txt). Without access nothing is set going, and all may.
    let is_other = |path: &std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|of| {
            of.file_type().is_char_device() && [10, 21].contains(&rustix::fs::major(of.rdev()))
        })
    };
    let devices = std::fs::read_dir("/dev").unwrap().flatten();
    let devices: Vec<_> = devices.map(|entry| entry.path()).filter(is_other).collect();
    for path in &devices {
        let path = format!("{}\0", path.display());
        let ret = open(&mut node, path.as_bytes(), libc::O_PATH as u64);
        assert_eq!(ret, ENXIO, "{path}");
    }
    if !made && devices.is_empty() {
        println!(
            "skipped: this host has no device that takes pointers, and only root can make one"
        );
    }
    for name in ["/dev/null\0", "/dev/zero\0", "/dev/urandom\0"] {
        let fd = open(&mut node, name.as_bytes(), 0);
        assert_eq!(fd, 3, "{name}");
        node.call(libc::SYS_close, &[fd as u64]);
    }
}

/// Calls that do not only examine /proc/self/exe reached the proxy's program, not the rank's.
fn its_own_program_file() {
    const EXDEV: i64 = -18;
    let (mut node, directory) = (Node::new(), Directory::new("program"));
    let program = open(&mut node, b"/proc/self/exe\0", 0);
    let program = format!("/proc/{}/fd/{program}", node.pid());
    let program = std::fs::metadata(program).unwrap();
    let exe = node.put(PATH, b"/proc/self/exe\0");
    let link = node.put(PATH + 0x100, &directory.path("link"));
    let (here, follow) = (libc::AT_FDCWD as u64, libc::AT_SYMLINK_FOLLOW as u64);
    match node.call(libc::SYS_linkat, &[here, exe, here, link, follow]) {
        0 => {
            let link = std::fs::metadata(directory.0.join("link")).unwrap();
            assert_eq!((link.dev(), link.ino()), (program.dev(), program.ino()));
        }
        // Another's file, or one elsewhere, cannot be linked to.
        ret => assert!([EXDEV, -1].contains(&ret), "{ret}"),
    }
}
