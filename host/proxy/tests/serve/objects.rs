//! Files that ranks share: laid over frames of the node pool, mapped from the file here.

use abi::control::HostOp::{ClearFrames, FileBytes, HoldFile, LayFile, ReleaseFile};

use crate::Case;
use crate::files::open;
use crate::launch::Setup;
use crate::node::{DATA, Directory, Node, POOL};

pub const CASES: &[Case] = &[
    ("only_regular_files_are_held", only_regular_files_are_held),
    ("frames_are_the_files_pages", frames_are_the_files_pages),
    ("frames_change_hands", frames_change_hands),
    (
        "what_was_cut_off_is_a_bad_address",
        what_was_cut_off_is_a_bad_address,
    ),
    (
        "access_changes_where_it_is_mapped",
        access_changes_where_it_is_mapped,
    ),
    (
        "what_may_be_read_is_not_written",
        what_may_be_read_is_not_written,
    ),
    (
        "without_an_agent_nothing_is_laid",
        without_an_agent_nothing_is_laid,
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
const EBADF: i64 = -9;
const EACCES: i64 = -13;
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

fn only_regular_files_are_held() {
    let mut node = Node::new();
    let null = open(&mut node, b"/dev/null\0", 2) as u64;
    let args = |fd| [fd, 0x5000_0000, PAGE, 0];
    assert_eq!(node.host_op(HoldFile, &args(null)), ENODEV);
    assert_eq!(node.host_op(HoldFile, &args(999)), EBADF);
    assert_eq!(node.host_op(HoldFile, &args(u64::MAX)), EBADF);
    assert_eq!(node.host_op(FileBytes, &[1, 2]), EBADF);
}

/// Has the first frames of the pool be two pages of a file.
fn lay(node: &mut Node, [device, inode]: [u64; 2], access: u64) -> i64 {
    let args = [device, inode, POOL.0, 2 * PAGE, 0, access];
    node.host_op(LayFile, &args)
}

/// Where a rank has it mapped.
const THERE: u64 = 0x5000_0000;

/// What the node, the rank's calls and the file have is the same memory.
fn frames_are_the_files_pages() {
    let mut node = Node::new();
    node.put_gpa(POOL.0, b"pool");
    let (fd, file) = file(&mut node);
    assert_eq!(lay(&mut node, file, 2), 0);
    assert_eq!(node.get_gpa(POOL.0, 4), b"xxxx");
    node.put_gpa(POOL.0 + PAGE, b"stored");
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF, 6, PAGE]), 6);
    assert_eq!(node.get(BUF, 6), b"stored");
    node.put(BUF, b"written");
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 7, 3]), 7);
    assert_eq!(node.get_gpa(POOL.0, 12), b"xxxwrittenxx");
    // The rank's own buffers, where it has mapped it, and what is behind it of the pool.
    node.map(THERE, 3 * PAGE, POOL.0, true, true);
    node.put_gpa(POOL.0 + 2 * PAGE, b"behind");
    let args = [fd, THERE + 100, 10, 0];
    assert_eq!(node.call(libc::SYS_pread64, &args), 10);
    assert_eq!(node.get_gpa(POOL.0 + 99, 12), b"xxxxwrittenx");
    let args = [fd, THERE + 2 * PAGE, 6, 20];
    assert_eq!(node.call(libc::SYS_pwrite64, &args), 6);
    assert_eq!(node.get_gpa(POOL.0 + 20, 6), b"behind");
    // The rank may close it; it is held until it is released.
    assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    let [device, inode] = file;
    assert_eq!(node.host_op(FileBytes, &file), 2 * PAGE as i64);
    node.unmap(THERE, 3 * PAGE);
    assert_eq!(node.host_op(ReleaseFile, &[device, inode, 0]), 0);
    assert_eq!(lay(&mut node, file, 0), 0);
    assert_eq!(node.host_op(ReleaseFile, &[device, inode, 1]), 0);
    assert_eq!(lay(&mut node, file, 0), EBADF);
    assert_eq!(node.get_gpa(POOL.0, 3), b"xxx");
    assert_eq!(node.host_op(ClearFrames, &[POOL.0, 2 * PAGE]), 0);
    assert_eq!(node.get_gpa(POOL.0, 4), b"pool");
    node.map(THERE, PAGE, POOL.0, true, true);
    let written = node.call(libc::SYS_write, &[1, THERE, 4]);
    assert_eq!((written, node.stdout(4)), (4, b"pool".to_vec()));
}

/// Frames that were another's are shown as what they are now.
fn frames_change_hands() {
    let mut node = Node::new();
    let (_, first) = file(&mut node);
    assert_eq!(lay(&mut node, first, 2), 0);
    let (fd, second) = file(&mut node);
    node.put(BUF, b"second");
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 6, PAGE]), 6);
    let [device, inode] = second;
    let args = [device, inode, POOL.0 + PAGE, PAGE, PAGE, 2];
    assert_eq!(node.host_op(LayFile, &args), 0);
    assert_eq!(node.get_gpa(POOL.0 + PAGE - 1, 7), b"xsecond");
    node.map(THERE, 2 * PAGE, POOL.0, true, false);
    let written = node.call(libc::SYS_write, &[1, THERE + PAGE - 1, 7]);
    assert_eq!((written, node.stdout(7)), (7, b"xsecond".to_vec()));
}

/// A page that somebody has cut off ended the proxy, and with it the rank, when it looked for a path there.
fn what_was_cut_off_is_a_bad_address() {
    const ENOENT: i64 = -2;
    let mut node = Node::new();
    let (fd, file) = file(&mut node);
    assert_eq!(lay(&mut node, file, 2), 0);
    node.map(THERE, 2 * PAGE, POOL.0, true, true);
    node.put_gpa(POOL.0 + PAGE, b"/nonexistent\0");
    let args = [THERE + PAGE, 0];
    assert_eq!(node.call(libc::SYS_open, &args), ENOENT);
    assert_eq!(node.call(libc::SYS_ftruncate, &[fd, PAGE]), 0);
    assert_eq!(node.call(libc::SYS_open, &args), EFAULT);
    assert_eq!(node.call(libc::SYS_ftruncate, &[fd, 2 * PAGE]), 0);
    assert_eq!(node.call(libc::SYS_open, &args), ENOENT, "an empty path");
}

/// A mapping that there is keeps the access that its descriptor had, as on Linux.
fn access_changes_where_it_is_mapped() {
    let mut node = Node::new();
    let (fd, file) = file(&mut node);
    assert_eq!(lay(&mut node, file, 2), 0);
    node.map(THERE, 2 * PAGE, POOL.0, true, true);
    let seal = [
        fd,
        libc::F_ADD_SEALS as u64,
        libc::F_SEAL_FUTURE_WRITE as u64,
    ];
    assert_eq!(node.call(libc::SYS_fcntl, &seal), 0);
    node.map(THERE, PAGE, POOL.0, false, false);
    assert_eq!(node.call(libc::SYS_pread64, &[fd, THERE, 4, 0]), EFAULT);
    node.map(THERE, 2 * PAGE, POOL.0, true, true);
    assert_eq!(node.call(libc::SYS_pread64, &[fd, THERE, 4, 0]), 4);
}

/// What is only read is laid by a descriptor that can only read.
fn what_may_be_read_is_not_written() {
    let directory = Directory::new("read");
    std::fs::write(directory.0.join("file"), [b'r'; 2 * PAGE as usize]).unwrap();
    let mut node = Node::new();
    let fd = open(&mut node, &directory.path("file"), 0) as u64;
    assert_eq!(node.host_op(HoldFile, &[fd, THERE, 2 * PAGE, 0]), 0);
    let file = node.threads()[0].slot.more();
    assert_eq!(
        [2, 1].map(|access| lay(&mut node, file, access)),
        [EACCES, 0]
    );
    node.map(THERE, 2 * PAGE, POOL.0, true, false);
    assert_eq!(node.call(libc::SYS_write, &[1, THERE, 2]), 2);
    assert_eq!(node.stdout(2), b"rr");
    assert_eq!(node.call(libc::SYS_pread64, &[fd, THERE, 2, 0]), EFAULT);
}

/// A QEMU that takes no agent has no files that ranks share.
fn without_an_agent_nothing_is_laid() {
    let mut node = Node::with(Setup {
        agent: false,
        ..Setup::default()
    });
    let (_, file) = file(&mut node);
    assert_eq!(lay(&mut node, file, 2), ENODEV);
    assert_eq!(node.host_op(ClearFrames, &[POOL.0, PAGE]), ENODEV);
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
        let lay = [device, inode, POOL.0, PAGE, 0, 1];
        assert_eq!(node.host_op(LayFile, &lay), 0);
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
    let (_, [device, inode]) = file(&mut node);
    let end = POOL.0 + POOL.1;
    let laid = |gpa, len_bytes, offset| [device, inode, gpa, len_bytes, offset, 1];
    for gpa in [0, POOL.0 - PAGE, end - PAGE, end, u64::MAX - PAGE + 1] {
        assert_eq!(
            node.host_op(LayFile, &laid(gpa, 2 * PAGE, 0)),
            EFAULT,
            "{gpa:#x}"
        );
        assert_eq!(node.host_op(ClearFrames, &[gpa, 2 * PAGE]), EFAULT);
    }
    for (gpa, len_bytes) in [(POOL.0 + 1, PAGE), (POOL.0, PAGE + 1), (end - PAGE, 0)] {
        assert_eq!(node.host_op(LayFile, &laid(gpa, len_bytes, 0)), EFAULT);
        assert_eq!(node.host_op(ClearFrames, &[gpa, len_bytes]), EFAULT);
    }
    for offset in [1, 1 << 63, u64::MAX - PAGE + 1] {
        assert_eq!(node.host_op(LayFile, &laid(POOL.0, PAGE, offset)), EINVAL);
    }
}
