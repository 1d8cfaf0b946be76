//! Children that cannot be, that are many, or whose proxy ends.

use std::fs;
use std::time::{Duration, Instant};

use abi::control::HostOp;

use super::*;
use crate::Case;
use crate::launch::Setup;
use crate::node::{Node, wait_for};

pub const CASES: &[Case] = &[
    ("that_cannot_be_leave_nothing", that_cannot_be_leave_nothing),
    (
        "are_refused_where_the_host_has_no_memory",
        are_refused_where_the_host_has_no_memory,
    ),
    ("may_be_many", may_be_many),
    ("are_refused_at_the_limit", are_refused_at_the_limit),
    (
        "end_with_a_proxy_that_is_killed",
        end_with_a_proxy_that_is_killed,
    ),
];

/// A child whose thread pointer cannot be.
fn that_cannot_be_leave_nothing() {
    let mut node = node();
    describe(&node, PAUSE, [0; 4]);
    node.area().child.bases[0].put(1 << 62);
    assert_eq!(fork(&mut node), -1); // EPERM, as arch_prctl has it
    assert_eq!(node.call(libc::SYS_wait4, &[u64::MAX, 0, 0, 0]), ECHILD);
    node.area().child.bases[0].put(0);
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
    assert_eq!(wait(&mut node, pid), 9);
}

/// MARGAY_FORKS says how many.
fn may_be_many() {
    let count = std::env::var("MARGAY_FORKS").map_or(200, |count| count.parse().unwrap());
    let mut node = node();
    let before = descriptors(node.pid().into());
    let lines = |pid: i32| {
        fs::read_to_string(format!("/proc/{pid}/maps"))
            .unwrap()
            .lines()
            .count()
    };
    describe(&node, CALL_AND_EXIT, [libc::SYS_getpid as u64, 0, 0, 0]);
    let mut first = 0;
    for round in 0..count {
        let pid = fork(&mut node);
        assert_eq!(wait(&mut node, pid), (pid as i32 & 0xff) << 8);
        if round == 0 {
            first = lines(node.pid());
        }
    }
    assert_eq!(descriptors(node.pid().into()), before);
    assert!(lines(node.pid()) <= first + 8, "mappings are left");
}

/// RLIMIT_NPROC, which Linux counts by user: one without other processes.
fn are_refused_at_the_limit() {
    const LONELY: u32 = 54_321;
    const EAGAIN: i64 = -11;
    if !is_root() {
        return;
    }
    let mut node = node_with(Setup {
        user: Some(LONELY),
        processes: Some(8),
        ..Setup::default()
    });
    describe(&node, PAUSE, [0; 4]);
    let mut pids = Vec::new();
    let refused = loop {
        match fork(&mut node) {
            pid @ 1.. if pids.len() < 8 => pids.push(pid),
            ret => break ret,
        }
    };
    assert_eq!(refused, EAGAIN);
    assert!(!pids.is_empty());
    for pid in &pids {
        assert_eq!(node.call(libc::SYS_kill, &[*pid as u64, 9]), 0);
        assert_eq!(wait(&mut node, *pid), 9);
    }
    let pid = fork(&mut node);
    assert!(pid > 0, "{pid}");
    assert_eq!(node.call(libc::SYS_kill, &[pid as u64, 9]), 0);
}

/// A copy for which the host had no memory ended QEMU and with it the job, or the child.
fn are_refused_where_the_host_has_no_memory() {
    const BYTES: u64 = 48 << 20;
    const ADDR: u64 = 0x1000_0000;
    const GPA: u64 = CODE_GPA + 0x1000;
    const ENOMEM: i64 = -12;
    let touch = |node: &Node, bytes: u64| {
        let change = Change::Map {
            addr: ADDR,
            len_bytes: bytes,
            gpa: GPA,
            prot: prot::READ | prot::WRITE,
        };
        node.log.append(&change).unwrap();
        node.put_gpa(GPA, &vec![1; bytes as usize]);
    };
    let ends_well = |node: &mut Node| {
        let pid = fork(node);
        assert!(pid > 0, "{pid}");
        assert_eq!(wait(node, pid), (pid as i32 & 0xff) << 8);
    };
    for (room, refused) in [(BYTES / 2, true), (2 * BYTES, false)] {
        let mut node = node_with(Setup {
            room: Some(room),
            ..Setup::default()
        });
        describe(&node, CALL_AND_EXIT, [libc::SYS_getpid as u64, 0, 0, 0]);
        ends_well(&mut node);
        touch(&node, BYTES);
        if refused {
            assert_eq!(fork(&mut node), ENOMEM);
            let all = Change::Unmap {
                addr: ADDR,
                len_bytes: BYTES,
            };
            node.log.append(&all).unwrap();
        }
        ends_well(&mut node);
    }
}

/// Killed at whatever moment, a proxy leaves no child behind that has not begun. MARGAY_KILLS says how often.
fn end_with_a_proxy_that_is_killed() {
    let rounds = std::env::var("MARGAY_KILLS").map_or(20, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut node = node_with(Setup {
            background: true,
            ..Setup::default()
        });
        describe(&node, CALL_AND_EXIT, [libc::SYS_getpid as u64, 0, 0, 0]);
        let group = node.pid();
        node.begin_host_op(HostOp::Fork, &[]);
        let moment = Instant::now() + Duration::from_micros(round * 61 % 1500);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        node.proxy.kill().unwrap();
        node.wait();
        wait_for(|| !lives(group));
    }
}

/// Whether there is a process in `group` that has not ended. Who is to take note of an end may never do so (process 1 of a
/// container), and the group stays.
fn lives(group: i32) -> bool {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let mut stats = stats.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    stats.any(|stat| {
        // After the name: state, parent, group.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
        fields[1] != "Z" && fields[3] == group.to_string()
    })
}
