//! Ranks of many threads: a worker for each, all of them at once.

use std::os::unix::process::ExitStatusExt;

use abi::control::HostOp;
use abi::map::MAX_THREADS;

use crate::Case;
use crate::launch::Setup;
use crate::node::{DATA, Node, wait_for};

pub const CASES: &[Case] = &[
    ("a_thousand_block_at_once", a_thousand_block_at_once),
    (
        "workers_are_started_when_wanted",
        workers_are_started_when_wanted,
    ),
    ("too_many_workers_are_refused", too_many_workers_are_refused),
    ("a_limit_on_processes_is_told", a_limit_on_processes_is_told),
    ("no_request_is_slept_through", no_request_is_slept_through),
    (
        "a_call_is_given_up_whichever_thread_is_woken",
        a_call_is_given_up_whichever_thread_is_woken,
    ),
    ("an_exit_ends_them_all", an_exit_ends_them_all),
    ("a_fatal_signal_ends_them_all", a_fatal_signal_ends_them_all),
    ("signals_come_while_all_block", signals_come_while_all_block),
    ("a_stop_stops_them_all", a_stop_stops_them_all),
    ("a_sigpipe_of_others_is_kept", a_sigpipe_of_others_is_kept),
    (
        "a_worker_that_sleeps_passes_signals_on",
        a_worker_that_sleeps_passes_signals_on,
    ),
    (
        "limits_are_set_while_others_need_room",
        limits_are_set_while_others_need_room,
    ),
    (
        "mappings_change_under_blocked_calls",
        mappings_change_under_blocked_calls,
    ),
];

const BUF: u64 = DATA.0;
const EINTR: i64 = -4;
const EFAULT: i64 = -14;
const EAGAIN: i64 = -11;

/// A node whose rank has this many threads.
pub fn node_of(threads: usize) -> Node {
    let mut node = Node::new();
    let workers = node.host_op(HostOp::GrowWorkers, &[threads as u64]);
    assert!(workers >= threads as i64, "{workers}");
    (1..threads).for_each(|index| node.start_thread(index, 0));
    node
}

fn pipe(node: &mut Node) -> (u64, u64) {
    assert_eq!(node.call(libc::SYS_pipe2, &[BUF, 0]), 0);
    (node.get_i32(BUF) as u64, node.get_i32(BUF + 4) as u64)
}

/// State of a thread of the proxy as Linux has it: 'S' while it sleeps.
fn state_of(node: &Node, thread: usize) -> Option<char> {
    let tid = node.threads()[thread].host.tid.load();
    let stat = std::fs::read_to_string(format!("/proc/{}/task/{tid}/stat", node.pid())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Each of the threads reads a byte from the pipe, and blocks.
fn block(node: &mut Node, threads: std::ops::Range<usize>, read: u64) {
    for thread in threads.clone() {
        node.begin_on(thread, libc::SYS_read, &[read, BUF + 64 * thread as u64, 1]);
    }
    for thread in threads {
        wait_for(|| {
            !node.threads()[thread].slot.is_overdue() && state_of(node, thread) == Some('S')
        });
        assert!(!node.answered_on(thread));
    }
}

fn a_thousand_block_at_once() {
    const THREADS: usize = 1000;
    let mut node = node_of(THREADS);
    let (read, write) = pipe(&mut node);
    block(&mut node, 1..THREADS, read);
    node.cancel_on(500);
    assert_eq!(node.finish_on(500), EINTR);
    assert!((1..THREADS).all(|thread| thread == 500 || !node.answered_on(thread)));
    let bytes = THREADS as u64 - 2;
    assert_eq!(
        node.call(libc::SYS_write, &[write, BUF, bytes]),
        bytes as i64
    );
    for thread in (1..THREADS).filter(|thread| *thread != 500) {
        assert_eq!(node.finish_on(thread), 1, "thread {thread}");
    }
    // And once more, with the same workers.
    for thread in 0..THREADS {
        node.begin_on(thread, libc::SYS_getpgid, &[0]);
    }
    for thread in 0..THREADS {
        assert!(node.finish_on(thread) >= 0, "thread {thread}");
    }
}

fn workers_are_started_when_wanted() {
    let mut node = Node::new();
    assert_eq!(node.area().host.workers.load(), 1);
    assert_eq!(node.threads()[0].host.tid.load(), node.pid() as u64);
    assert_eq!(node.host_op(HostOp::GrowWorkers, &[1]), 1);
    let count = node.host_op(HostOp::GrowWorkers, &[5]) as usize;
    assert!(count >= 5 && node.area().host.workers.load() == count as u64);
    assert_eq!(node.host_op(HostOp::GrowWorkers, &[2]), count as i64);
    let mut tids: Vec<u64> = (0..count)
        .map(|i| node.threads()[i].host.tid.load())
        .collect();
    for tid in &tids {
        assert!(std::fs::exists(format!("/proc/{}/task/{tid}", node.pid())).unwrap());
    }
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids.len(), count);
    assert_eq!(node.threads()[count].host.tid.load(), 0);
}

fn too_many_workers_are_refused() {
    let mut node = Node::new();
    for wanted in [MAX_THREADS as u64 + 1, u64::MAX] {
        assert_eq!(node.host_op(HostOp::GrowWorkers, &[wanted]), EAGAIN);
    }
    assert_eq!(node.area().host.workers.load(), 1);
    let all = MAX_THREADS as u64;
    assert_eq!(node.host_op(HostOp::GrowWorkers, &[all]), all as i64);
}

/// Those that could be started serve all the same.
fn a_limit_on_processes_is_told() {
    const LONELY: u32 = 54_324; // other tests have other users, for they run at the same time
    if !rustix::process::getuid().is_root() {
        return; // the limit counts all that the user runs
    }
    let mut node = Node::with(Setup {
        user: Some(LONELY),
        processes: Some(16),
        ..Setup::default()
    });
    assert_eq!(node.host_op(HostOp::GrowWorkers, &[100]), EAGAIN);
    let workers = node.area().host.workers.load() as usize;
    assert!((2..100).contains(&workers), "{workers}");
    node.start_thread(workers - 1, 0);
    assert!(node.call_on(workers - 1, libc::SYS_getpgid, &[0]) >= 0);
    assert_eq!(
        node.host_op(HostOp::GrowWorkers, &[workers as u64]),
        workers as i64
    );
}

/// Requests meet workers that spin, that are about to sleep and that sleep; at last while the first one is in a call, so that
/// the doorbell wakes the watcher.
fn no_request_is_slept_through() {
    const THREADS: usize = 8;
    let mut node = node_of(THREADS);
    let (read, _) = pipe(&mut node);
    let mut random = 1u64;
    for round in 0..3000 {
        if round == 1500 {
            block(&mut node, 0..1, read);
        }
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let chosen = random >> 32;
        let first = usize::from(round >= 1500);
        let threads: Vec<usize> = (first..THREADS).filter(|i| chosen >> i & 1 == 1).collect();
        for &thread in &threads {
            node.begin_on(thread, libc::SYS_getpgid, &[0]);
            for _ in 0..chosen >> 8 & 0x3ff {
                std::hint::spin_loop();
            }
        }
        for &thread in &threads {
            assert!(
                node.finish_on(thread) >= 0,
                "round {round}, thread {thread}"
            );
        }
    }
}

/// The first worker waits for the doorbell, or is in a call itself so that the watcher takes it.
fn a_call_is_given_up_whichever_thread_is_woken() {
    let mut node = node_of(3);
    let (read, write) = pipe(&mut node);
    for round in 0..2000u32 {
        if round == 1000 {
            block(&mut node, 0..1, read);
        }
        node.begin_on(2, libc::SYS_read, &[read, BUF, 1]);
        for _ in 0..round % 512 * 8 {
            std::hint::spin_loop();
        }
        node.cancel_on(2);
        assert_eq!(node.finish_on(2), EINTR, "round {round}");
    }
    assert_eq!(node.call_on(1, libc::SYS_write, &[write, BUF, 1]), 1);
    assert_eq!(node.finish(), 1);
}

fn an_exit_ends_them_all() {
    let mut node = node_of(100);
    let (read, _) = pipe(&mut node);
    block(&mut node, 0..100, read);
    assert_eq!(node.exit(3 << 8).code(), Some(3));
    // The first worker is woken as well.
    let mut node = node_of(100);
    let (read, _) = pipe(&mut node);
    block(&mut node, 1..100, read);
    assert_eq!(node.exit(4 << 8).code(), Some(4));
}

fn a_fatal_signal_ends_them_all() {
    let mut node = node_of(100);
    let (read, _) = pipe(&mut node);
    block(&mut node, 0..100, read);
    assert_eq!(
        node.exit(libc::SIGSEGV as u64).signal(),
        Some(libc::SIGSEGV)
    );
}

fn signals_come_while_all_block() {
    let mut node = node_of(100);
    let (read, write) = pipe(&mut node);
    block(&mut node, 0..100, read);
    // SAFETY: 1. The proxy is our child.
    unsafe { libc::kill(node.pid(), libc::SIGTERM) };
    let signal = node.wait_signal().expect("it is passed on");
    assert_eq!(signal.signo, libc::SIGTERM as u32);
    assert!((0..100).all(|thread| !node.answered_on(thread)));
    // Thread 7 is to take it.
    node.cancel_on(7);
    assert_eq!(node.finish_on(7), EINTR);
    assert_eq!(node.call_on(7, libc::SYS_write, &[write, BUF, 99]), 99);
    for thread in (0..100).filter(|thread| *thread != 7) {
        assert_eq!(node.finish_on(thread), 1);
    }
}

/// Linux lets only a process's first thread put back a signal as it came: of another thread it was lost.
fn a_sigpipe_of_others_is_kept() {
    let mut node = node_of(2);
    let (read, write) = pipe(&mut node);
    assert_eq!(node.call(libc::SYS_close, &[read]), 0);
    for thread in 0..2 {
        let tid = node.threads()[thread].host.tid.load();
        let (pid, tid, signo) = (i64::from(node.pid()), tid as i64, libc::SIGPIPE);
        // SAFETY: 1. The proxy is our child, and blocks all signals.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signo) };
        assert_eq!(sent, 0);
        assert_eq!(node.call_on(thread, libc::SYS_write, &[write, BUF, 1]), -32); // EPIPE
        assert_eq!(
            node.wait_signal().map(|signal| signal.signo),
            Some(signo as u32)
        );
    }
}

fn a_stop_stops_them_all() {
    let mut node = node_of(8);
    let (read, write) = pipe(&mut node);
    block(&mut node, 1..8, read);
    node.begin_host_op(HostOp::Stop, &[u64::MAX, libc::SIGSTOP as u64]);
    wait_for(|| (0..8).all(|thread| state_of(&node, thread) == Some('T')));
    // SAFETY: 1. The proxy is our child.
    unsafe { libc::kill(node.pid(), libc::SIGCONT) };
    assert_eq!(node.finish(), 0);
    assert_eq!(node.call(libc::SYS_write, &[write, BUF, 7]), 7);
    (1..8).for_each(|thread| assert_eq!(node.finish_on(thread), 1));
}

/// What is unmapped is out of reach of a call that was under way before, once the removal is acknowledged.
fn mappings_change_under_blocked_calls() {
    let mut node = node_of(4);
    let (read, write) = pipe(&mut node);
    let page = DATA.0 + 0x10_0000;
    node.put(page, b"before");
    node.begin_on(1, libc::SYS_read, &[read, page, 1]);
    wait_for(|| !node.threads()[1].slot.is_overdue() && state_of(&node, 1) == Some('S'));
    node.unmap(page, 4096);
    assert!(node.call_on(2, libc::SYS_getpgid, &[0]) >= 0);
    assert_eq!(node.log.applied(), node.log.position());
    assert_eq!(node.call_on(3, libc::SYS_write, &[write, BUF, 1]), 1);
    assert_eq!(node.finish_on(1), EFAULT);
    assert_eq!(node.get(page, 6), b"before");
    // Requests of all threads bring changes, each its own part of them.
    for round in 0..200u64 {
        for thread in 0..4 {
            let at = DATA.0 + 0x20_0000 + (round * 4 + thread) * 4096 % 0x10_0000;
            node.unmap(at, 4096);
            node.begin_on(thread as usize, libc::SYS_getpgid, &[0]);
            node.map(at, 4096, crate::node::PARTITION.0, true, true);
        }
        for thread in 0..4 {
            assert!(node.finish_on(thread) >= 0);
        }
    }
    assert_eq!(node.host_op(HostOp::Sync, &[]), 0);
    assert_eq!(node.log.applied(), node.log.position());
}

/// The limit on descriptors is raised for a moment where the proxy needs room; a limit that another thread set at that moment
/// was lost.
fn limits_are_set_while_others_need_room() {
    const THREADS: usize = 8;
    let mut node = node_of(THREADS);
    let path = node.put(BUF + 0x1000, b"/proc/self/exe\0");
    let hard = node.area().host.rlimits[libc::RLIMIT_NOFILE as usize][1].load();
    for round in 0..300 {
        let files = 100 + round % 50;
        let set = [libc::RLIMIT_NOFILE as u64, 0, files, hard];
        // Workers that have just answered take the next request at once: all of them are busy when the limit is set.
        for turn in 0..20 {
            for thread in 1..THREADS {
                node.begin_on(thread, libc::SYS_readlink, &[path, BUF, 100]);
            }
            if turn == round % 20 {
                node.begin(libc::SYS_setrlimit, &set);
            }
            for thread in 1..THREADS {
                assert!(node.finish_on(thread) >= 0);
            }
        }
        assert_eq!(node.finish(), 0);
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.pid())).unwrap();
        let mut lines = limits.lines();
        let files_line = lines.find(|line| line.starts_with("Max open files"));
        let soft = files_line.unwrap().split_whitespace().nth(3).unwrap();
        assert_eq!(soft, files.to_string(), "round {round}");
    }
}

/// A worker that takes a signal while its thread makes no calls: once it was noted and not passed on.
fn a_worker_that_sleeps_passes_signals_on() {
    let mut node = node_of(3);
    let signals = [libc::SIGTTIN, libc::SIGTTOU];
    let both = signals.map(|signo| 1 << (signo - 1));
    node.threads()[2].node.put_takes(both[0] | both[1]);
    assert!(node.call_on(2, libc::SYS_getpgid, &[0]) >= 0);
    wait_for(|| state_of(&node, 2) == Some('S'));
    for signo in signals {
        let tid = node.threads()[2].host.tid.load();
        // SAFETY: 1. The proxy is our child.
        unsafe { libc::syscall(libc::SYS_tgkill, node.pid(), tid as i32, signo) };
        let signal = node.wait_signal().expect("it is passed on");
        assert_eq!(signal.signo, signo as u32);
    }
    assert!(node.call_on(2, libc::SYS_getpgid, &[0]) >= 0);
}
