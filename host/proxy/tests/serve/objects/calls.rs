//! Calls on files that ranks have mapped and share.

use super::*;
use crate::Case;
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    (
        "calls_read_and_write_the_frames",
        calls_read_and_write_the_frames,
    ),
    ("vectors_reach_the_frames", vectors_reach_the_frames),
    (
        "appended_bytes_reach_the_frames",
        appended_bytes_reach_the_frames,
    ),
    ("a_file_that_is_cut_is_zero", a_file_that_is_cut_is_zero),
    (
        "a_file_is_cut_as_the_open_requests",
        a_file_is_cut_as_the_open_requests,
    ),
    ("mapped_files_are_not_cloned", mapped_files_are_not_cloned),
    (
        "frames_that_are_not_filled_are_not_read",
        frames_that_are_not_filled_are_not_read,
    ),
    ("calls_wait_for_the_lock", calls_wait_for_the_lock),
    ("other_files_are_left_alone", other_files_are_left_alone),
];

fn calls_read_and_write_the_frames() {
    let mut node = Node::new();
    let fd = mapped(&mut node);
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF, 8, PAGE - 4]), 8);
    assert_eq!(node.get(BUF, 9), b"ffffffffx");
    node.put(BUF, b"written");
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 7, PAGE - 4]), 7);
    assert_eq!(frames(&node, PAGE - 5, 9), b"fwrittenf");
    assert_eq!(node.call(libc::SYS_lseek, &[fd, 100, 0]), 100);
    assert_eq!(node.call(libc::SYS_write, &[fd, BUF, 7]), 7);
    assert_eq!(frames(&node, 99, 9), b"fwrittenf");
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF, 2]), 2);
    assert_eq!(node.get(BUF, 3), b"ffi");
    assert_eq!(node.call(libc::SYS_lseek, &[fd, 0, 1]), 109);
    let null = open(&mut node, b"/dev/null\0", 2) as u64;
    assert_eq!(node.call(libc::SYS_sendfile, &[null, fd, 0, 8]), EINVAL);
    assert_eq!(
        node.call(libc::SYS_copy_file_range, &[fd, 0, fd, 0, 8, 0]),
        EINVAL
    );
}

fn vectors_reach_the_frames() {
    let mut node = Node::new();
    let fd = mapped(&mut node);
    let iovecs = node.put_words(DATA.0, &[BUF, 3, 0, 0, BUF + 100, 5]);
    node.put(BUF, b"abc");
    node.put(BUF + 100, b"defgh");
    let at = PAGE - 5;
    assert_eq!(node.call(libc::SYS_pwritev, &[fd, iovecs, 3, at, 0]), 8);
    assert_eq!(frames(&node, at - 1, 10), b"fabcdefghf");
    let args = [fd, iovecs, 3, at - 1, 0];
    assert_eq!(node.call(libc::SYS_preadv, &args), 8);
    assert_eq!(
        (node.get(BUF, 3), node.get(BUF + 100, 5)),
        (b"fab".into(), b"cdefg".into())
    );
    // Part of a vector whose rest is nowhere.
    let iovecs = node.put_words(DATA.0, &[BUF, 3, 1 << 38, 5]);
    assert_eq!(node.call(libc::SYS_preadv, &[fd, iovecs, 2, at + 2, 0]), 3);
    assert_eq!(node.get(BUF, 3), b"cde");
}

fn appended_bytes_reach_the_frames() {
    let mut node = Node::new();
    let fd = mapped(&mut node);
    assert_eq!(node.call(libc::SYS_ftruncate, &[fd, PAGE + 10]), 0);
    let append = libc::O_APPEND as u64;
    assert_eq!(
        node.call(libc::SYS_fcntl, &[fd, libc::F_SETFL as u64, append]),
        0
    );
    node.put(BUF, b"end");
    assert_eq!(node.call(libc::SYS_write, &[fd, BUF, 3]), 3);
    assert_eq!(frames(&node, PAGE + 9, 6), b"fend\0\0");
    // Linux appends whatever offset it is given.
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 3, 0]), 3);
    assert_eq!(frames(&node, PAGE + 12, 5), b"dend\0");
    assert_eq!(frames(&node, 0, 1), b"f");
}

/// truncate(2) left in the frames what they held.
fn a_file_that_is_cut_is_zero() {
    let mut node = Node::new();
    let fd = mapped(&mut node);
    assert_eq!(node.call(libc::SYS_ftruncate, &[fd, PAGE + 1]), 0);
    assert_eq!(frames(&node, PAGE, 3), b"f\0\0");
    let punch = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;
    assert_eq!(node.call(libc::SYS_fallocate, &[fd, punch, 1, 2]), 0);
    assert_eq!(frames(&node, 0, 4), b"f\0\0f");
    // By its path, too.
    let path = format!("/proc/self/fd/{fd}\0");
    let path = node.put(BUF, path.as_bytes());
    assert_eq!(node.call(libc::SYS_truncate, &[path, u64::MAX]), EINVAL);
    assert_eq!(frames(&node, PAGE, 1), b"f");
    assert_eq!(node.call(libc::SYS_truncate, &[path, PAGE]), 0);
    assert_eq!(frames(&node, PAGE - 1, 2), b"f\0");
    let (flags, at) = (libc::O_RDWR | libc::O_TRUNC, libc::AT_FDCWD as u64);
    let again = node.call(libc::SYS_openat, &[at, path, flags as u64, 0]);
    assert!(again >= 0, "{again}");
    assert_eq!(frames(&node, 0, 4), [0; 4]);
}

/// The flags of openat2 were read once more after the call: another thread that took O_TRUNC out kept the frames of the file
/// that was cut as they were.
fn a_file_is_cut_as_the_open_requests() {
    const ROUNDS: u32 = 300;
    let mut node = node_of(2);
    let fd = mapped(&mut node);
    let path = format!("/proc/self/fd/{}{fd}\0", "../fd/".repeat(50));
    let path = node.put(BUF, path.as_bytes());
    let how = node.put_words(DATA.0, &[0, 0, 0]);
    let at = libc::AT_FDCWD as u64;
    for round in 0..ROUNDS {
        node.put_gpa(POOL.0, b"frame");
        assert_eq!(node.call(libc::SYS_ftruncate, &[fd, 5]), 0);
        node.begin_on(1, libc::SYS_openat2, &[at, path, how, 24]);
        for turn in 0.. {
            let flags = libc::O_RDWR | [0, libc::O_TRUNC][turn % 2];
            node.put_words(how, &[flags as u64, 0, 0]);
            if node.answered_on(1) {
                break;
            }
        }
        let again = node.finish_on(1);
        assert!(again >= 0, "{again}");
        assert_eq!(node.call(libc::SYS_close, &[again as u64]), 0);
        let end = node.call(libc::SYS_lseek, &[fd, 0, libc::SEEK_END as u64]);
        let held: &[u8] = if end == 0 { &[0; 5] } else { b"frame" };
        assert_eq!(frames(&node, 0, 5), held, "round {round}");
    }
}

/// Linux would have cloned what the files hold, not the frames, on a file system that can: refused as by one that cannot. Of
/// files on two devices Linux says EXDEV.
fn mapped_files_are_not_cloned() {
    const FICLONE: u64 = 0x4004_9409; // uapi/linux/fs.h
    const EOPNOTSUPP: i64 = -95;
    const EXDEV: i64 = -18;
    let directory = Directory::new("clones");
    let mut node = Node::new();
    let fd = mapped(&mut node);
    let flags = (libc::O_RDWR | libc::O_CREAT) as u64;
    let [one, other] =
        ["one", "other"].map(|name| open(&mut node, &directory.path(name), flags) as u64);
    for pair in [[fd, one], [one, fd]] {
        let args = [pair[0], FICLONE, pair[1]];
        assert_eq!(node.call(libc::SYS_ioctl, &args), EOPNOTSUPP);
    }
    let name = node.put(BUF, b"unmapped\0");
    let unmapped = node.call(libc::SYS_memfd_create, &[name, 0]) as u64;
    let args = [unmapped, FICLONE, other];
    assert_eq!(node.call(libc::SYS_ioctl, &args), EXDEV);
}

/// A file that is being read into frames holds what it held.
fn frames_that_are_not_filled_are_not_read() {
    let mut node = Node::new();
    let (fd, held) = file(&mut node);
    enter(&node, held, false);
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF, 4, 0]), 4);
    assert_eq!(node.get(BUF, 4), b"xxxx");
    node.put(BUF, b"new");
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 3, 0]), 3);
    assert_eq!(frames(&node, 0, 4), b"new\0", "but they are written to");
}

/// Another process has the lock of every file.
fn calls_wait_for_the_lock() {
    use std::os::fd::AsRawFd;
    let mut node = Node::new();
    let fd = mapped(&mut node);
    let memfd = node.memfd.as_raw_fd();
    let lock = |kind: i32| {
        let lock = libc::flock {
            l_type: kind as i16,
            l_whence: libc::SEEK_SET as i16,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        // SAFETY: 1. Linux only reads the structure.
        unsafe { libc::fcntl(memfd, libc::F_SETLK, &raw const lock) }
    };
    assert_eq!(lock(libc::F_WRLCK), 0);
    node.begin_and_wait(libc::SYS_pread64, &[fd, BUF, 4, 0]);
    node.put_gpa(POOL.0, b"late");
    assert_eq!(lock(libc::F_UNLCK), 0);
    assert_eq!(node.finish(), 4);
    assert_eq!(node.get(BUF, 4), b"late");
}

fn other_files_are_left_alone() {
    let mut node = Node::new();
    mapped(&mut node);
    let zero = open(&mut node, b"/dev/zero\0", 0) as u64;
    assert_eq!(node.call(libc::SYS_read, &[zero, BUF, 4]), 4);
    assert_eq!(node.get(BUF, 4), [0; 4]);
    let name = node.put(BUF, b"other\0");
    let other = node.call(libc::SYS_memfd_create, &[name, 0]) as u64;
    assert_eq!(node.call(libc::SYS_pwrite64, &[other, BUF, 5, 0]), 5);
    assert_eq!(frames(&node, 0, 5), b"fffff");
    let null = open(&mut node, b"/dev/null\0", 2) as u64;
    assert_eq!(node.call(libc::SYS_sendfile, &[null, other, 0, 5]), 5);
}
