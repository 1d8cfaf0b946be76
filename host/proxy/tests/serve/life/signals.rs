//! Signals that come from outside.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use abi::control::HostOp;
use wire::rank::state;

use super::{BUF, FOR_EVER, STOP, kill, stopped};
use crate::Case;
use crate::launch::Setup;
use crate::node::{DATA, Node, PARTITION, wait_for};

pub const CASES: &[Case] = &[
    ("signals_are_posted", signals_are_posted),
    (
        "signals_of_descriptors_name_them",
        signals_of_descriptors_name_them,
    ),
    ("signals_wait_for_room", signals_wait_for_room),
    (
        "signals_before_the_program_runs",
        signals_before_the_program_runs,
    ),
    ("ignored_signals_stay_ignored", ignored_signals_stay_ignored),
    ("stop_and_continue", stop_and_continue),
    ("a_stop_may_have_an_end", a_stop_may_have_an_end),
];

/// Signal 32 is the C library's, which starts threads with it unblocked: one that comes to a thread of the proxy that has not yet
/// blocked it ends the proxy, as it ends a process that does not handle it.
fn signals_are_posted() {
    let node = Node::new();
    for thread in ["forker", "watcher"] {
        wait_for(|| node.is_blocked_by(thread, 32));
    }
    for signo in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGCHLD,
        libc::SIGUSR1,
        32,
        34,
        63,
    ] {
        kill(&node, signo);
        let signal = node
            .wait_signal()
            .unwrap_or_else(|| panic!("signal {signo}"));
        assert_eq!(
            (signal.signo, signal.pid),
            (signo as u32, std::process::id())
        );
        assert_eq!(signal.code, libc::SI_USER);
    }
}

/// Once si_pid and si_uid, which such a signal has not, stood where si_band and si_fd belong.
fn signals_of_descriptors_name_them() {
    const SET_SIGNAL: u64 = 10; // F_SETSIG
    let mut node = Node::new();
    assert_eq!(node.call(libc::SYS_pipe2, &[BUF, 0]), 0);
    let (read, write) = (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64);
    let signo = libc::SIGRTMIN() as u64 + 1;
    for (command, argument) in [
        (libc::F_SETOWN as u64, node.pid() as u64),
        (SET_SIGNAL, signo),
        (libc::F_SETFL as u64, libc::O_ASYNC as u64),
    ] {
        assert_eq!(node.call(libc::SYS_fcntl, &[read, command, argument]), 0);
    }
    assert_eq!(node.call(libc::SYS_write, &[write, BUF, 1]), 1);
    let signal = node.wait_signal().unwrap();
    let band = (libc::POLLIN | libc::POLLRDNORM) as u32;
    assert_eq!((u64::from(signal.signo), signal.code), (signo, 1)); // POLL_IN
    assert_eq!((signal.pid, signal.uid, signal.value), (band, 0, read));
}

/// Once all were posted that the mailbox had room for; the kernel had places for 64, and the rest was lost.
fn signals_wait_for_room() {
    let node = Node::new();
    let (all, queued) = (500, wire::signal::QUEUED);
    for _ in 0..all {
        kill(&node, libc::SIGRTMIN()); // real-time signals queue up
    }
    let next = || node.wait_signal().unwrap().signo;
    for _ in 0..queued {
        assert_eq!(next(), libc::SIGRTMIN() as u32);
    }
    // A standard signal needs no place, and comes though the others wait.
    kill(&node, libc::SIGTERM);
    assert_eq!(next(), libc::SIGTERM as u32);
    for taken in 1..=all - queued {
        assert!(node.area().mailbox.is_empty(), "no place is free");
        node.area().node.signals_taken.store(taken);
        assert_eq!(next(), libc::SIGRTMIN() as u32);
    }
}

fn loading() -> Node {
    let node = Node::with(Setup {
        attach: false,
        ..Setup::default()
    });
    node.wait_attached();
    node.area().node.state.store(state::LOADING);
    node
}

fn signals_before_the_program_runs() {
    for signo in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut node = loading();
        kill(&node, libc::SIGWINCH);
        kill(&node, signo);
        assert_eq!(node.wait().signal(), Some(signo));
        assert!(node.area().mailbox.is_empty());
    }
}

fn ignored_signals_stay_ignored() {
    let setup = Setup {
        attach: false,
        ignore: Some(libc::SIGHUP),
        ..Setup::default()
    };
    let mut node = Node::with(setup);
    node.wait_attached();
    // glibc does not reset 32 and 33, which it keeps for itself.
    let ignored = node.area().host.ignored.load() as i32;
    assert_eq!(ignored & i32::MAX, 1 << (libc::SIGHUP - 1));
    kill(&node, libc::SIGHUP);
    node.area().node.state.store(state::RUNNING);
    node.map(DATA.0, DATA.1, PARTITION.0, true, true);
    assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
}

fn stop_and_continue() {
    let mut node = Node::new();
    kill(&node, libc::SIGTSTP);
    assert_eq!(node.wait_signal().unwrap().signo, libc::SIGTSTP as u32);
    node.begin_host_op(HostOp::Stop, &[FOR_EVER, STOP]);
    wait_for(|| stopped(&node));
    assert!(!node.answered());
    kill(&node, libc::SIGCONT);
    assert_eq!(node.finish(), 0);
    assert_eq!(node.wait_signal().unwrap().signo, libc::SIGCONT as u32);
    // A SIGCONT that overtakes the stop undoes it.
    kill(&node, libc::SIGTSTP);
    node.wait_signal().unwrap();
    kill(&node, libc::SIGCONT);
    node.wait_signal().unwrap();
    assert_eq!(node.host_op(HostOp::Stop, &[FOR_EVER, STOP]), 0);
}

/// Once nothing continued a rank whose own timer did natively.
fn a_stop_may_have_an_end() {
    let mut node = Node::new();
    let limit_ns = 100_000_000;
    let since = Instant::now();
    assert_eq!(node.host_op(HostOp::Stop, &[limit_ns, STOP]), 0);
    assert!(since.elapsed() >= Duration::from_nanos(limit_ns));
    assert_eq!(
        node.host_op(HostOp::Stop, &[0, STOP]),
        0,
        "it is over already"
    );
    // What continued it is not the program's.
    kill(&node, libc::SIGUSR1);
    assert_eq!(node.wait_signal().unwrap().signo, libc::SIGUSR1 as u32);
    // The next one has none.
    node.begin_host_op(HostOp::Stop, &[FOR_EVER, STOP]);
    wait_for(|| stopped(&node));
    kill(&node, libc::SIGCONT);
    assert_eq!(node.finish(), 0);
}
