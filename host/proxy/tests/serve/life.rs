//! How a rank starts and ends, and its signals.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use abi::control::HostOp;
use wire::rank::state;

use crate::Case;
use crate::launch::Setup;
use crate::node::{DATA, Node, PARTITION, wait_for};

pub const CASES: &[Case] = &[
    ("it_says_who_it_is", it_says_who_it_is),
    ("twenty_at_once", twenty_at_once),
    ("exit_codes", exit_codes),
    ("deaths_by_signal", deaths_by_signal),
    ("the_end_during_a_call", the_end_during_a_call),
    ("a_refused_program", a_refused_program),
    (
        "a_second_program_that_cannot_be_loaded",
        a_second_program_that_cannot_be_loaded,
    ),
    ("a_crash_report", a_crash_report),
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
    ("a_too_long_file", a_too_long_file),
    ("groups_stay_as_they_are", groups_stay_as_they_are),
    ("calls_that_are_not_shipped", calls_that_are_not_shipped),
    (
        "calls_that_are_relayed_in_part",
        calls_that_are_relayed_in_part,
    ),
];

const BUF: u64 = DATA.0;
const STOP: u64 = libc::SIGSTOP as u64;
/// A stop that only SIGCONT ends.
const FOR_EVER: u64 = u64::MAX;

fn kill(node: &Node, signo: i32) {
    // SAFETY: 1. Sends a signal to the proxy this test started.
    assert_eq!(unsafe { libc::kill(node.pid(), signo) }, 0);
}

fn it_says_who_it_is() {
    let mut node = Node::new();
    let host = &node.area().host;
    assert_eq!(host.pid.load(), node.pid() as u64);
    assert_eq!(host.ppid.load(), u64::from(std::process::id()));
    // SAFETY: 1. No preconditions.
    let uid = unsafe { libc::getuid() };
    assert_eq!(host.info[5].load(), uid.into());
    assert_ne!(host.info[10].load(), host.info[11].load());
    assert_eq!(host.ignored.load() & 1 << (libc::SIGPIPE - 1), 0);
    let mut name = [0; 64];
    let uname = rustix::system::uname();
    assert_eq!(host.nodename.get(&mut name), uname.nodename().to_bytes());
    // SAFETY: 1. No preconditions. (Not rustix's: the group may be outside the pid namespace, and its id then 0.)
    let group = unsafe { libc::getpgrp() };
    assert_eq!(node.call(libc::SYS_getpgid, &[0]), i64::from(group));
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", node.pid())).unwrap();
    assert_eq!(comm, "true\n");
}

fn twenty_at_once() {
    let mut nodes: Vec<Node> = (0..20).map(|_| Node::new()).collect();
    for (code, node) in nodes.iter_mut().enumerate() {
        assert!(node.call(libc::SYS_getpgid, &[0]) >= 0);
        assert_eq!(node.exit((code as u64) << 8).code(), Some(code as i32));
    }
}

fn exit_codes() {
    for code in [0, 1, 42, 255] {
        assert_eq!(Node::new().exit(code << 8).code(), Some(code as i32));
    }
}

fn deaths_by_signal() {
    for signo in [
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGALRM,
        33,
        64,
    ] {
        let status = Node::new().exit(signo as u64);
        assert_eq!(
            (status.signal(), status.core_dumped()),
            (Some(signo), false)
        );
    }
}

fn the_end_during_a_call() {
    let mut node = Node::new();
    node.begin_and_wait(libc::SYS_read, &[0, BUF, 1]);
    assert_eq!(node.exit(3 << 8).code(), Some(3));
    let mut node = Node::new();
    node.begin_and_wait(libc::SYS_read, &[0, BUF, 1]);
    assert_eq!(node.exit(15).signal(), Some(15));
}

fn a_refused_program() {
    let mut node = Node::with(Setup {
        attach: false,
        label: "rank 2",
        ..Setup::default()
    });
    node.wait_attached();
    let from_node = &node.area().node;
    from_node.message.put(b"not for this machine");
    from_node.wait_status.store(126 << 8);
    from_node.state.store(state::REFUSED);
    node.ring();
    assert_eq!(node.wait().code(), Some(126));
    assert_eq!(
        node.stderr(),
        "yod: rank 2: /bin/true: not for this machine\n"
    );
}

/// The second program of a rank that turned out not to be loadable: the rank, and so the proxy, ended well.
fn a_second_program_that_cannot_be_loaded() {
    let mut node = Node::new();
    let from_node = &node.area().node;
    from_node.message.put(b"it ended at byte 7");
    from_node.wait_status.store(libc::SIGSEGV as u64);
    from_node.state.store(state::REFUSED);
    node.ring();
    assert_eq!(node.wait().signal(), Some(libc::SIGSEGV));
    assert_eq!(node.stderr(), "yod: /bin/true: it ended at byte 7\n");
}

fn a_crash_report() {
    let mut node = Node::new();
    node.call(libc::SYS_getpgid, &[0]); // the mapping is known
    let crash = &node.area().node.crash;
    crash.signo.put(libc::SIGSEGV as u64);
    crash.code.put(2);
    crash.addr.put(DATA.0 + 0x18);
    crash.valid.put(1);
    assert_eq!(
        node.exit(libc::SIGSEGV as u64).signal(),
        Some(libc::SIGSEGV)
    );
    let text = node.stderr();
    assert!(
        text.starts_with(
            "yod: /bin/true: segmentation fault (SIGSEGV) at address 0x400018: read where that is not permitted\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("000000400000-000000800000 rw- 4096 KiB"),
        "{text}"
    );
}

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

/// The state of a process, as ps shows it; None when it is gone.
fn process_state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether a process has ended, and was not waited for yet.
pub fn is_zombie(pid: i32) -> bool {
    process_state(pid) == Some('Z')
}

/// Whether a signal has stopped the proxy.
pub fn stopped(node: &Node) -> bool {
    process_state(node.pid()) == Some('T')
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

fn a_too_long_file() {
    let directory = crate::node::Directory::new("too_long");
    let mut node = Node::with(Setup {
        file_bytes: Some(100),
        ..Setup::default()
    });
    let flags = (libc::O_RDWR | libc::O_CREAT) as u64;
    let fd = crate::files::open(&mut node, &directory.path("file"), flags) as u64;
    assert_eq!(node.call(libc::SYS_pwrite64, &[fd, BUF, 1, 100]), -27); // EFBIG
    assert_eq!(node.threads()[0].slot.more()[0], libc::SIGXFSZ as u64);
    assert_eq!(node.call(libc::SYS_kill, &[0, 0]), 0);
    assert!(node.area().mailbox.is_empty());
}

/// Of calls that the QK serves but relays in part, the other parts would change the proxy.
fn calls_that_are_relayed_in_part() {
    let mut node = Node::new();
    let (set_seccomp, set_dumpable) = (22, 4);
    for option in [set_seccomp, set_dumpable] {
        assert_eq!(node.call(libc::SYS_prctl, &[option, 1]), -22);
    }
    node.put_words(DATA.0, &[0, 0]);
    assert_eq!(node.call(libc::SYS_prlimit64, &[0, 1, DATA.0, 0]), -1);
    assert_eq!(node.call(libc::SYS_prlimit64, &[0, 1, 0, DATA.0]), 0);
}

/// Once the same groups were refused to all; what is refused to all could not be told from that either.
fn groups_stay_as_they_are() {
    // SAFETY: 1. No preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    for (user, same) in [(None, if root { 0 } else { -1 }), (Some(65534), -1)] {
        let mut node = Node::with(Setup {
            user: user.filter(|_| root),
            ..Setup::default()
        });
        let count = node.call(libc::SYS_getgroups, &[64, DATA.0]);
        assert!(count >= 0, "{count}");
        let set = node.call(libc::SYS_setgroups, &[count as u64, DATA.0]);
        assert_eq!(set, same, "{user:?}");
        node.put_words(DATA.0, &[12345]);
        assert_eq!(node.call(libc::SYS_setgroups, &[1, DATA.0]), -1, "{user:?}");
        let after = node.call(libc::SYS_getgroups, &[0, 0]);
        assert_eq!(after, count, "{user:?}");
    }
}

fn calls_that_are_not_shipped() {
    let mut node = Node::new();
    for nr in [
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_brk,
        libc::SYS_fork,
        libc::SYS_execve,
        libc::SYS_exit_group,
        libc::SYS_seccomp,
        libc::SYS_rt_sigaction,
        libc::SYS_unshare,
        400,
        1 << 20,
        -1,
    ] {
        assert_eq!(node.call(nr, &[0; 6]), -38, "call {nr}");
    }
}
