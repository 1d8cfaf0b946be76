//! Files in the node pool: read into its frames, written back, and what calls on such files do.

pub mod calls;

use abi::control::HostOp::{FileBytes, HoldFile, LoadObject, ReleaseFile, WriteObject};
use wire::objects::Entry;

use crate::Case;
use crate::files::open;
use crate::launch::Setup;
use crate::node::{DATA, Directory, Node, POOL};
use crate::threads::node_of;

pub const CASES: &[Case] = &[
    ("only_regular_files_are_held", only_regular_files_are_held),
    (
        "frames_are_filled_and_written_back",
        frames_are_filled_and_written_back,
    ),
    (
        "what_cannot_be_written_back_is_reported",
        what_cannot_be_written_back_is_reported,
    ),
    (
        "a_file_is_let_go_with_its_locks",
        a_file_is_let_go_with_its_locks,
    ),
    ("more_files_than_descriptors", more_files_than_descriptors),
    ("frames_are_the_pools", frames_are_the_pools),
];

const BUF: u64 = DATA.0 + 0x2000;
const PAGE: u64 = 4096;
const EPERM: i64 = -1;
const EBADF: i64 = -9;
const EFAULT: i64 = -14;
const ENODEV: i64 = -19;
const EINVAL: i64 = -22;

/// A file of two pages in memory, all `x`, that the rank has open: its descriptor, device and inode.
fn file(node: &mut Node) -> (u64, [u64; 2]) {
    let name = node.put(BUF, b"object\0");
    let fd = node.call(
        libc::SYS_memfd_create,
        &[name, libc::MFD_ALLOW_SEALING.into()],
    ) as u64;
    node.put(BUF, &[b'x'; 2 * PAGE as usize]);
    assert_eq!(
        node.call(libc::SYS_write, &[fd, BUF, 2 * PAGE]),
        2 * PAGE as i64
    );
    let held = node.host_op(HoldFile, &[fd, 0x5000_0000, 2 * PAGE, 0]);
    assert_eq!(held, 1);
    (fd, node.threads()[0].slot.more())
}

/// Both pages are in the first frames of the pool, if they are `filled`.
fn enter(node: &Node, file: [u64; 2], filled: bool) {
    let entry = Entry {
        file,
        offset: 0,
        len_bytes: 2 * PAGE,
        gpa: POOL.0,
        filled,
    };
    node.objects.put(0, &entry);
}

/// A file as in [`file`], in frames that hold all `f`.
fn mapped(node: &mut Node) -> u64 {
    let (fd, held) = file(node);
    node.put_gpa(POOL.0, &[b'f'; 2 * PAGE as usize]);
    enter(node, held, true);
    fd
}

fn frames(node: &Node, at: u64, len: usize) -> Vec<u8> {
    node.get_gpa(POOL.0 + at, len)
}

fn only_regular_files_are_held() {
    let mut node = Node::new();
    let null = open(&mut node, b"/dev/null\0", 2) as u64;
    let args = |fd| [fd, 0x5000_0000, PAGE, 0];
    assert_eq!(node.host_op(HoldFile, &args(null)), ENODEV);
    assert_eq!(node.host_op(HoldFile, &args(999)), EBADF);
    assert_eq!(node.host_op(HoldFile, &args(u64::MAX)), EBADF);
    assert_eq!(node.host_op(FileBytes, &[1, 2]), EBADF);
}

fn frames_are_filled_and_written_back() {
    let mut node = Node::new();
    let (fd, [device, inode]) = file(&mut node);
    // Longer than the file: the rest stays.
    let load = [device, inode, POOL.0, 3 * PAGE, 0];
    assert_eq!(node.host_op(LoadObject, &load), 2 * PAGE as i64);
    assert_eq!(frames(&node, 2 * PAGE - 1, 2), b"x\0");
    node.put_gpa(POOL.0 + PAGE, b"stored");
    let write = [device, inode, POOL.0 + PAGE, 2 * PAGE, PAGE];
    assert_eq!(
        node.host_op(WriteObject, &write),
        PAGE as i64,
        "up to the end"
    );
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF, 6, PAGE]), 6);
    assert_eq!(node.get(BUF, 6), b"stored");
    assert_eq!(node.host_op(FileBytes, &[device, inode]), 2 * PAGE as i64);
    // The rank may close it; it is held until it is released.
    assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    assert_eq!(node.host_op(WriteObject, &write), PAGE as i64);
    assert_eq!(node.host_op(ReleaseFile, &[device, inode, 1]), 0);
    assert_eq!(node.host_op(WriteObject, &write), EBADF);
}

/// Stores that do not reach their file were lost without a word.
fn what_cannot_be_written_back_is_reported() {
    let mut node = Node::new();
    let (fd, [device, inode]) = file(&mut node);
    let seal = [fd, libc::F_ADD_SEALS as u64, libc::F_SEAL_WRITE as u64];
    assert_eq!(node.call(libc::SYS_fcntl, &seal), 0);
    for notified in [1, 0, 0] {
        let write = [device, inode, POOL.0, PAGE, 0, notified];
        assert_eq!(node.host_op(WriteObject, &write), EPERM);
    }
    node.exit(0);
    let text = node.stderr();
    let line = "could not write back /memfd:object (deleted), which it had mapped: Operation not permitted";
    assert!(
        text.matches(line).count() == 1 && text.lines().count() == 1,
        "{text}"
    );
}

/// The process that has locked the file from its beginning to its end.
fn locker(path: &std::path::Path) -> Option<i32> {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::open(path).unwrap();
    let mut lock = libc::flock {
        l_type: libc::F_RDLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: 1. Linux reads and writes the structure.
    let ret = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    assert_eq!(ret, 0);
    (lock.l_type == libc::F_WRLCK as i16).then_some(lock.l_pid)
}

/// A rank lost the record locks that it had on a file when it unmapped it, and when what held the file for it was replaced by
/// what could be written to: a process that closes any descriptor of a file loses them.
fn a_file_is_let_go_with_its_locks() {
    let directory = Directory::new("locks");
    let path = directory.0.join("file");
    std::fs::write(&path, [0; PAGE as usize]).unwrap();
    let mut node = Node::new();
    let lock = node.put_words(BUF, &[libc::F_WRLCK as u64, 0, 0, 0]);
    for flags in [0, libc::O_APPEND] {
        let read = open(&mut node, &directory.path("file"), 0) as u64;
        let both = (libc::O_RDWR | flags) as u64;
        let both = open(&mut node, &directory.path("file"), both) as u64;
        let set = [both, libc::F_SETLK as u64, lock];
        assert_eq!(node.call(libc::SYS_fcntl, &set), 0);
        for (fd, is_writable) in [(read, 0), (both, 1), (read, 0)] {
            let held = node.host_op(HoldFile, &[fd, 0x5000_0000, PAGE, 0]);
            assert_eq!(held, is_writable);
            assert_eq!(locker(&path), Some(node.pid()), "{flags:#x}, {fd}");
        }
        let [device, inode] = node.threads()[0].slot.more();
        let load = [device, inode, POOL.0, PAGE, 0];
        assert_eq!(node.host_op(LoadObject, &load), PAGE as i64);
        assert_eq!(node.host_op(WriteObject, &load), PAGE as i64);
        assert_eq!(node.host_op(ReleaseFile, &[device, inode, 1]), 0);
        assert_eq!(locker(&path), Some(node.pid()), "{flags:#x}");
        for fd in [read, both] {
            assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
        }
        assert_eq!(locker(&path), None);
    }
}

/// The limit that the rank sets for itself does not count, the hard limit of the host does.
fn more_files_than_descriptors() {
    const ENFILE: i64 = -23;
    let mut node = Node::with(Setup {
        files: Some((16, 128)),
        ..Setup::default()
    });
    let name = node.put(BUF, b"one of many\0");
    let mut hold = || {
        let fd = node.call(libc::SYS_memfd_create, &[name, 0]) as u64;
        let held = node.host_op(HoldFile, &[fd, 0x5000_0000, PAGE, 0]);
        assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
        held
    };
    let count = (0..).take_while(|_| hold() == 1).count();
    assert!((100..128).contains(&count), "{count}");
    assert_eq!(hold(), ENFILE);
    let [device, inode] = node.threads()[0].slot.more();
    assert_eq!(node.host_op(ReleaseFile, &[device, inode, 1]), 0);
    assert_eq!(node.host_op(FileBytes, &[device, inode]), EBADF);
}

fn frames_are_the_pools() {
    let mut node = Node::new();
    let (fd, [device, inode]) = file(&mut node);
    let end = POOL.0 + POOL.1;
    node.put_gpa(end - PAGE, b"last");
    for gpa in [0, POOL.0 - PAGE, end - PAGE, end, u64::MAX - PAGE + 1] {
        for op in [LoadObject, WriteObject] {
            let args = [device, inode, gpa, 2 * PAGE, 0];
            assert_eq!(node.host_op(op, &args), EFAULT, "{gpa:#x}");
        }
    }
    // Not even those that were inside.
    assert_eq!(node.get_gpa(end - PAGE, 4), b"last");
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF, 4, 0]), 4);
    assert_eq!(node.get(BUF, 4), b"xxxx");
}
