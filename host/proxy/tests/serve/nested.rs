//! Structures with pointers inside.

use crate::Case;
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    ("messages_travel", messages_travel),
    ("many_messages_travel", many_messages_travel),
    ("wild_vectors_fault", wild_vectors_fault),
    ("wild_messages_fault", wild_messages_fault),
    ("addresses_have_lengths", addresses_have_lengths),
    ("options_have_lengths", options_have_lengths),
    ("requests_are_known", requests_are_known),
    ("interfaces_are_listed", interfaces_are_listed),
];

const BUF: u64 = DATA.0 + 0x2000;
const EFAULT: i64 = -14;
/// Addresses that no structure may hold: beyond the rank's, in the proxy, not canonical.
const WILD: [u64; 5] = [
    1 << 39,
    0x5555_5555_5000,
    0x7fff_f000_0000,
    1 << 63,
    u64::MAX,
];

fn socketpair(node: &mut Node, kind: i32) -> (u64, u64) {
    let args = [libc::AF_UNIX as u64, kind as u64, 0, BUF];
    assert_eq!(node.call(libc::SYS_socketpair, &args), 0);
    (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64)
}

fn messages_travel() {
    let mut node = Node::new();
    let (a, b) = socketpair(&mut node, libc::SOCK_DGRAM);
    node.put(BUF, b"hello world");
    let iov = node.put_words(BUF + 0x100, &[BUF, 6, BUF + 6, 5]);
    let message = node.put_words(BUF + 0x200, &[0, 0, iov, 2, 0, 0, 0]);
    assert_eq!(node.call(libc::SYS_sendmsg, &[a, message, 0]), 11);
    let iov = node.put_words(BUF + 0x100, &[BUF + 0x400, 3, BUF + 0x500, 4]);
    let message = node.put_words(BUF + 0x200, &[BUF + 0x600, 128, iov, 2, BUF + 0x700, 64, 0]);
    assert_eq!(node.call(libc::SYS_recvmsg, &[b, message, 0]), 7);
    assert_eq!(
        (node.get(BUF + 0x400, 3), node.get(BUF + 0x500, 4)),
        (b"hel".to_vec(), b"lo w".to_vec())
    );
    assert_eq!(
        node.get_i32(BUF + 0x208),
        0,
        "msg_namelen: the sender has no name"
    );
    assert_eq!(node.get(BUF + 0x228, 8), [0; 8], "msg_controllen");
    assert_eq!(node.get_i32(BUF + 0x230), libc::MSG_TRUNC);
    // The rank's own pointers are not touched.
    assert_eq!(node.get(BUF + 0x210, 8), iov.to_le_bytes());
    assert_eq!(node.get(BUF + 0x220, 8), (BUF + 0x700).to_le_bytes());
}

fn many_messages_travel() {
    let mut node = Node::new();
    let (a, b) = socketpair(&mut node, libc::SOCK_DGRAM);
    node.put(BUF, b"abcdefgh");
    node.put_words(BUF + 0x100, &[BUF, 1, BUF + 1, 2, BUF + 3, 3]);
    let one = |iov: u64| [0, 0, iov, 1, 0, 0, 0, 0];
    let all = [one(BUF + 0x100), one(BUF + 0x110), one(BUF + 0x120)].concat();
    let messages = node.put_words(BUF + 0x200, &all);
    assert_eq!(node.call(libc::SYS_sendmmsg, &[a, messages, 3, 0]), 3);
    assert_eq!(
        [0, 1, 2].map(|i| node.get_i32(messages + i * 64 + 56)),
        [1, 2, 3]
    );
    let all = [
        one(BUF + 0x100),
        one(BUF + 0x110),
        one(BUF + 0x120),
        one(1 << 40),
    ]
    .concat();
    node.put_words(messages, &all);
    node.put_words(
        BUF + 0x100,
        &[BUF + 0x800, 8, BUF + 0x900, 8, BUF + 0xa00, 8],
    );
    let nowait = libc::MSG_DONTWAIT as u64;
    assert_eq!(
        node.call(libc::SYS_recvmmsg, &[b, messages, 4, nowait, 0]),
        3
    );
    assert_eq!(
        [0, 1, 2].map(|i| node.get_i32(messages + i * 64 + 56)),
        [1, 2, 3]
    );
    assert_eq!(node.get(BUF + 0xa00, 3), b"def");
    let first = node.put_words(messages, &one(1 << 40));
    assert_eq!(
        node.call(libc::SYS_recvmmsg, &[b, first, 1, nowait, 0]),
        EFAULT
    );
}

fn wild_vectors_fault() {
    let mut node = Node::new();
    let zero = crate::files::open(&mut node, b"/dev/zero\0", 0) as u64;
    for wild in WILD {
        node.put_words(BUF, &[BUF + 0x100, 0, wild, 8]);
        assert_eq!(
            node.call(libc::SYS_readv, &[zero, BUF, 2]),
            EFAULT,
            "{wild:#x}"
        );
        assert_eq!(
            node.call(libc::SYS_writev, &[1, BUF, 2]),
            EFAULT,
            "{wild:#x}"
        );
        assert_eq!(
            node.call(libc::SYS_readv, &[zero, wild, 2]),
            EFAULT,
            "{wild:#x}"
        );
    }
    // Below the limit but not mapped: Linux says so.
    node.put_words(BUF, &[0x10_0000_0000, 1]);
    assert_eq!(node.call(libc::SYS_readv, &[zero, BUF, 1]), EFAULT);
}

fn wild_messages_fault() {
    let mut node = Node::new();
    let (a, b) = socketpair(&mut node, libc::SOCK_DGRAM);
    node.put(BUF, b"x");
    assert_eq!(node.call(libc::SYS_write, &[b, BUF, 1]), 1);
    let iov = node.put_words(BUF + 0x100, &[BUF, 8]);
    for wild in WILD {
        let bad_iov = node.put_words(BUF + 0x180, &[wild, 8]);
        for message in [
            [wild, 16, iov, 1, 0, 0, 0],
            [0, 0, wild, 1, 0, 0, 0],
            [0, 0, bad_iov, 1, 0, 0, 0],
            [0, 0, iov, 1, wild, 32, 0],
        ] {
            let message = node.put_words(BUF + 0x200, &message);
            assert_eq!(
                node.call(libc::SYS_sendmsg, &[a, message, 0]),
                EFAULT,
                "{wild:#x}"
            );
        }
        assert_eq!(
            node.call(libc::SYS_sendmsg, &[a, wild, 0]),
            EFAULT,
            "{wild:#x}"
        );
        // An address and control messages are only written if there are any.
        let peek = libc::MSG_PEEK as u64;
        for (message, want) in [
            ([0, 0, bad_iov, 1, 0, 0, 0], EFAULT),
            ([0, 0, wild, 1, 0, 0, 0], EFAULT),
            ([wild, 16, iov, 1, wild, 32, 0], 1),
        ] {
            let message = node.put_words(BUF + 0x200, &message);
            let got = node.call(libc::SYS_recvmsg, &[a, message, peek]);
            assert_eq!(got, want, "{wild:#x}");
        }
    }
    let message = node.put_words(BUF + 0x200, &[0, 0, iov, 2000, 0, 0, 0]);
    assert_eq!(node.call(libc::SYS_sendmsg, &[a, message, 0]), -90); // EMSGSIZE
    let message = node.put_words(BUF + 0x200, &[0, 0, iov, 1, BUF, 1 << 30, 0]);
    assert_eq!(node.call(libc::SYS_sendmsg, &[a, message, 0]), -105); // ENOBUFS
}

fn addresses_have_lengths() {
    let mut node = Node::new();
    let (a, _) = socketpair(&mut node, libc::SOCK_STREAM);
    node.put_words(BUF + 0x100, &[110]);
    assert_eq!(node.call(libc::SYS_getsockname, &[a, BUF, BUF + 0x100]), 0);
    assert_eq!(node.get_i32(BUF + 0x100), 2);
    assert_eq!(node.get(BUF, 2), (libc::AF_UNIX as u16).to_le_bytes());
    assert_eq!(
        node.call(libc::SYS_getsockname, &[a, 1 << 40, BUF + 0x100]),
        EFAULT
    );
    assert_eq!(node.call(libc::SYS_getsockname, &[a, BUF, 1 << 40]), EFAULT);
    assert_eq!(node.call(libc::SYS_getsockname, &[a, BUF, 0]), EFAULT);
    node.put_words(BUF + 0x100, &[u64::from(u32::MAX)]);
    assert_eq!(
        node.call(libc::SYS_getsockname, &[a, BUF, BUF + 0x100]),
        -22
    );
}

fn options_have_lengths() {
    let mut node = Node::new();
    let (a, _) = socketpair(&mut node, libc::SOCK_STREAM);
    node.put_words(BUF + 0x100, &[4]);
    let args = [
        a,
        libc::SOL_SOCKET as u64,
        libc::SO_TYPE as u64,
        BUF,
        BUF + 0x100,
    ];
    assert_eq!(node.call(libc::SYS_getsockopt, &args), 0);
    assert_eq!(
        (node.get_i32(BUF), node.get_i32(BUF + 0x100)),
        (libc::SOCK_STREAM, 4)
    );
}

fn requests_are_known() {
    let mut node = Node::new();
    let (a, b) = socketpair(&mut node, libc::SOCK_STREAM);
    assert_eq!(node.call(libc::SYS_write, &[b, BUF, 5]), 5);
    assert_eq!(node.call(libc::SYS_ioctl, &[a, libc::FIONREAD, BUF]), 0);
    assert_eq!(node.get_i32(BUF), 5);
    assert_eq!(
        node.call(libc::SYS_ioctl, &[a, libc::FIONREAD, 1 << 40]),
        EFAULT
    );
    assert_eq!(node.call(libc::SYS_ioctl, &[1, libc::TCGETS, BUF]), -25); // a pipe: ENOTTY
    assert_eq!(node.call(libc::SYS_ioctl, &[a, 0xdead_beef, 0]), -25);
    let lock = [libc::F_RDLCK as u64, 0, 0, 0];
    node.put_words(BUF, &lock);
    let file = crate::files::open(&mut node, b"/bin/true\0", 0) as u64;
    assert_eq!(
        node.call(libc::SYS_fcntl, &[file, libc::F_SETLK as u64, BUF]),
        0
    );
    assert_eq!(
        node.call(libc::SYS_fcntl, &[file, libc::F_SETLK as u64, 1 << 40]),
        EFAULT
    );
    assert_eq!(node.call(libc::SYS_fcntl, &[file, 12345, 0]), -22);
}

fn interfaces_are_listed() {
    let mut node = Node::new();
    let socket = [libc::AF_INET as u64, libc::SOCK_DGRAM as u64, 0];
    let fd = node.call(libc::SYS_socket, &socket) as u64;
    let ifconf = node.put_words(BUF, &[400, BUF + 0x100]);
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, 0x8912, ifconf]), 0);
    let len = node.get_i32(BUF);
    assert!(len % 40 == 0 && len <= 400, "{len}");
    assert_eq!(node.get(BUF + 8, 8), (BUF + 0x100).to_le_bytes());
    node.put_words(BUF, &[400, 1 << 40]);
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, 0x8912, ifconf]), EFAULT);
    let ifreq = node.put_words(
        BUF,
        &[u64::from_le_bytes(*b"lo\0\0\0\0\0\0"), 0, 1 << 40, 0, 0],
    );
    assert_eq!(node.call(libc::SYS_ioctl, &[fd, 0x8946, ifreq]), EFAULT);
}
