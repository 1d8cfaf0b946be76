//! How a rank starts and ends, and its signals.

pub mod signals;

use std::os::unix::process::ExitStatusExt;

use wire::rank::state;

use crate::Case;
use crate::launch::Setup;
use crate::node::{DATA, Node};

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
    node.doorbell();
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
    node.doorbell();
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

/// Once the same groups were refused to all; what is refused to all could not be distinguished from that either.
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
