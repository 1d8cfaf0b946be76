//! What is seen of a rank's threads: by itself, in /proc, and what they inherit.

use std::time::{Duration, Instant};

use crate::Case;
use crate::files::{names, open};
use crate::node::{DATA, Node};
use crate::threads::node_of;

pub const CASES: &[Case] = &[
    ("those_that_live_are_listed", those_that_live_are_listed),
    ("texts_are_of_the_thread", texts_are_of_the_thread),
    ("a_thread_is_its_worker", a_thread_is_its_worker),
    ("others_are_out_of_reach", others_are_out_of_reach),
    ("a_name_is_inherited", a_name_is_inherited),
    (
        "a_name_that_another_gives_stays",
        a_name_that_another_gives_stays,
    ),
    (
        "names_that_new_threads_give_themselves_at_once_stay",
        names_that_new_threads_give_themselves_at_once_stay,
    ),
    ("priorities_are_inherited", priorities_are_inherited),
];

const BUF: u64 = DATA.0;
const PATH: u64 = DATA.0 + 0x2_0000;
const ENOENT: i64 = -2;
const ESRCH: i64 = -3;
const SET_NAME: u64 = 15;
/// PRIO_PROCESS, IOPRIO_WHO_PROCESS.
const PRIO_THREAD: u64 = 0;
const IOPRIO_THREAD: u64 = 1;
/// Best effort, level 6.
const IOPRIO: u64 = 2 << 13 | 6;

fn tid(node: &Node, thread: usize) -> u64 {
    node.threads()[thread].host.tid.load()
}

/// Reads a file in one go, on behalf of a thread.
fn read_on(node: &mut Node, thread: usize, path: &str) -> String {
    node.put(PATH, format!("{path}\0").as_bytes());
    let fd = node.call_on(thread, libc::SYS_open, &[PATH, 0, 0]);
    assert!(fd >= 0, "{path}: {fd}");
    let len = node.call_on(thread, libc::SYS_read, &[fd as u64, BUF, 0x1_0000]);
    assert_eq!(node.call_on(thread, libc::SYS_close, &[fd as u64]), 0);
    String::from_utf8(node.get(BUF, len as usize)).unwrap()
}

fn read(node: &mut Node, path: &str) -> String {
    read_on(node, 0, path)
}

fn listed(node: &mut Node) -> Vec<String> {
    let fd = open(node, b"/proc/self/task\0", libc::O_DIRECTORY as u64) as u64;
    let len = node.call(libc::SYS_getdents64, &[fd, BUF, 4096]) as usize;
    assert_eq!(node.call(libc::SYS_close, &[fd]), 0);
    let mut names = names(&node.get(BUF, len));
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

fn expected(node: &Node, threads: &[usize]) -> Vec<String> {
    let mut tids: Vec<String> = threads.iter().map(|i| tid(node, *i).to_string()).collect();
    tids.sort();
    tids
}

fn those_that_live_are_listed() {
    let mut node = node_of(4);
    assert_eq!(listed(&mut node), expected(&node, &[0, 1, 2, 3]));
    assert!(read(&mut node, "/proc/self/status").contains("\nThreads:\t4\n"));
    node.threads()[2].node.ends();
    assert_eq!(listed(&mut node), expected(&node, &[0, 1, 3]));
    let path = format!("/proc/self/task/{}/status\0", tid(&node, 2));
    assert_eq!(open(&mut node, path.as_bytes(), 0), ENOENT);
    let stat = read(&mut node, "/proc/self/stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(fields[20 - 3], "3", "num_threads");
    node.start_thread(2, 1);
    assert_eq!(listed(&mut node), expected(&node, &[0, 1, 2, 3]));
}

fn texts_are_of_the_thread() {
    let mut node = node_of(3);
    let (pid, tid) = (node.pid(), tid(&node, 2));
    for path in [
        format!("/proc/self/task/{tid}/status"),
        format!("/proc/{tid}/status"),
    ] {
        let status = read(&mut node, &path);
        assert!(status.contains(&format!("\nTgid:\t{pid}\n")), "{status}");
        assert!(status.contains(&format!("\nPid:\t{tid}\n")), "{status}");
    }
    let stat = read(&mut node, &format!("/proc/self/task/{tid}/stat"));
    assert!(stat.starts_with(&format!("{tid} (")), "{stat}");
    // Also when it is read once more.
    node.put(PATH, format!("/proc/self/task/{tid}/stat\0").as_bytes());
    let fd = node.call(libc::SYS_open, &[PATH, 0, 0]) as u64;
    for _ in 0..2 {
        assert_eq!(node.call(libc::SYS_lseek, &[fd, 0, 0]), 0);
        let len = node.call(libc::SYS_read, &[fd, BUF, 4096]);
        let again = String::from_utf8(node.get(BUF, len as usize)).unwrap();
        assert!(again.starts_with(&format!("{tid} (")), "{again}");
    }
    let maps = read(&mut node, &format!("/proc/self/task/{tid}/maps"));
    assert_eq!(maps, read(&mut node, "/proc/self/maps"));
}

fn a_thread_is_its_worker() {
    let mut node = node_of(3);
    let (pid, tid) = (node.pid(), tid(&node, 2));
    let path = node.put(PATH, b"/proc/thread-self\0");
    let len = node.call_on(2, libc::SYS_readlink, &[path, BUF, 100]);
    assert_eq!(
        node.get(BUF, len as usize),
        format!("{pid}/task/{tid}").into_bytes()
    );
    let status = read_on(&mut node, 2, "/proc/thread-self/status");
    assert!(status.contains(&format!("\nPid:\t{tid}\n")), "{status}");
}

/// Workers that no thread has do not exist for the rank.
fn others_are_out_of_reach() {
    let mut node = node_of(3);
    node.threads()[2].node.ends();
    let (live, spare) = (tid(&node, 1), tid(&node, 2));
    assert_eq!(node.call(libc::SYS_setpriority, &[PRIO_THREAD, live, 1]), 0);
    assert_eq!(
        node.call(libc::SYS_setpriority, &[PRIO_THREAD, spare, 1]),
        ESRCH
    );
    for name in ["mem", "status", "fd/0"] {
        let path = format!("/proc/{spare}/{name}\0");
        assert_eq!(open(&mut node, path.as_bytes(), 0), ENOENT, "{name}");
    }
    let path = format!("/proc/{live}/mem\0");
    assert_eq!(open(&mut node, path.as_bytes(), 0), -13);
}

fn name(node: &mut Node, thread: usize) -> String {
    let path = format!("/proc/self/task/{}/comm", tid(node, thread));
    read(node, &path).trim_end().into()
}

fn set_name(node: &mut Node, thread: usize, name: &str) {
    let at = node.put(PATH, format!("{name}\0").as_bytes());
    assert_eq!(node.call_on(thread, libc::SYS_prctl, &[SET_NAME, at]), 0);
}

/// A worker that had another thread before shows nothing of it; a creator that takes another name does not pass that on.
fn a_name_is_inherited() {
    let mut node = node_of(2);
    node.host_op(abi::control::HostOp::GrowWorkers, &[4]);
    set_name(&mut node, 1, "one");
    node.start_thread(2, 1);
    node.start_thread(3, 2);
    set_name(&mut node, 1, "later");
    assert_eq!(name(&mut node, 3), "one");
    assert_eq!(name(&mut node, 2), "one");
    assert_eq!(name(&mut node, 1), "later");
    node.threads()[2].node.ends();
    node.start_thread(2, 0);
    assert_eq!(name(&mut node, 2), name(&mut node, 0));
    assert_ne!(name(&mut node, 2), "one");
}

/// One had all others take over their creator's name, and one of these had given itself a name meanwhile.
fn names_that_new_threads_give_themselves_at_once_stay() {
    const ROUNDS: u64 = 2000;
    let mut node = node_of(3);
    let given = ["", "first", "second"];
    let at = |thread: usize| PATH + 64 * thread as u64;
    for thread in [1, 2] {
        node.put(at(thread), format!("{}\0", given[thread]).as_bytes());
    }
    for round in 0..ROUNDS {
        for thread in [1, 2] {
            node.threads()[thread].node.ends();
            node.start_thread(thread, 0);
        }
        node.begin_on(1, libc::SYS_prctl, &[SET_NAME, at(1)]);
        // At each moment of what the first thread's worker does for both.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(round % 100) {}
        node.begin_on(2, libc::SYS_prctl, &[SET_NAME, at(2)]);
        for thread in [1, 2] {
            assert_eq!(node.finish_on(thread), 0);
        }
        for thread in [1, 2] {
            assert_eq!(name(&mut node, thread), given[thread], "round {round}");
        }
    }
}

/// As pthread_setname_np does it, before the thread has made any call.
fn a_name_that_another_gives_stays() {
    let mut node = node_of(2);
    let path = format!("/proc/self/task/{}/comm\0", tid(&node, 1));
    let fd = open(&mut node, path.as_bytes(), libc::O_WRONLY as u64);
    assert!(fd >= 0, "{fd}");
    let at = node.put(PATH, b"given");
    assert_eq!(node.call(libc::SYS_write, &[fd as u64, at, 5]), 5);
    assert!(node.call_on(1, libc::SYS_getpgid, &[0]) >= 0);
    assert_eq!(name(&mut node, 1), "given");
}

fn priorities_are_inherited() {
    let mut node = node_of(2);
    node.host_op(abi::control::HostOp::GrowWorkers, &[4]);
    let nice = |node: &mut Node, thread| {
        20 - node.call_on(thread, libc::SYS_getpriority, &[PRIO_THREAD, 0])
    };
    let before = nice(&mut node, 0);
    let set = [PRIO_THREAD, 0, (before + 3) as u64];
    assert_eq!(node.call_on(1, libc::SYS_setpriority, &set), 0);
    let set = [IOPRIO_THREAD, 0, IOPRIO];
    assert_eq!(node.call_on(1, libc::SYS_ioprio_set, &set), 0);
    node.start_thread(2, 1);
    node.start_thread(3, 0);
    assert_eq!(nice(&mut node, 2), before + 3);
    assert_eq!(nice(&mut node, 3), before);
    let get = [IOPRIO_THREAD, 0];
    assert_eq!(node.call_on(2, libc::SYS_ioprio_get, &get), IOPRIO as i64);
    assert_ne!(node.call_on(3, libc::SYS_ioprio_get, &get), IOPRIO as i64);
}
