//! Calls on files: data goes straight into the rank's memory.

use crate::Case;
use crate::node::{DATA, Directory, Node};

pub const CASES: &[Case] = &[
    ("write_read_seek", write_read_seek),
    ("vectors", vectors),
    ("stat_and_listing", stat_and_listing),
    ("relative_paths_follow_chdir", relative_paths_follow_chdir),
    ("big_reads", big_reads),
    ("poll", poll),
    ("select", select),
    ("standard_streams", standard_streams),
    ("sigpipe_is_said_once", sigpipe_is_said_once),
];

const PATH: u64 = DATA.0;
const BUF: u64 = DATA.0 + 0x2000;
const RW: u64 = (libc::O_RDWR | libc::O_CREAT) as u64;

pub fn open(node: &mut Node, path: &[u8], flags: u64) -> i64 {
    node.put(PATH, path);
    node.call(
        libc::SYS_openat,
        &[libc::AT_FDCWD as u64, PATH, flags, 0o644],
    )
}

/// The names in what getdents64 has filled in.
pub fn names(entries: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    while at < entries.len() {
        let name = entries[at + 19..].split(|&byte| byte == 0).next().unwrap();
        names.push(String::from_utf8(name.to_vec()).unwrap());
        at += usize::from(u16::from_le_bytes([entries[at + 16], entries[at + 17]]));
    }
    names
}

fn write_read_seek() {
    let directory = Directory::new("write_read_seek");
    let mut node = Node::new();
    let fd = open(&mut node, &directory.path("file"), RW);
    assert_eq!(fd, 3, "the first free number is the rank's");
    let fd = fd as u64;
    node.put(BUF, b"hello, node");
    assert_eq!(node.call(libc::SYS_write, &[fd, BUF, 11]), 11);
    assert_eq!(node.call(libc::SYS_lseek, &[fd, 7, 0]), 7);
    assert_eq!(node.call(libc::SYS_read, &[fd, BUF + 100, 100]), 4);
    assert_eq!(node.get(BUF + 100, 4), b"node");
    assert_eq!(node.call(libc::SYS_pread64, &[fd, BUF + 200, 5, 0]), 5);
    assert_eq!(node.get(BUF + 200, 5), b"hello");
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 5, 20]), 5);
    assert_eq!(std::fs::read(directory.0.join("file")).unwrap().len(), 25);
    assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    assert_eq!(node.call(libc::SYS_close, &[fd]), -9);
}

fn vectors() {
    let directory = Directory::new("vectors");
    let mut node = Node::new();
    let fd = open(&mut node, &directory.path("file"), RW) as u64;
    node.put(BUF, b"abcdef");
    let iov = node.put_words(BUF + 0x100, &[BUF, 2, BUF + 4, 2, 0, 0]);
    assert_eq!(node.call(libc::SYS_writev, &[fd, iov, 3]), 4);
    let iov = node.put_words(BUF + 0x100, &[BUF + 0x400, 1, BUF + 0x500, 9]);
    assert_eq!(node.call(libc::SYS_preadv, &[fd, iov, 2, 0]), 4);
    assert_eq!(
        (node.get(BUF + 0x400, 1), node.get(BUF + 0x500, 3)),
        (b"a".to_vec(), b"bef".to_vec())
    );
    assert_eq!(node.call(libc::SYS_readv, &[fd, iov, 2000]), -22);
}

fn stat_and_listing() {
    let directory = Directory::new("stat_and_listing");
    std::fs::write(directory.0.join("file"), [0; 1234]).unwrap();
    let mut node = Node::new();
    let fd = open(&mut node, &directory.path("file"), 0) as u64;
    assert_eq!(node.call(libc::SYS_fstat, &[fd, BUF]), 0);
    assert_eq!(node.get_i32(BUF + 48), 1234); // st_size
    node.put(PATH, &directory.path("missing"));
    let at = libc::AT_FDCWD as u64;
    assert_eq!(node.call(libc::SYS_newfstatat, &[at, PATH, BUF, 0]), -2);
    let dir = open(&mut node, &directory.path(""), libc::O_DIRECTORY as u64) as u64;
    let len = node.call(libc::SYS_getdents64, &[dir, BUF, 4096]);
    assert!(len > 0);
    let names = node.get(BUF, len as usize);
    assert!(names.windows(5).any(|name| name == b"file\0"));
    assert_eq!(node.call(libc::SYS_getdents64, &[dir, BUF, 4096]), 0);
}

fn relative_paths_follow_chdir() {
    let directory = Directory::new("relative_paths");
    std::fs::write(directory.0.join("file"), "x").unwrap();
    let mut node = Node::new();
    node.put(PATH, &directory.path(""));
    assert_eq!(node.call(libc::SYS_chdir, &[PATH]), 0);
    assert_eq!(open(&mut node, b"file\0", 0), 3);
    let len = node.call(libc::SYS_getcwd, &[BUF, 4096]) as usize;
    assert_eq!(
        node.get(BUF, len - 1),
        directory.0.to_str().unwrap().as_bytes()
    );
}

fn big_reads() {
    const LEN: usize = 64 << 20;
    let directory = Directory::new("big_reads");
    let content: Vec<u8> = (0..LEN).map(|i| (i / 4096) as u8).collect();
    std::fs::write(directory.0.join("file"), &content).unwrap();
    let mut node = Node::new();
    // Two mappings side by side, their frames in the wrong order.
    let (gpa, half) = (crate::node::PARTITION.0 + DATA.1, LEN as u64 / 2);
    let at = 0x10_0000_0000;
    node.map(at, half, gpa + half, true, true);
    node.map(at + half, half, gpa, true, true);
    let fd = open(&mut node, &directory.path("file"), 0) as u64;
    assert_eq!(node.call(libc::SYS_read, &[fd, at, LEN as u64]), LEN as i64);
    assert!(node.get_gpa(gpa + half, LEN / 2) == content[..LEN / 2]);
    assert!(node.get_gpa(gpa, LEN / 2) == content[LEN / 2..]);
}

fn poll() {
    let mut node = Node::new();
    assert_eq!(node.call(libc::SYS_pipe2, &[BUF, 0]), 0);
    let (read, write) = (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64);
    let pollfd = |fd: u64, events: i16| fd | (events as u64) << 32;
    node.put_words(
        BUF,
        &[pollfd(read, libc::POLLIN), pollfd(write, libc::POLLOUT)],
    );
    assert_eq!(node.call(libc::SYS_poll, &[BUF, 2, 0]), 1);
    assert_eq!(node.get(BUF + 8 + 6, 2), libc::POLLOUT.to_le_bytes());
    assert_eq!(node.get(BUF + 6, 2), [0, 0]);
    assert_eq!(node.call(libc::SYS_write, &[write, BUF, 1]), 1);
    node.put_words(BUF + 0x100, &[1, 0]); // one second
    assert_eq!(
        node.call(libc::SYS_ppoll, &[BUF, 2, BUF + 0x100, BUF + 0x200, 8]),
        2
    );
    assert_eq!(
        node.call(libc::SYS_ppoll, &[BUF, 2, BUF + 0x100, BUF + 0x200, 7]),
        -22
    );
    assert_eq!(node.call(libc::SYS_poll, &[0, 1, 0]), -14);
    assert_eq!(node.call(libc::SYS_poll, &[0, 0, 1]), 0);
}

fn select() {
    let mut node = Node::new();
    let own = node.area().host.rlimits[libc::RLIMIT_NOFILE as usize][1].load();
    node.put_words(BUF, &[1 << 1, 0, 0, 0]);
    node.put_words(BUF + 0x100, &[0, 0]);
    assert_eq!(
        node.call(libc::SYS_select, &[own + 64, 0, BUF, 0, BUF + 0x100]),
        1
    );
    node.put_words(BUF + 0x200, &[BUF + 0x300, 8]);
    assert_eq!(
        node.call(
            libc::SYS_pselect6,
            &[64, 0, BUF, 0, BUF + 0x100, BUF + 0x200]
        ),
        1
    );
    node.put_words(BUF + 0x200, &[1 << 46, 8]);
    assert_eq!(
        node.call(
            libc::SYS_pselect6,
            &[64, 0, BUF, 0, BUF + 0x100, BUF + 0x200]
        ),
        -14
    );
}

fn standard_streams() {
    let mut node = Node::new();
    node.put(BUF, b"to stdout");
    assert_eq!(node.call(libc::SYS_write, &[1, BUF, 9]), 9);
    assert_eq!(node.stdout(9), b"to stdout");
    node.stdin(b"from stdin");
    assert_eq!(node.call(libc::SYS_read, &[0, BUF, 100]), 10);
    assert_eq!(node.get(BUF, 10), b"from stdin");
}

/// Linux's own SIGPIPE stayed pending in the worker, and the next call that took over what the process has posted it.
fn sigpipe_is_said_once() {
    let mut node = Node::new();
    let raised = |node: &Node| node.threads()[0].slot.more()[0];
    let unix = libc::AF_UNIX as u64;
    for (kind, sends) in [
        (libc::SOCK_STREAM, libc::SIGPIPE as u64),
        (libc::SOCK_SEQPACKET, 0),
    ] {
        let args = [unix, kind as u64, 0, BUF];
        assert_eq!(node.call(libc::SYS_socketpair, &args), 0);
        let (own, other) = (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64);
        assert_eq!(node.call(libc::SYS_write, &[own, BUF, 4]), 4);
        assert_eq!(raised(&node), 0);
        assert_eq!(node.call(libc::SYS_shutdown, &[other, 0]), 0);
        assert_eq!(node.call(libc::SYS_write, &[own, BUF, 4]), -32); // EPIPE
        assert_eq!(raised(&node), sends);
        assert_eq!(node.call(libc::SYS_write, &[64, BUF, 4]), -9); // EBADF
        assert_eq!(raised(&node), 0);
        assert_eq!(node.call(libc::SYS_kill, &[0, 0]), 0);
        assert!(node.area().mailbox.is_empty());
    }
}
