//! Programs on a real node: what a user of yod sees. Skipped where no kernel is built.

#[path = "../common/mod.rs"]
mod common;
mod memory;
mod signals;

use std::io::Write;
use std::mem::offset_of;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use common::{
    comm, compile, descendants, dir, finish, has_node, is_idle, run, signal, wait_for, yod,
    yod_path,
};
use rustix::process::Signal;
use wire::boot::{Header, node};

/// Prints what it is, or does as its arguments say.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "exit")) return atoi(argv[2]);
    if (!strcmp(what, "env")) {
        for (int i = 2; i < argc; i++) { const char *v = getenv(argv[i]); puts(v ? v : "(unset)"); }
        return 0;
    }
    if (!strcmp(what, "cat")) { int c; while ((c = getchar()) != EOF) putchar(c); return 0; }
    if (!strcmp(what, "spin")) { puts("spinning"); fflush(stdout); for (;;) __asm__ volatile("pause"); }
    if (!strcmp(what, "sleep")) { puts("sleeping"); fflush(stdout); for (;;) sleep(1); }
    if (!strcmp(what, "null")) { *(volatile int *)0 = 1; }
    if (!strcmp(what, "abort")) { raise(SIGTERM); }
    if (!strcmp(what, "partial")) { fputs("no end", stdout); return 0; }
    if (!strcmp(what, "lines")) for (int i = 0; i < 2000; i++) { printf("line %d of ", i); fflush(i % 7 ? stdout : NULL); puts("many"); }
    else puts("hello");
    return 0;
}
"#;

fn program(test: &str) -> Option<(std::path::PathBuf, Command)> {
    has_node().then(|| {
        let program = compile(&dir(test), "program", PROGRAM);
        let mut yod = yod();
        yod.env("MARGAY_OVERSUBSCRIBE", "1");
        (program, yod)
    })
}

#[test]
fn status_and_output_are_the_programs() {
    let Some((program, mut yod)) = program("status") else {
        return;
    };
    let ended = run(yod.arg(&program));
    assert_eq!(
        (ended.status, ended.out.as_str(), ended.err.as_str()),
        (0, "hello\n", "")
    );
    for code in ["1", "77", "255"] {
        let ended = run(self::yod().arg(&program).args(["exit", code]));
        assert_eq!(
            (ended.status.to_string().as_str(), ended.err.as_str()),
            (code, "")
        );
    }
    let ended = run(self::yod().arg(&program).arg("abort"));
    assert_eq!((ended.status, ended.err.as_str()), (143, ""));
}

#[test]
fn a_crash_is_reported() {
    let Some((program, mut yod)) = program("crash") else {
        return;
    };
    let ended = run(yod.arg(&program).arg("null"));
    assert_eq!(ended.status, 139, "{ended:?}");
    assert!(
        ended.err.contains("SIGSEGV") && ended.err.contains("rip"),
        "{ended:?}"
    );
}

#[test]
fn variables_and_stdin_arrive() {
    let Some((program, mut yod)) = program("stdin") else {
        return;
    };
    let ended = run(yod
        .args(["--env", "KEY=a=b"])
        .arg(&program)
        .args(["env", "KEY"]));
    assert_eq!(ended.out, "a=b\n");
    let ended = run(self::yod()
        .env("MARGAY_OVERSUBSCRIBE", "1")
        .args(["-n", "2", "--label", "--env", "MARGAY_SIZE=9"])
        .arg(&program)
        .args(["env", "MARGAY_RANK", "MARGAY_SIZE"]));
    let mut lines: Vec<_> = ended.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] 0", "[0] 2", "[1] 1", "[1] 2"]);
    let mut child = self::yod()
        .args(["-n", "2"])
        .arg(&program)
        .arg("cat")
        .stdin(Stdio::piped())
        .spawn()
        .expect("yod");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"one\ntwo\n")
        .expect("written");
    let ended = finish(child);
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (0, "one\ntwo\n"),
        "rank 0 reads, rank 1 sees the end: {ended:?}"
    );
}

#[test]
fn lines_of_several_ranks_stay_whole() {
    let Some((program, mut yod)) = program("lines") else {
        return;
    };
    let ended = run(yod.args(["-n", "4", "--label"]).arg(&program).arg("lines"));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    for rank in 0..4 {
        let label = format!("[{rank}] ");
        let mine: Vec<&str> = ended
            .out
            .lines()
            .filter_map(|line| line.strip_prefix(&label))
            .collect();
        let expected: Vec<String> = (0..2000).map(|i| format!("line {i} of many")).collect();
        assert_eq!(mine, expected, "rank {rank}");
    }
    let ended = run(self::yod().args(["-n", "2"]).arg(&program).arg("partial"));
    assert_eq!(ended.out, "no endno end");
}

#[test]
fn the_first_failing_rank_decides_and_the_others_are_named() {
    let Some((program, mut yod)) = program("failing") else {
        return;
    };
    let ended = run(yod.args(["-n", "4"]).arg(&program).args(["exit", "3"]));
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(
        ended.err.starts_with("yod: rank ") && ended.err.contains("exited with status 3"),
        "{ended:?}"
    );
}

#[test]
fn a_program_that_never_ends_meets_its_time_limit() {
    let Some((program, mut yod)) = program("timeout") else {
        return;
    };
    let ended = run(yod
        .args(["-n", "2", "--timeout", "2"])
        .arg(&program)
        .arg("spin"));
    assert_eq!(ended.status, 124, "{ended:?}");
    assert_eq!(
        ended.err,
        "yod: timed out after 2 s (--timeout); ended ranks 0 and 1\n"
    );
}

#[test]
fn system_calls_are_shown_and_counted() {
    let Some((program, mut yod)) = program("strace") else {
        return;
    };
    let ended = run(yod.args(["--strace", "--stats=json"]).arg(&program));
    assert!(
        ended.err.contains("write(1, \"hello\\n\", 6) = 6"),
        "{ended:?}"
    );
    let stats = ended.err.lines().last().expect("a last line");
    let stats: serde_json::Value = serde_json::from_str(stats).expect("JSON");
    assert!(stats["total"]["entries"].as_u64() > Some(0), "{stats}");
    assert_eq!(stats["ranks"][0]["wait_status"], 0);
}

/// As a table, beside what the program writes.
#[test]
fn counts_go_into_a_file() {
    let Some((program, mut yod)) = program("stats-file") else {
        return;
    };
    let file = program.with_file_name("stats");
    let option = format!("--stats={}", file.display());
    let ended = run(yod.arg(option).arg(&program));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    let table = std::fs::read_to_string(file).expect("a file");
    assert!(table.contains("wall time: "), "{table}");
}

/// The communication area of many traced ranks does not fit below the kernel: the kernel found no memory for itself.
#[test]
fn thirty_traced_ranks_have_room() {
    let Some((program, mut yod)) = program("thirty") else {
        return;
    };
    let trace = program.with_file_name("trace");
    let mut strace = std::ffi::OsString::from("--strace=");
    strace.push(&trace);
    yod.args(["-n", "30", "-m", "16M"])
        .arg(strace)
        .env("MARGAY_BOOT_TIMEOUT_S", "60");
    let ended = run(yod.arg(&program));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    assert_eq!(ended.out, "hello\n".repeat(30));
    let trace = std::fs::read_to_string(trace).expect("a trace");
    let writes = trace
        .lines()
        .filter(|line| line.contains("write(1, \"hello"));
    assert_eq!(writes.count(), 30);
}

#[test]
fn the_kernel_log_is_kept_in_the_given_file() {
    let Some((program, mut yod)) = program("log") else {
        return;
    };
    let log = program.with_file_name("log");
    assert_eq!(
        run(yod.arg("--kernel-log").arg(&log).arg(&program)).status,
        0
    );
    assert!(std::fs::metadata(&log).is_ok_and(|meta| meta.len() > 0));
}

/// The kernel looked for proxies in its idle loop only, which does not run where the PCT waits.
#[test]
fn a_proxy_may_attach_long_after_the_node_is_up() {
    let Some((program, mut yod)) = program("late") else {
        return;
    };
    yod.args(["-m", "64M"])
        .env("MARGAY_BOOT_TIMEOUT_S", "60")
        .arg(&program);
    let mut attaches_late = || {
        let child = yod.spawn().expect("yod");
        let pid = child.id() as i32;
        wait_for("a keeper", || (!descendants(pid).is_empty()).then_some(()));
        signal(pid, Signal::STOP);
        let is_qemu = |p: &common::Process| p.name.starts_with("qemu");
        let qemu = wait_for("a node that is up and idle", || {
            let qemu = descendants(pid).into_iter().find(is_qemu)?;
            let state = comm::word(qemu.pid, offset_of!(Header, node_state))?;
            (state == node::UP && is_idle(qemu.pid)).then_some(qemu)
        });
        let family = descendants(pid);
        let is_late = family
            .iter()
            .all(|p| [qemu.pid, qemu.parent].contains(&p.pid));
        signal(pid, Signal::CONT);
        let ended = finish(child);
        assert_eq!(
            (ended.status, ended.out.as_str()),
            (0, "hello\n"),
            "{ended:?}"
        );
        is_late
    };
    // A yod that has started its proxy before it was stopped is followed by another.
    wait_for("a late proxy", || attaches_late().then_some(()));
}

#[test]
fn twenty_at_once_simply_work() {
    let Some((program, mut yod)) = program("twenty-nodes") else {
        return;
    };
    yod.args(["-m", "64M"])
        .env("MARGAY_BOOT_TIMEOUT_S", "60")
        .arg(&program);
    let all: Vec<Child> = (0..20).map(|_| yod.spawn().expect("yod starts")).collect();
    for child in all {
        let ended = finish(child);
        assert_eq!(
            (ended.status, ended.out.as_str(), ended.err.as_str()),
            (0, "hello\n", "")
        );
    }
}

#[test]
fn an_exit_status_is_an_exit_status() {
    let Some((program, mut yod)) = program("truth") else {
        return;
    };
    let status = yod
        .arg(&program)
        .arg("null")
        .stderr(Stdio::null())
        .status()
        .expect("yod runs");
    assert_eq!((status.code(), status.signal()), (Some(139), None));
}

/// Starts yod with entries of the environment that are no variables.
const LAUNCHER: &str = r#"
#include <unistd.h>
int main(int argc, char **argv) {
    char *env[] = {"A=1", "no equals sign", "=B", "PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    execve(argv[1], argv + 1, env);
    return 1;
}
"#;

/// Shows its environment.
const SHOWS: &str = r#"
#include <stdio.h>
int main(int argc, char **argv, char **env) {
    for (; *env; env++) puts(*env);
}
"#;

/// Entries without `=`, which Linux passes like any other, were dropped.
#[test]
fn the_environment_is_passed_on_as_it_is() {
    if !has_node() {
        return;
    }
    let dir = dir("environment");
    let launcher = compile(&dir, "launcher", LAUNCHER);
    let program = compile(&dir, "shows", SHOWS);
    let ended = run(Command::new(launcher)
        .args([yod_path(), "-m", "64M"])
        .arg(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped()));
    let expected = "A=1\nno equals sign\n=B\nPATH=/usr/local/bin:/usr/bin:/bin\n\
                    MARGAY_RANK=0\nMARGAY_SIZE=1\n";
    assert_eq!((ended.err.as_str(), ended.out.as_str()), ("", expected));
}
