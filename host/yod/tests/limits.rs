//! Limits on memory, stack and processor time that a job meets. Skipped where no kernel is built.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{compile, descendants, dir, finish, has_node, run, wait_for, yod, yod_path};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Prints many lines, or computes for ever.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "calls")) {
        char path[4096];
        struct rlimit limit;
        memset(memset(path, '/', sizeof path) + 100, 'a', 3900);
        path[4000] = 0;
        getrlimit(RLIMIT_STACK, &limit);
        printf("%d %d %d ", rename(path, path) != 0, open("/proc/self/maps", O_RDONLY) > 0, system("true"));
        printf("%lu\n", (unsigned long)limit.rlim_cur);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "spin")) for (;;) __asm__ volatile("pause");
    for (int i = 0; i < 2000; i++) { printf("line %d of ", i); fflush(i % 7 ? stdout : NULL); puts("many"); }
    return 0;
}
"#;

fn program(test: &str) -> Option<PathBuf> {
    has_node().then(|| compile(&dir(test), "program", PROGRAM))
}

#[test]
fn too_little_memory_is_said() {
    let Some(program) = program("little-memory") else {
        return;
    };
    let ended = run(yod()
        .args(["-m", "64M"])
        .env("MARGAY_NODE_MIB", "5")
        .arg(&program));
    ended.one_line(126, "do not fit the node's memory");
}

/// A script that sets limits and becomes yod (`$0`) with the program (`$1`).
fn by_shell(script: &str, program: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, yod_path()])
        .arg(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Reading the ranks' output, and the command line, took more stack than `ulimit -s` may leave.
#[test]
fn a_small_stack_is_enough() {
    let Some(program) = program("small-stack") else {
        return;
    };
    for options in [
        "-n 1 --strace=/dev/null --stats",
        "-n 2 --label --kernel-log=/dev/null",
    ] {
        let script = format!("ulimit -s 52 && exec \"$0\" -m 64M {options} \"$1\" lines");
        let ended = run(by_shell(&script, &program).env("MARGAY_OVERSUBSCRIBE", "1"));
        assert_eq!(ended.status, 0, "{options}: {ended:?}");
    }
}

/// What Linux did for such a program took more stack than the program had left itself, in the proxy: SIGSEGV.
#[test]
fn a_small_stack_is_the_programs_alone() {
    let Some(program) = program("stack-of-its-own") else {
        return;
    };
    let ended = run(&mut by_shell(
        "ulimit -s 64 && exec \"$0\" -m 64M \"$1\" calls",
        &program,
    ));
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (0, "1 1 0 65536\n"),
        "{ended:?}"
    );
}

/// SIGKILL at the limit on processor time was put down to memory. The ranks have none, so it is QEMU's that is reached.
#[test]
fn a_limit_on_processor_time_is_named() {
    let Some(program) = program("cpu-limit") else {
        return;
    };
    let child = yod().args(["-m", "64M"]).arg(&program).arg("spin").spawn();
    let child = child.expect("yod starts");
    let of_node = wait_for("keeper and QEMU", || {
        let job = descendants(child.id() as i32);
        let pid = |name| {
            let mut found = job.iter().filter(|p| p.name.starts_with(name));
            found.next().map(|p| p.pid)
        };
        Some([pid("margay-keeper")?, pid("qemu")?])
    });
    let limit = Rlimit {
        current: Some(2),
        maximum: Some(2),
    };
    for pid in of_node {
        let set = prlimit(Pid::from_raw(pid), Resource::Cpu, limit);
        set.expect("its limit is set");
    }
    let ended = finish(child);
    assert_eq!(ended.status, 137, "{ended:?}");
    let of_qemu = "yod: the node (QEMU) was killed by signal 9 (SIGKILL) (it has used ";
    let named = " s of processor time, `ulimit -t` allows 2 s)\n";
    assert!(
        ended.err.starts_with(of_qemu) && ended.err.ends_with(named),
        "{}",
        ended.err
    );
}

/// Under a limit of the shell's a rank has one of its own, which ends it as natively, without a word. Whichever is reached first.
#[test]
fn a_limit_on_processor_time_ends_the_job_as_natively() {
    let Some(program) = program("cpu-limits") else {
        return;
    };
    let ended = run(&mut by_shell(
        "ulimit -t 2 && exec \"$0\" -m 64M \"$1\" spin",
        &program,
    ));
    assert_eq!(ended.status, 137, "{ended:?}");
    assert!(!ended.err.contains("memory"), "{}", ended.err);
}
