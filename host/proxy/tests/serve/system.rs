//! What /sys says of processors and memory: the node's, whatever the host has, and by whatever way it is read.

pub mod trees;

use std::os::unix::fs::symlink;

use crate::Case;
use crate::files::{names, open};
use crate::node::{DATA, Directory, Node};

pub const CASES: &[Case] = &[
    ("cores_that_the_host_lacks", cores_that_the_host_lacks),
    ("every_way_to_a_file", every_way_to_a_file),
    ("listings", listings),
    ("listings_in_small_pieces", listings_in_small_pieces),
    ("paths_out_of_a_tree", paths_out_of_a_tree),
    ("no_way_out_to_the_proxy", no_way_out_to_the_proxy),
];

const PATH: u64 = DATA.0;
const BUF: u64 = DATA.0 + 0x2000;
const AT: u64 = libc::AT_FDCWD as u64;
const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";
const DIRECTORY: u64 = libc::O_DIRECTORY as u64;
const ENOENT: i64 = -2;
const EROFS: i64 = -(libc::EROFS as i64);

fn open_at(node: &mut Node, at: u64, path: &str, flags: i32) -> i64 {
    node.put(PATH, format!("{path}\0").as_bytes());
    node.call(libc::SYS_openat, &[at, PATH, flags as u64, 0o644])
}

fn path_call(node: &mut Node, nr: i64, path: &str, more: &[u64]) -> i64 {
    node.put(PATH, format!("{path}\0").as_bytes());
    node.call(nr, &[&[PATH], more].concat())
}

/// Reads what is open and closes it.
fn text(node: &mut Node, fd: i64) -> String {
    assert!(fd >= 0, "{fd}");
    let len = node.call(libc::SYS_read, &[fd as u64, BUF, 4096]);
    assert!(len >= 0, "{len}");
    node.call(libc::SYS_close, &[fd as u64]);
    String::from_utf8(node.get(BUF, len as usize)).unwrap()
}

fn says(node: &mut Node, path: &str) -> String {
    let fd = open_at(node, AT, path, libc::O_RDONLY);
    text(node, fd)
}

/// Once the host's files were read: a node of more or fewer cores was described by them.
fn cores_that_the_host_lacks() {
    let mut node = Node::new();
    let cores = node.core_count();
    let all = format!("0-{}\n", cores - 1);
    for name in ["online", "possible", "present"] {
        assert_eq!(says(&mut node, &format!("{CPU}/{name}")), all);
    }
    let last = cores - 1;
    assert_eq!(
        says(&mut node, &format!("{CPU}/cpu{last}/topology/core_id")),
        format!("{last}\n")
    );
    let beyond = format!("{CPU}/cpu{cores}/topology/core_id");
    assert_eq!(open_at(&mut node, AT, &beyond, 0), ENOENT);
    assert_eq!(
        open_at(&mut node, AT, &format!("{CPU}/vulnerabilities"), 0),
        ENOENT
    );
    assert_eq!(says(&mut node, &format!("{NODE}/node0/cpulist")), all);
    assert!(says(&mut node, &format!("{NODE}/node0/meminfo")).starts_with("Node 0 MemTotal:"));
}

fn every_way_to_a_file() {
    let (mut node, directory) = (Node::new(), Directory::new("every_way"));
    let all = says(&mut node, &format!("{CPU}/online"));
    symlink(format!("{CPU}/online"), directory.0.join("file")).unwrap();
    symlink(CPU, directory.0.join("tree")).unwrap();
    let own = directory.0.to_str().unwrap();
    for path in [
        "//sys/./devices//system/cpu/online",
        "/sys/devices/system/cpu/../cpu/online",
        "/sys/devices/system/node/../cpu/cpu1/../online",
        "/sys/devices/../devices/system/node/node0/cpu1/../online",
        "/sys/bus/cpu/devices/cpu0/subsystem/devices/cpu1/../online",
        &format!("/proc/self/{}{CPU}/online", "root"), // in one word a home directory
        &format!("{own}/file"),
        &format!("{own}/tree/online"),
        &format!("{own}/tree/cpu1/node0/cpulist"),
    ] {
        assert_eq!(says(&mut node, path), all, "{path}");
    }
    for (at, path) in [
        ("/", "sys/devices/system/cpu/online"),
        ("/sys", "devices/system/cpu/online"),
        ("/sys/devices/system", "cpu/online"),
        (CPU, "online"),
        (CPU, "./cpu0/../online"),
        (CPU, "../cpu/online"),
        (CPU, "../../../bus/cpu/devices/cpu1/node0/cpulist"),
        (&format!("{CPU}/cpu1/topology"), "../../online"),
        (NODE, "node0/cpu0/../online"),
    ] {
        for flags in [libc::O_RDONLY, libc::O_PATH] {
            let fd = open_at(&mut node, AT, at, flags | libc::O_DIRECTORY);
            assert!(fd >= 0, "{at}: {fd}");
            let file = open_at(&mut node, fd as u64, path, 0);
            assert_eq!(text(&mut node, file), all, "{at} {path}");
            node.call(libc::SYS_close, &[fd as u64]);
        }
    }
    for (path, errno) in [
        ("/sys/devices/system/cpu/online/", libc::ENOTDIR),
        ("/sys/devices/system/cpu/online/.", libc::ENOTDIR),
        ("/sys/devices/system/cpu/cpu01", libc::ENOENT),
        ("/sys/devices/system/cpu/none/online", libc::ENOENT),
        (
            &format!("/sys/devices/system/cpu/{}", "x".repeat(256)),
            libc::ENAMETOOLONG,
        ),
        (
            &format!("/sys/devices/system/cpu/{}", "./".repeat(2100)),
            libc::ENAMETOOLONG,
        ),
    ] {
        assert_eq!(open_at(&mut node, AT, path, 0), -i64::from(errno), "{path}");
    }
}

fn all_names(node: &mut Node, fd: u64, room: u64) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let len = node.call(libc::SYS_getdents64, &[fd, BUF, room]);
        assert!(len >= 0, "{len}");
        if len == 0 {
            return all;
        }
        all.extend(names(&node.get(BUF, len as usize)));
    }
}

fn listings() {
    let mut node = Node::new();
    let cores = node.core_count();
    let fd = open(&mut node, format!("{CPU}\0").as_bytes(), DIRECTORY) as u64;
    let listed = all_names(&mut node, fd, 4096);
    let mut want: Vec<String> = (0..cores).map(|core| format!("cpu{core}")).collect();
    for name in [
        ".",
        "..",
        "enabled",
        "isolated",
        "kernel_max",
        "offline",
        "online",
        "possible",
        "present",
    ] {
        want.push(name.into());
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(listed.clone()), sorted(want));
    assert_eq!(node.call(libc::SYS_lseek, &[fd, 0, 0]), 0);
    assert_eq!(all_names(&mut node, fd, 4096), listed, "after rewinddir");
    for name in listed.iter().filter(|name| *name != "..") {
        let below = open_at(&mut node, fd, name, 0);
        assert!(below >= 0, "{name}: {below}");
        node.call(libc::SYS_close, &[below as u64]);
    }
    let errno = |errno: i32| -i64::from(errno);
    assert_eq!(
        node.call(libc::SYS_read, &[fd, BUF, 10]),
        errno(libc::EISDIR)
    );
    assert_eq!(
        node.call(libc::SYS_getdents64, &[fd, 8, 4096]),
        0,
        "at its end nothing is written"
    );
    assert_eq!(node.call(libc::SYS_lseek, &[fd, 0, 0]), 0);
    assert_eq!(
        node.call(libc::SYS_getdents64, &[fd, 8, 4096]),
        errno(libc::EFAULT)
    );
    let file = open(&mut node, format!("{CPU}/online\0").as_bytes(), 0) as u64;
    assert_eq!(
        node.call(libc::SYS_getdents64, &[file, BUF, 4096]),
        errno(libc::ENOTDIR)
    );
    let pinned = open(
        &mut node,
        format!("{CPU}\0").as_bytes(),
        libc::O_PATH as u64,
    ) as u64;
    assert_eq!(
        node.call(libc::SYS_getdents64, &[pinned, BUF, 4096]),
        errno(libc::EBADF)
    );
}

fn listings_in_small_pieces() {
    let mut node = Node::new();
    let fd = open(&mut node, format!("{CPU}\0").as_bytes(), DIRECTORY) as u64;
    let whole = all_names(&mut node, fd, 4096);
    for nr in [libc::SYS_getdents64, libc::SYS_getdents] {
        node.call(libc::SYS_lseek, &[fd, 0, 0]);
        assert_eq!(node.call(nr, &[fd, BUF, 20]), -i64::from(libc::EINVAL));
        assert_eq!(node.call(nr, &[fd, BUF, 24]), 24, "just one entry");
    }
    node.call(libc::SYS_lseek, &[fd, 0, 0]);
    let copy = node.call(libc::SYS_dup, &[fd]) as u64;
    let mut pieces = Vec::new();
    for fd in [fd, copy].iter().cycle() {
        let len = node.call(libc::SYS_getdents64, &[*fd, BUF, 40]);
        assert!(len >= 0, "{len}");
        if len == 0 {
            break;
        }
        pieces.extend(names(&node.get(BUF, len as usize)));
    }
    assert_eq!(pieces, whole);
}

fn paths_out_of_a_tree() {
    let (mut node, directory) = (Node::new(), Directory::new("out_of_tree"));
    std::fs::write(directory.0.join("file"), "outside").unwrap();
    let up = "../../../..";
    let path = format!("{up}{}/file", directory.0.display());
    let fd = open(&mut node, format!("{CPU}\0").as_bytes(), DIRECTORY) as u64;
    let file = open_at(&mut node, fd, &path, 0);
    assert_eq!(text(&mut node, file), "outside");
    node.put(PATH, format!("{path}\0").as_bytes());
    assert_eq!(node.call(libc::SYS_newfstatat, &[fd, PATH, BUF, 0]), 0);
    assert_eq!(node.get(BUF + 48, 1), [7], "its size");
    assert_eq!(node.call(libc::SYS_unlinkat, &[fd, PATH, 0]), 0);
    assert!(!directory.0.join("file").exists());
}

/// A path that begins in a tree is followed as any other when it leads out.
fn no_way_out_to_the_proxy() {
    let mut node = Node::new();
    let fd = open(&mut node, format!("{CPU}\0").as_bytes(), DIRECTORY) as u64;
    let mem = open_at(&mut node, fd, "../../../../proc/self/mem", libc::O_RDWR);
    assert_eq!(mem, -i64::from(libc::EACCES));
    node.put(PATH, b"../../../../proc/self/exe\0");
    let len = node.call(libc::SYS_readlinkat, &[fd, PATH, BUF, 200]);
    let by_link = node.get(BUF, len as usize);
    let len = path_call(&mut node, libc::SYS_readlink, "/proc/self/exe", &[BUF, 200]);
    assert_eq!(by_link, node.get(BUF, len as usize));
    assert_eq!(path_call(&mut node, libc::SYS_chdir, CPU, &[]), 0);
    let mem = open_at(&mut node, AT, "../../../../proc/self/mem", libc::O_RDWR);
    assert_eq!(mem, -i64::from(libc::EACCES));
}
