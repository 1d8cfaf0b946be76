//! What a terminal does to a rank in the background, which the kernel has to tell its proxy before each call. Skipped where no
//! kernel is built.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{
    assert_gone, compile, descendants, dir, finish, has_node, is_stopped, signal, terminal,
    wait_for,
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

/// Runs a command as the leader of the session of a terminal.
fn start(command: &[&str], program: &Path, sigttou: &str) -> Child {
    let (master, other) = terminal();
    let child = Command::new("setsid")
        .arg("--ctty")
        .args(command)
        .arg(program)
        .arg(sigttou)
        .env("MARGAY_OVERSUBSCRIBE", "1")
        .stdin(other)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // It stays open until the test is over, for its end would be a hang-up.
    std::mem::forget(master);
    child.expect("setsid runs")
}

const YOD: &[&str] = &[
    "/usr/bin/env",
    "--default-signal",
    env!("CARGO_BIN_EXE_yod"),
    "-m",
    "64M",
];
/// A process that leads a session cannot leave its group.
const NATIVE: &[&str] = &[
    "/usr/bin/env",
    "--default-signal",
    "sh",
    "-c",
    "\"$0\" \"$@\"; exit $?",
];

/// Interactive shells stopped for good: SIGTTOU stopped whoever ignores or blocks it, too.
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
        for command in [NATIVE, YOD] {
            let ended = finish(start(command, &program, sigttou));
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
    let child = start(YOD, &program, "default");
    let yod = child.id() as i32;
    wait_for("a stopped rank", || {
        let job = descendants(yod);
        let rank = job.iter().find(|it| it.name.starts_with("program"))?;
        is_stopped(rank.pid).then_some(())
    });
    let job = descendants(yod);
    signal(yod, Signal::TERM);
    let ended = finish(child);
    assert_eq!((ended.status, ended.out.as_str()), (143, ""), "{ended:?}");
    assert_gone(&job);
}
