//! /dev/xpmem: the proxy has the path and recognizes the descriptors; the requests are the kernel's.

use std::os::unix::fs::symlink;

use crate::Case;
use crate::files::open;
use crate::node::{DATA, Directory, Node};

pub const CASES: &[Case] = &[
    ("it_is_there_by_its_path", it_is_there_by_its_path),
    ("its_descriptors_are_known", its_descriptors_are_known),
];

const PATH: u64 = DATA.0;
const BUF: u64 = DATA.0 + 0x2000;
const RDWR: u64 = libc::O_RDWR as u64;
const VERSION: u64 = 0x7800;
const AT_FDCWD: u64 = libc::AT_FDCWD as u64;

fn version(node: &mut Node, fd: i64) -> i64 {
    node.call(libc::SYS_ioctl, &[fd as u64, VERSION, 0])
}

fn it_is_there_by_its_path() {
    let (mut node, directory) = (Node::new(), Directory::new("xpmem"));
    let mode = |node: &mut Node, path: &[u8], at: u64| {
        node.put(PATH, path);
        let ret = node.call(libc::SYS_newfstatat, &[at, PATH, BUF, 0]);
        (ret, node.get_i32(BUF + 24) as u32 & libc::S_IFMT)
    };
    let devices = open(&mut node, b"/dev\0", libc::O_DIRECTORY as u64) as u64;
    for path in [&b"/dev/xpmem\0"[..], b"/dev/../dev//xpmem\0"] {
        assert_eq!(mode(&mut node, path, AT_FDCWD), (0, libc::S_IFCHR));
    }
    assert_eq!(mode(&mut node, b"xpmem\0", devices), (0, libc::S_IFCHR));
    symlink("/dev", directory.0.join("devices")).unwrap();
    let linked = directory.path("devices/xpmem");
    assert_eq!(mode(&mut node, &linked, AT_FDCWD), (0, libc::S_IFCHR));
    // Only that name there, and only to be examined.
    std::fs::write(directory.0.join("xpmem"), "").unwrap();
    let file = directory.path("xpmem");
    assert_eq!(mode(&mut node, &file, AT_FDCWD), (0, libc::S_IFREG));
    assert_eq!(mode(&mut node, b"/dev/xpmem2\0", AT_FDCWD).0, -2);
    assert_eq!(mode(&mut node, b"xpmem\0", AT_FDCWD).0, -2);
    node.put(PATH, b"/dev/xpmem\0");
    assert_eq!(node.call(libc::SYS_unlink, &[PATH]), -2);
    assert_eq!(node.call(libc::SYS_chmod, &[PATH, 0o600]), -2);
}

fn its_descriptors_are_known() {
    let (mut node, directory) = (Node::new(), Directory::new("xpmem_fd"));
    let device = open(&mut node, b"/dev/xpmem\0", RDWR);
    assert_eq!(version(&mut node, device), 0x2_7004);
    // Other requests are for the kernel: what comes here does not exist.
    assert_eq!(
        node.call(libc::SYS_ioctl, &[device as u64, VERSION + 1, BUF]),
        -25
    );
    let copy = node.call(libc::SYS_dup, &[device as u64]);
    assert_eq!(version(&mut node, copy), 0x2_7004);
    let null = open(&mut node, b"/dev/null\0", RDWR);
    assert_eq!(version(&mut node, null), -25);
    assert_eq!(version(&mut node, null + 1), -9);
    // A number that was the device's, and is another file's.
    assert_eq!(node.call(libc::SYS_close, &[copy as u64]), 0);
    assert_eq!(version(&mut node, copy), -9);
    let file = open(
        &mut node,
        &directory.path("file"),
        RDWR | libc::O_CREAT as u64,
    );
    assert_eq!(file, copy);
    assert_eq!(version(&mut node, file), -25);
    node.put(PATH, b"/dev/xpmem\0");
    let how = node.put_words(BUF, &[RDWR, 0, 0]);
    let opened = node.call(libc::SYS_openat2, &[AT_FDCWD, PATH, how, 24]);
    assert_eq!(version(&mut node, opened), 0x2_7004);
    let taken = RDWR | (libc::O_CREAT | libc::O_EXCL) as u64;
    assert_eq!(open(&mut node, b"/dev/xpmem\0", taken), -17);
}
