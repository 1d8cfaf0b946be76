//! What a terminal does to a rank in the background, of which the kernel has to notify its proxy before each call. Skipped where no
//! kernel is built.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{
    assert_gone, compile, descendants, dir, finish, has_node, is_stopped, signal, terminal,
    wait_for, yod_path,
};
use rustix::process::Signal;

/// Takes the terminal from the background, as shells do, and says what came of it. Its argument is what becomes of SIGTTOU.
const PROGRAM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void handler(int signal) { (void)signal; }
int main(int argc, char **argv) {
    int terminal = open("/dev/tty", O_RDWR);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    switch (argv[argc - 1][0]) {
    case 'i': signal(SIGTTOU, SIG_IGN); break;
    case 'b': sigprocmask(SIG_BLOCK, &set, NULL); break;
    case 'h': sigaction(SIGTTOU, &(struct sigaction){ .sa_handler = handler }, NULL); break;
    }
    if (terminal < 0 || setpgid(0, 0) != 0) return 1;
    int ret = tcsetpgrp(terminal, getpgrp());
    printf("%d %d\n", ret, ret < 0 ? errno : 0);
    return 0;
}
"#;

/// Uses the terminal from the background, over and over, while another thread, which takes the signals otherwise, makes calls
/// that could use one. Its arguments are what it does, and what the signals do to the thread that does it: the other blocks them
/// where this one does not. Says what came of each.
const TWO_THREADS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>
enum { ROUNDS = 300 };
static int terminal, devnull;
static struct termios settings;
static sigset_t stops;
static char call, takes;
static volatile sig_atomic_t handled;
static void handler(int signal) { (void)signal; handled++; }
static ssize_t use(void) {
    char byte = 'x';
    switch (call) {
    case 'r': return read(terminal, &byte, 1);
    case 'w': return write(terminal, &byte, 1);
    default: return tcsetattr(terminal, TCSANOW, &settings);
    }
}
static void *user(void *unused) {
    int done = 0, eio = 0, eintr = 0;
    pthread_sigmask(takes == 'b' ? SIG_BLOCK : SIG_UNBLOCK, &stops, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        ssize_t ret = use();
        if (ret >= 0) done++;
        else if (errno == EIO) eio++;
        else if (errno == EINTR) eintr++;
    }
    printf("done %d EIO %d EINTR %d handled %d\n", done, eio, eintr, handled);
    fflush(stdout);
    _exit(0);
    return unused;
}
int main(int argc, char **argv) {
    call = argv[argc - 2][0];
    takes = argv[argc - 1][0];
    terminal = open("/dev/tty", O_RDWR);
    devnull = open("/dev/null", O_WRONLY);
    if (terminal < 0 || devnull < 0 || tcgetattr(terminal, &settings) != 0) return 1;
    settings.c_lflag |= TOSTOP;
    if (tcsetattr(terminal, TCSANOW, &settings) != 0 || setpgid(0, 0) != 0) return 1;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTTIN);
    sigaddset(&stops, SIGTTOU);
    if (takes == 'h') {
        struct sigaction action = { .sa_handler = handler };
        sigaction(SIGTTIN, &action, NULL);
        sigaction(SIGTTOU, &action, NULL);
    }
    if (takes != 'b') sigprocmask(SIG_BLOCK, &stops, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, user, NULL) != 0) return 1;
    for (;;) if (write(devnull, "", 1) != 1) return 1;
}
"#;

/// Runs a command as the leader of the session of a terminal.
fn start(command: &[&str], program: &Path, args: &[&str]) -> Child {
    let (master, other) = terminal();
    let child = Command::new("setsid")
        .arg("--ctty")
        .args(command)
        .arg(program)
        .args(args)
        .env("MARGAY_OVERSUBSCRIBE", "1")
        .stdin(other)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // It stays open until the test is over, for its end would be a hang-up.
    std::mem::forget(master);
    child.expect("setsid runs")
}

fn yod_words() -> [&'static str; 5] {
    ["/usr/bin/env", "--default-signal", yod_path(), "-m", "64M"]
}
/// A process that leads a session cannot leave its group.
const NATIVE: &[&str] = &[
    "/usr/bin/env",
    "--default-signal",
    "sh",
    "-c",
    "\"$0\" \"$@\"; exit $?",
];

/// Interactive shells stopped for good: SIGTTOU stopped processes that ignore or block it, too.
#[test]
fn who_ignores_blocks_or_handles_sigttou_is_not_stopped() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("terminal"), "program", PROGRAM);
    for (sigttou, said) in [
        ("ignored", "0 0\n"),
        ("blocked", "0 0\n"),
        ("handled", "-1 4\n"),
    ] {
        for command in [NATIVE, &yod_words()[..]] {
            let ended = finish(start(command, &program, &[sigttou]));
            assert_eq!(
                (ended.status, ended.out.as_str()),
                (0, said),
                "{sigttou}: {ended:?}"
            );
        }
    }
}

#[test]
fn who_does_not_is_stopped() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("terminal_stops"), "program", PROGRAM);
    assert_stops(&program, &["default"]);
}

/// What the proxy knew of the rank's last call that could use a terminal was taken for all its threads: one that blocks the signals was stopped
/// when another does not, and the other way round.
#[test]
fn masks_are_a_threads_own() {
    if !has_node() {
        return;
    }
    let program = compile(&dir("terminal_threads"), "program", TWO_THREADS);
    let passes = "done 300 EIO 0 EINTR 0 handled 0\n";
    let fails = "done 0 EIO 300 EINTR 0 handled 0\n";
    let interrupted = "done 0 EIO 0 EINTR 300 handled 300\n";
    for (call, takes, said) in [
        ("set", "blocked", passes),
        ("write", "blocked", passes),
        ("read", "blocked", fails),
        ("set", "handled", interrupted),
        ("write", "handled", interrupted),
        ("read", "handled", interrupted),
    ] {
        for command in [NATIVE, &yod_words()[..]] {
            let ended = finish(start(command, &program, &[call, takes]));
            assert_eq!(
                (ended.status, ended.out.as_str()),
                (0, said),
                "{call}, {takes}: {ended:?}"
            );
        }
    }
    for call in ["set", "write", "read"] {
        assert_stops(&program, &[call, "default"]);
    }
}

/// Asserts that a rank stops, and ends with its job.
fn assert_stops(program: &Path, args: &[&str]) {
    let child = start(&yod_words(), program, args);
    let yod = child.id() as i32;
    wait_for("a stopped rank", || {
        let job = descendants(yod);
        let rank = job.iter().find(|it| it.name.starts_with("program"))?;
        is_stopped(rank.pid).then_some(())
    });
    let job = descendants(yod);
    signal(yod, Signal::TERM);
    let ended = finish(child);
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (143, ""),
        "{args:?}: {ended:?}"
    );
    assert_gone(&job);
}
