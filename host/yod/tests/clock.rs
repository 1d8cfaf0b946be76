//! The node's clock against the host's: times of files come from the host, times that programs read from the node. Skipped
//! where no kernel is built.

mod common;

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use common::{
    Ended, comm, compile, descendants, dir, finish, has_node, run, signal, ticks, wait_for, yod,
};
use rustix::process::Signal;
use wire::boot::{Header, node};

/// Prints how far the node's clock is ahead of the host's at least and at most, in ns. The host's is seen in the time of a
/// file between two readings of the node's. Some are of the host's last tick: too old, which only "at least" would mind.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
enum { TIMES = 200 };
static long long ns(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static long long now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return ns(t); }
static int order(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}
int main(int argc, char **argv) {
    long long before[TIMES], after[TIMES];
    int fd = open(argv[argc - 1], O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < TIMES; i++) {
        struct stat st;
        long long start = now();
        if (write(fd, "x", 1) != 1 || fstat(fd, &st) != 0) return 1;
        after[i] = now() - ns(st.st_mtim);
        before[i] = start - ns(st.st_mtim);
    }
    qsort(before, TIMES, sizeof *before, order);
    qsort(after, TIMES, sizeof *after, order);
    printf("%lld %lld\n", before[0], after[0]);
    return 0;
}
"#;

/// A yod that runs the program in `dir`.
fn program(dir: &Path) -> Command {
    let program = compile(dir, "program", PROGRAM);
    let mut yod = yod();
    yod.arg(program).arg(dir.join("file"));
    yod
}

/// By how many ns the node's clock was wrong at least.
fn off_by(ended: &Ended) -> i64 {
    let words = ended.out.split_whitespace();
    let bounds: Vec<i64> = words.map(|ns| ns.parse().expect("ns")).collect();
    let &[least, most] = bounds.as_slice() else {
        panic!("{ended:?}");
    };
    least.max(-most).max(0)
}

/// The clock was ahead by as much as the keeper was late to see the node up: milliseconds on a busy host.
#[test]
fn the_clock_is_the_hosts() {
    if !has_node() {
        return;
    }
    let mut yod = program(&dir("clock"));
    // A host that lets no round of the kernel's and the keeper's pass without a pause gets no better value, but not each time.
    let mut errors = Vec::new();
    while errors.iter().all(|&ns| ns >= 200_000) {
        assert!(errors.len() < 50, "{errors:?} ns");
        errors.push(off_by(&run(&mut yod)));
    }
}

/// The kernel waited for the keeper for 20 ms, and its clock was wrong from then on.
#[test]
fn a_late_keeper_sets_the_clock_right() {
    if !has_node() {
        return;
    }
    let mut yod = program(&dir("late_keeper"));
    let mut is_late = || {
        let yod = yod.spawn().expect("yod starts");
        // Again and again: yod continues it once, when it begins to look after the ranks.
        let stop = |keeper| signal(keeper, Signal::STOP);
        let qemu = wait_for("the kernel shows its clock", || {
            let all = descendants(yod.id() as i32);
            let qemu = all.into_iter().find(|it| it.name.starts_with("qemu"))?;
            stop(qemu.parent);
            (comm::word(qemu.pid, offset_of!(Header, ping)) >= Some(1)).then_some(qemu)
        });
        // It keeps its CPU busy for 100 ms more, or comes up without a clock.
        let until = guest_ticks(qemu.pid) + 10;
        wait_for("the kernel waits for the keeper", || {
            stop(qemu.parent);
            let state = comm::word(qemu.pid, offset_of!(Header, node_state));
            (guest_ticks(qemu.pid) >= until || state >= Some(node::UP)).then_some(())
        });
        let is_late = comm::word(qemu.pid, offset_of!(Header, pong)) == Some(0);
        signal(qemu.parent, Signal::CONT);
        let ended = finish(yod);
        assert!(off_by(&ended) < 10_000_000, "{ended:?}");
        is_late
    };
    // A keeper that has answered before it was stopped is followed by another.
    wait_for("a keeper that is late", || is_late().then_some(()));
}

/// Processor time of QEMU's threads besides the first, in ticks of 10 ms.
fn guest_ticks(qemu: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{qemu}/task")).into_iter();
    let names = tasks.flatten().flatten().map(|task| task.file_name());
    let others = names.filter(|name| *name != *qemu.to_string());
    others
        .filter_map(|name| ticks(format!("{qemu}/task/{}", name.display())))
        .sum()
}
