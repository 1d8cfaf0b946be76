//! The proxy's own descriptors are out of reach, and the rank's limit is Linux's.

use crate::Case;
use crate::files::open;
use crate::launch::Setup;
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    (
        "only_the_standard_ones_are_open_at_start",
        only_the_standard_ones_are_open_at_start,
    ),
    ("the_limit_is_linuxs", the_limit_is_linuxs),
    ("the_limit_can_be_raised", the_limit_can_be_raised),
    ("equal_limits_are_lowered", equal_limits_are_lowered),
    (
        "a_lower_hard_limit_leaves_room_for_ours",
        a_lower_hard_limit_leaves_room_for_ours,
    ),
    ("own_ones_are_bad", own_ones_are_bad),
    ("own_ones_survive_close_range", own_ones_survive_close_range),
    ("own_ones_are_not_dup_targets", own_ones_are_not_dup_targets),
    ("own_ones_are_not_polled", own_ones_are_not_polled),
    ("own_ones_are_not_sent", own_ones_are_not_sent),
    ("own_ones_are_not_listed", own_ones_are_not_listed),
    ("too_low_a_limit_is_said", too_low_a_limit_is_said),
];

const BUF: u64 = DATA.0 + 0x2000;
const EBADF: i64 = -9;

fn with_limit(soft: u64, hard: u64) -> Node {
    Node::with(Setup {
        files: Some((soft, hard)),
        ..Setup::default()
    })
}

fn limits(node: &Node) -> (u64, u64) {
    let words = &node.area().host.rlimits[libc::RLIMIT_NOFILE as usize];
    (words[0].load(), words[1].load())
}

fn only_the_standard_ones_are_open_at_start() {
    let mut node = Node::new();
    for fd in 0..100 {
        let ret = node.call(libc::SYS_fcntl, &[fd, libc::F_GETFD as u64, 0]);
        assert_eq!(ret, if fd < 3 { 0 } else { EBADF }, "descriptor {fd}");
    }
}

fn the_limit_is_linuxs() {
    let mut node = with_limit(64, 1024);
    assert_eq!(limits(&node), (64, 960));
    for fd in 3..64 {
        assert_eq!(open(&mut node, b"/dev/null\0", 0), fd);
    }
    assert_eq!(open(&mut node, b"/dev/null\0", 0), -24); // EMFILE
    assert_eq!(
        node.call(libc::SYS_fcntl, &[0, libc::F_DUPFD as u64, 64]),
        -22
    );
    assert_eq!(node.call(libc::SYS_close, &[63]), 0);
    assert_eq!(
        node.call(libc::SYS_fcntl, &[0, libc::F_DUPFD as u64, 10]),
        63
    );
}

fn the_limit_can_be_raised() {
    let mut node = with_limit(16, 1024);
    assert_eq!(limits(&node), (16, 960));
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    let mut set = |soft, hard| {
        // The program's memory is not looked at: it could be another limit by now than the one that the node has checked.
        node.put_words(BUF, &[7, 7]);
        node.call(libc::SYS_setrlimit, &[nofile, BUF, soft, hard])
    };
    assert_eq!(set(961, 1024), -1); // EPERM
    assert_eq!(set(960, 960), 0);
    assert_eq!(
        node.call(libc::SYS_fcntl, &[0, libc::F_DUPFD as u64, 959]),
        959
    );
    assert_eq!(
        node.call(libc::SYS_fcntl, &[0, libc::F_DUPFD as u64, 959]),
        -24
    ); // EMFILE
    assert_eq!(node.call(libc::SYS_dup2, &[0, 960]), EBADF);
}

fn equal_limits_are_lowered() {
    let node = with_limit(1024, 1024);
    assert_eq!(limits(&node), (960, 960));
}

/// The proxy's own hard limit went down with the rank's, and it had no numbers for files of its own any more.
fn a_lower_hard_limit_leaves_room_for_ours() {
    let mut node = with_limit(16, 1024);
    let nofile = u64::from(libc::RLIMIT_NOFILE);
    assert_eq!(node.call(libc::SYS_setrlimit, &[nofile, 0, 20, 30]), 0);
    let of_proxy = std::fs::read_to_string(format!("/proc/{}/limits", node.pid())).unwrap();
    let line = of_proxy.lines().find(|line| line.contains("open files"));
    let line: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(line, ["Max", "open", "files", "20", "1024", "files"]);
    assert_eq!(node.call(libc::SYS_dup2, &[0, 20]), EBADF);
}

fn own_ones_are_bad() {
    let mut node = with_limit(256, 320);
    for fd in 256..320 {
        for nr in [
            libc::SYS_close,
            libc::SYS_fsync,
            libc::SYS_dup,
            libc::SYS_fchdir,
        ] {
            assert_eq!(node.call(nr, &[fd]), EBADF);
        }
        assert_eq!(node.call(libc::SYS_fstat, &[fd, BUF]), EBADF);
        assert_eq!(node.call(libc::SYS_sendfile, &[1, fd, 0, 1]), EBADF);
        // A directory descriptor is only used for relative paths.
        node.put(BUF, b"x\0/dev/null\0\0");
        assert_eq!(node.call(libc::SYS_openat, &[fd, BUF, 0, 0]), EBADF);
        let empty = libc::AT_EMPTY_PATH as u64;
        assert_eq!(
            node.call(libc::SYS_newfstatat, &[fd, BUF + 12, BUF + 64, empty]),
            EBADF
        );
        let null = node.call(libc::SYS_openat, &[fd, BUF + 2, 0, 0]);
        assert_eq!(node.call(libc::SYS_close, &[null as u64]), 0);
    }
    assert_eq!(node.call(libc::SYS_close, &[u64::MAX]), EBADF);
    assert_eq!(node.call(libc::SYS_close, &[1 << 32 | 300]), EBADF);
}

fn own_ones_survive_close_range() {
    let mut node = with_limit(256, 320);
    open(&mut node, b"/dev/null\0", 0);
    for (first, last) in [
        (3, u64::from(u32::MAX)),
        (256, 300),
        (300, u64::from(u32::MAX)),
    ] {
        assert_eq!(node.call(libc::SYS_close_range, &[first, last, 0]), 0);
    }
    assert_eq!(node.call(libc::SYS_close_range, &[5, 4, 0]), -22);
    assert_eq!(node.call(libc::SYS_close_range, &[3, 4, 2]), 0); // CLOSE_RANGE_UNSHARE
    assert_eq!(node.call(libc::SYS_close, &[3]), EBADF);
    // Doorbell, memory and watcher still work.
    node.map(0x10_0000_0000, 4096, crate::node::PARTITION.0, true, true);
    assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
    signal(&node, libc::SIGUSR1);
    assert!(node.wait_signal().is_some());
}

fn signal(node: &Node, signo: i32) {
    // SAFETY: 1. Sends a signal to the proxy this test started.
    unsafe { libc::kill(node.pid(), signo) };
}

fn own_ones_are_not_dup_targets() {
    let mut node = with_limit(256, 320);
    for target in 256..300 {
        assert_eq!(node.call(libc::SYS_dup2, &[0, target]), EBADF);
        assert_eq!(node.call(libc::SYS_dup3, &[0, target, 0]), EBADF);
    }
    assert_eq!(node.call(libc::SYS_dup2, &[0, 255]), 255);
}

fn own_ones_are_not_polled() {
    let mut node = with_limit(256, 320);
    node.put_words(
        BUF,
        &[
            256 | (libc::POLLIN as u64) << 32,
            1 | (libc::POLLOUT as u64) << 32,
        ],
    );
    assert_eq!(node.call(libc::SYS_poll, &[BUF, 2, 0]), 2);
    assert_eq!(node.get(BUF + 6, 2), libc::POLLNVAL.to_le_bytes());
    assert_eq!(
        node.get_i32(BUF),
        256,
        "the descriptor itself stays as it is"
    );
    assert_eq!(node.call(libc::SYS_poll, &[BUF, 257, 0]), -22);
    let epoll = node.call(libc::SYS_epoll_create1, &[0]) as u64;
    assert_eq!(node.call(libc::SYS_epoll_ctl, &[epoll, 1, 256, BUF]), EBADF);
}

fn own_ones_are_not_sent() {
    let mut node = with_limit(256, 320);
    let (unix, stream) = (libc::AF_UNIX as u64, libc::SOCK_STREAM as u64);
    assert_eq!(node.call(libc::SYS_socketpair, &[unix, stream, 0, BUF]), 0);
    let (a, b) = (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64);
    let header = |fd: u64| {
        [
            20,
            libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32,
            fd,
        ]
    };
    let iov = node.put_words(BUF, &[BUF + 0x100, 1]);
    let message = [0, 0, iov, 1, BUF + 0x200, 24, 0];
    node.put_words(BUF + 0x300, &message);
    node.put_words(BUF + 0x200, &header(256));
    assert_eq!(node.call(libc::SYS_sendmsg, &[a, BUF + 0x300, 0]), EBADF);
    node.put_words(BUF + 0x200, &header(1));
    assert_eq!(node.call(libc::SYS_sendmsg, &[a, BUF + 0x300, 0]), 1);
    // It arrives as a new descriptor of the rank.
    node.put_words(BUF + 0x200, &[0, 0, 0]);
    assert_eq!(node.call(libc::SYS_recvmsg, &[b, BUF + 0x300, 0]), 1);
    assert_eq!(node.get_i32(BUF + 0x200 + 16), 5);
}

fn own_ones_are_not_listed() {
    let mut node = with_limit(256, 320);
    for path in [
        "/proc/self/fd\0",
        "/proc/thread-self/fdinfo\0",
        "/dev/fd/\0",
    ] {
        let fd = open(&mut node, path.as_bytes(), libc::O_DIRECTORY as u64) as u64;
        let mut names = Vec::new();
        loop {
            let len = node.call(libc::SYS_getdents64, &[fd, BUF, 128]) as usize;
            if len == 0 {
                break;
            }
            names.extend(crate::files::names(&node.get(BUF, len)));
        }
        names.sort();
        assert_eq!(names, [".", "..", "0", "1", "2", "3"], "{path}");
        assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    }
    for path in [
        "/proc/self/fd/256\0",
        "/dev/fd/257\0",
        "/proc/self/fdinfo/256\0",
        "/proc/thread-self/../../fdinfo/257\0",
    ] {
        for flags in [0, libc::O_PATH, libc::O_PATH | libc::O_NOFOLLOW] {
            let opened = open(&mut node, path.as_bytes(), flags as u64);
            assert_eq!(opened, -2, "{path} {flags:o}");
        }
    }
    assert_eq!(
        open(&mut node, b"/proc/self/fd/1\0", libc::O_WRONLY as u64),
        3
    );
}

fn too_low_a_limit_is_said() {
    let mut node = Node::with(Setup {
        files: Some((20, 20)),
        attach: false,
        ..Setup::default()
    });
    assert_eq!(node.wait().code(), Some(71));
    let text = node.stderr();
    assert!(
        text.contains("hard limit on open files") && text.lines().count() == 1,
        "{text}"
    );
}
