//! Calls that are given up, wherever the worker is just then.

use crate::Case;
use crate::node::{DATA, Node};

pub const CASES: &[Case] = &[
    ("a_blocking_read_ends", a_blocking_read_ends),
    ("a_blocking_poll_ends", a_blocking_poll_ends),
    (
        "a_timeout_makes_the_end_final",
        a_timeout_makes_the_end_final,
    ),
    (
        "what_need_not_wait_is_carried_out",
        what_need_not_wait_is_carried_out,
    ),
    (
        "a_race_with_entry_is_never_lost",
        a_race_with_entry_is_never_lost,
    ),
    (
        "a_kick_never_hits_the_next_call",
        a_kick_never_hits_the_next_call,
    ),
    (
        "a_host_operation_is_not_cancelled",
        a_host_operation_is_not_cancelled,
    ),
];

const BUF: u64 = DATA.0;
const EINTR: i64 = -4;

fn pipe(node: &mut Node) -> (u64, u64) {
    assert_eq!(node.call(libc::SYS_pipe2, &[BUF, 0]), 0);
    (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64)
}

fn a_blocking_read_ends() {
    let mut node = Node::new();
    let (read, write) = pipe(&mut node);
    node.begin_and_wait(libc::SYS_read, &[read, BUF, 1]);
    assert!(!node.answered());
    node.cancel();
    assert_eq!(node.finish(), EINTR);
    // Nothing is left behind.
    assert_eq!(node.call(libc::SYS_write, &[write, BUF, 1]), 1);
    assert_eq!(node.call(libc::SYS_read, &[read, BUF, 1]), 1);
}

fn a_blocking_poll_ends() {
    let mut node = Node::new();
    let (read, _) = pipe(&mut node);
    node.put_words(BUF, &[read | (libc::POLLIN as u64) << 32]);
    node.begin_and_wait(libc::SYS_poll, &[BUF, 1, -1i64 as u64]);
    node.cancel();
    assert_eq!(node.finish(), EINTR);
}

/// The QK started calls at such sockets again, with the whole timeout, for ever.
fn a_timeout_makes_the_end_final() {
    let mut node = Node::new();
    let args = [libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0, BUF];
    assert_eq!(node.call(libc::SYS_socketpair, &args), 0);
    let own = node.get_i32(BUF) as u64;
    for (seconds, is_final) in [(0, 0), (100, 1), (0, 0)] {
        node.put_words(BUF, &[seconds, 0]);
        let (level, option) = (libc::SOL_SOCKET as u64, libc::SO_RCVTIMEO as u64);
        assert_eq!(
            node.call(libc::SYS_setsockopt, &[own, level, option, BUF, 16]),
            0
        );
        node.begin_and_wait(libc::SYS_read, &[own, BUF, 1]);
        node.cancel();
        assert_eq!(node.finish(), EINTR);
        assert_eq!(node.threads()[0].slot.more()[1], is_final);
    }
}

/// As with a signal pending: EINTR is for calls that would wait.
fn what_need_not_wait_is_carried_out() {
    let mut node = Node::new();
    let (read, write) = pipe(&mut node);
    for round in 0..1000u32 {
        for (nr, fd) in [(libc::SYS_write, write), (libc::SYS_read, read)] {
            node.begin(nr, &[fd, BUF, 1]);
            for _ in 0..round % 512 {
                std::hint::spin_loop();
            }
            node.cancel();
            assert_eq!(node.finish(), 1, "round {round}");
        }
    }
}

/// The cancellation comes at every moment: before the request is seen, before the call, in it.
fn a_race_with_entry_is_never_lost() {
    let mut node = Node::new();
    let (read, _) = pipe(&mut node);
    for round in 0..10_000u32 {
        node.begin(libc::SYS_read, &[read, BUF, 1]);
        for _ in 0..round % 512 {
            std::hint::spin_loop();
        }
        node.cancel();
        assert_eq!(node.finish(), EINTR, "round {round}");
    }
}

/// A call that ends by itself just as it is given up: its late kick must not reach the one after it.
fn a_kick_never_hits_the_next_call() {
    let mut node = Node::new();
    let (read, _) = pipe(&mut node);
    node.put_words(BUF, &[read | (libc::POLLIN as u64) << 32]);
    for round in 0..500u32 {
        node.begin(libc::SYS_getpgid, &[0]);
        for _ in 0..round * 7 % 2048 {
            std::hint::spin_loop();
        }
        node.cancel();
        assert!(node.finish() >= 0, "getpgid does not wait");
        assert_eq!(node.call(libc::SYS_poll, &[BUF, 1, 1]), 0, "round {round}");
    }
}

fn a_host_operation_is_not_cancelled() {
    let mut node = Node::new();
    for _ in 0..100 {
        node.begin_host_op(abi::control::HostOp::Sync, &[]);
        node.cancel();
        assert_eq!(node.finish(), 0);
    }
}
