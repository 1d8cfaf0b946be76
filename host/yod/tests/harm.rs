//! What a rank can do to processes of its user by signals (docs/trust.md), on a real node. Skipped where no kernel is built.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{
    assert_gone, compile, descendants, dir, finish, has_node, is_stopped, run, signal, wait_for,
    yod,
};
use rustix::process::Signal;

/// Reads a byte, and meanwhile counts signals; signals its own group once it has read one; or sends signals to another.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t last, queued, lost, user1, user2;
static void on_63(int n) { last += n == 63; puts("63 came"); fflush(stdout); }
static void on_64(int n) { queued += n == 64; }
static void on_16(int n) { lost += n == SIGSTKFLT; }
static void on_user(int n) { user1 += n == SIGUSR1; user2 += n == SIGUSR2; }
static void handle(int n, void (*with)(int)) {
    struct sigaction action = {.sa_handler = with, .sa_flags = SA_RESTART};
    sigaction(n, &action, NULL);
}
int main(int argc, char **argv) {
    char byte;
    if (argc > 2) {
        pid_t pid = atoi(argv[2]);
        int sent = 0;
        for (int i = 0; i < 10; i++) sent += (kill(pid, 64) == 0) + (kill(pid, SIGSTKFLT) == 0);
        sent += kill(pid, 63) == 0;
        printf("sent %d\n", sent);
        return 0;
    }
    handle(63, on_63);
    handle(64, on_64);
    handle(SIGSTKFLT, on_16);
    handle(SIGUSR1, on_user);
    handle(SIGUSR2, on_user);
    printf("%d\n", getpid());
    fflush(stdout);
    long got = read(0, &byte, 1);
    if (!strcmp(argv[1], "group")) { kill(0, SIGKILL); for (;;) pause(); }
    pid_t child = 0;
    if (!strcmp(argv[1], "own")) kill(0, SIGUSR1);
    if (!strcmp(argv[1], "gone") || !strcmp(argv[1], "alive")) {
        int ends[2];
        if (pipe(ends) != 0 || (child = fork()) < 0) return 1;
        if (child == 0) {
            kill(0, SIGUSR1);
            if (write(ends[1], "x", 1) != 1) _exit(1);
            if (!strcmp(argv[1], "alive")) for (;;) pause();
            _exit(0);
        }
        if (read(ends[0], &byte, 1) != 1) return 1;
        if (!strcmp(argv[1], "gone")) waitpid(child, NULL, 0);
        while (!user1) getppid();
    }
    if (child != 0 || !strcmp(argv[1], "own")) {
        puts("sent");
        fflush(stdout);
        while (!user2) getppid();
        printf("%d of SIGUSR1\n", user1);
        if (!strcmp(argv[1], "alive")) kill(child, SIGKILL);
        return 0;
    }
    printf("read %ld, %d of 63, %d of 64, %d of 16\n", got, last, queued, lost);
    return 0;
}
"#;

/// A job in a process group of its own, as a shell starts it, once its rank runs; and the rank's pid.
struct Job {
    yod: Child,
    said: BufReader<std::process::ChildStdout>,
    pid: String,
}

impl Job {
    fn start(program: &Path, what: &str) -> Job {
        let mut command = yod();
        command.args(["-m", "64M"]).arg(program).arg(what);
        Job::of(&mut command)
    }

    fn of(command: &mut Command) -> Job {
        let command = command.env("MARGAY_OVERSUBSCRIBE", "1").process_group(0);
        let mut yod = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut job = Job {
            said: BufReader::new(yod.stdout.take().expect("a pipe")),
            yod,
            pid: String::new(),
        };
        job.pid = job.line();
        job
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("output");
        line.trim_end().to_owned()
    }

    /// Lets the rank's read return.
    fn answer(&mut self) {
        let mut pipe = self.yod.stdin.take().expect("a pipe");
        pipe.write_all(b"x").expect("written");
    }
}

/// SIGKILL for the rank's own process group, in which its yod is, ends the job as it ends a shell's job natively; and nothing of
/// it stays, nor does another job end.
#[test]
fn a_rank_that_kills_its_group_ends_its_job_alone() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("group"), "program", PROGRAM);
    let mut native = Job::of(Command::new(&program).arg("group"));
    native.answer();
    let natively = native.yod.wait().expect("an end");
    assert_eq!(natively.signal(), Some(9));

    let mut other = Job::start(&program, "receive");
    let mut job = Job::start(&program, "group");
    let parts = descendants(job.yod.id() as i32);
    assert!(parts.len() >= 3, "keeper, QEMU, proxy: {parts:?}");
    job.answer();
    let ended = finish(job.yod);
    assert_eq!((ended.status, ended.err.as_str()), (137, ""));
    assert_gone(&parts);
    other.answer();
    assert_eq!(other.line(), "read 1, 0 of 63, 0 of 64, 0 of 16");
    assert_eq!(finish(other.yod).status, 0);
}

/// A rank signals another rank of its user, as processes do. SIGSTKFLT alone is lost: by that a proxy is made to give up a call,
/// which goes on when that was not meant. Once it was 64, and the page on trust still said so.
#[test]
fn sigstkflt_from_outside_is_lost() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("signals"), "program", PROGRAM);
    let mut job = Job::start(&program, "receive");
    let sender = run(yod()
        .args(["-m", "64M"])
        .arg(&program)
        .args(["send", &job.pid])
        .env("MARGAY_OVERSUBSCRIBE", "1"));
    assert_eq!(
        (sender.status, sender.out.as_str()),
        (0, "sent 21\n"),
        "{sender:?}"
    );
    assert_eq!(job.line(), "63 came");
    job.answer();
    assert_eq!(job.line(), "read 1, 1 of 63, 10 of 64, 0 of 16");
    let ended = finish(job.yod);
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
}

/// Linux signals yod as well as the rank, and yod passed it on: the handler ran twice.
#[test]
fn a_rank_that_signals_its_group_is_signalled_once() {
    signals_its_group_once("own");
}

/// The same with a child of the rank, which yod took for a stranger: the rank's handler ran twice.
#[test]
fn a_child_that_signals_its_group_signals_its_rank_once() {
    signals_its_group_once("alive");
    signals_its_group_once("gone");
}

fn signals_its_group_once(who: &str) {
    if !has_node() {
        return;
    }
    let program = compile(&dir(who), "program", PROGRAM);
    let mut native = Job::of(Command::new(&program).arg(who));
    native.answer();
    assert_eq!(native.line(), "sent");
    signal(native.yod.id() as i32, Signal::USR2);
    assert_eq!(native.line(), "1 of SIGUSR1");
    assert!(native.yod.wait().expect("an end").success());

    let mut job = Job::start(&program, who);
    let yod = job.yod.id() as i32;
    // What comes while the first is pending would be one with it.
    signal(yod, Signal::STOP);
    wait_for("a stopped yod", || is_stopped(yod).then_some(()));
    job.answer();
    assert_eq!(job.line(), "sent");
    // yod takes what has the lower number first, and passes this one on.
    signal(yod, Signal::USR2);
    signal(yod, Signal::CONT);
    assert_eq!(job.line(), "1 of SIGUSR1");
    let ended = finish(job.yod);
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
}
