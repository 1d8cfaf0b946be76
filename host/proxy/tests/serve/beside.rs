//! Children of a rank of several threads: made beside what the others do.

use std::collections::BTreeSet;
use std::fs;

use abi::control::HostOp;
use wire::region_log::{Change, prot};

use crate::Case;
use crate::children::{CALL_AND_EXIT, PAUSE, code, describe, descriptors, fork, status, wait};
use crate::node::{DATA, Node, POOL, wait_for};
use crate::threads::node_of;

pub const CASES: &[Case] = &[
    (
        "do_not_inherit_what_is_being_opened",
        do_not_inherit_what_is_being_opened,
    ),
    (
        "are_forked_beside_looks_at_threads",
        are_forked_beside_looks_at_threads,
    ),
    (
        "have_the_pool_by_no_descriptor_of_the_rank",
        have_the_pool_by_no_descriptor_of_the_rank,
    ),
];

/// The proxy's memory is open for as long as it takes to see what was opened: a child that was forked meanwhile would have it.
fn do_not_inherit_what_is_being_opened() {
    const ROUNDS: usize = 300;
    const EACCES: i64 = -13;
    let mut node = node_of(2);
    node.log.append(&code()).unwrap();
    describe(&node, PAUSE, [0; 4]);
    let path = node.put(DATA.0, b"/proc/self/mem\0");
    for round in 0..ROUNDS {
        node.begin_on(1, libc::SYS_open, &[path, libc::O_RDWR as u64, 0]);
        let pid = fork(&mut node);
        assert!(pid > 0, "{pid}");
        assert_eq!(node.finish_on(1), EACCES);
        // The last of ours goes away with the step into the program.
        wait_for(|| status(pid).contains("\nState:\tS"));
        for fd in descriptors(pid) {
            let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
            let link = link.to_string_lossy();
            assert!(!link.ends_with("/mem"), "round {round}: {fd} is {link}");
        }
        assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
        assert_eq!(wait(&mut node, pid), 9);
    }
}

/// Two threads waited for each other for ever: one shared the fork lock, found a thread that had yet to
/// inherit its name, and was to share the lock once more, behind the fork that waited for it. So did two that settled what
/// one thread inherits, of which the second had not passed yet and kept the first from it.
fn are_forked_beside_looks_at_threads() {
    const ROUNDS: usize = 300;
    let mut node = node_of(3);
    node.log.append(&code()).unwrap();
    describe(&node, CALL_AND_EXIT, [libc::SYS_getpid as u64, 0, 0, 0]);
    let tid = node.threads()[2].host.tid.load();
    // Linux is busy with the path for as long as it takes another thread to come to its fork.
    let way = "../task/".repeat(480);
    let path = node.put(
        DATA.0,
        format!("/proc/self/task/{way}{tid}/comm\0").as_bytes(),
    );
    for round in 0..ROUNDS {
        node.threads()[2].node.ends();
        node.start_thread(2, 0);
        let opens = [path, libc::O_RDWR as u64, 0];
        node.begin_on(1, libc::SYS_open, &opens);
        node.begin_host_op(HostOp::Fork, &[]);
        if round % 2 == 1 {
            node.begin_on(2, libc::SYS_getpgid, &[0]);
        }
        let pid = node.finish();
        assert!(pid > 0, "{pid}");
        let fd = node.finish_on(1);
        assert!(fd >= 0, "round {round}: {fd}");
        if round % 2 == 1 {
            assert!(node.finish_on(2) >= 0);
        }
        assert_eq!(node.call(libc::SYS_close, &[fd as u64]), 0);
        assert_eq!(wait(&mut node, pid), (pid as i32 & 0xff) << 8);
    }
}

/// A child maps frames of the pool by a description of its own of the pool's file. It was opened beside the rank's descriptors,
/// to be read and written, and another thread that guessed its number could keep the whole pool.
fn have_the_pool_by_no_descriptor_of_the_rank() {
    const ROUNDS: i64 = 200;
    const EBADF: i64 = -9;
    const ADDR: u64 = 0x200_0000;
    let mut node = node_of(2);
    node.log.append(&code()).unwrap();
    let shared = Change::Map {
        addr: ADDR,
        len_bytes: 0x1000,
        gpa: POOL.0,
        prot: prot::READ | prot::WRITE,
    };
    node.log.append(&shared).unwrap();
    // add dword ptr [rdi], 1; pause()
    let code = [&[0x83, 0x07, 1], PAUSE].concat();
    describe(&node, &code, [0, ADDR, 0, 0]);
    for round in 1..=ROUNDS {
        node.begin_host_op(HostOp::Fork, &[]);
        while !node.answered() {
            let kept = node.call_on(1, libc::SYS_dup, &[3]);
            assert_eq!(kept, EBADF, "round {round}");
        }
        let pid = node.finish();
        assert!(pid > 0, "{pid}");
        wait_for(|| status(pid).contains("\nState:\tS"));
        assert_eq!(descriptors(pid), BTreeSet::from([0, 1, 2]));
        assert_eq!(i64::from(node.get_gpa(POOL.0, 1)[0]), round & 0xff);
        let is_with_child = |node: &mut Node| {
            let pages = [0, 0x1000].map(|page| [POOL.0 + page, 0x1000]);
            pages.map(|args| node.host_op(HostOp::IsWithChild, &args))
        };
        assert_eq!(is_with_child(&mut node), [1, 0]);
        assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
        assert_eq!(wait(&mut node, pid), 9);
        assert_eq!(is_with_child(&mut node), [0, 0]);
    }
}
