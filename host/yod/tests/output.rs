//! Output, traces and logs that are not read, that cannot be written, or that are closed. Skipped where no kernel is built.

mod common;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::job::{program, small_yod};
use common::{
    assert_gone, compile, descendants, dir, finish, has_node, run, signal, terminal, ticks,
    wait_for, yod, yod_path,
};
use rustix::process::Signal;

/// A pipe that is open for reading and never read.
fn unread(dir: &Path) -> (PathBuf, OwnedFd) {
    let path = dir.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .expect("mkfifo runs")
            .success()
    );
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let end = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).expect("a pipe");
    (path, end)
}

/// yod hung in a write to a trace or to output that nothing read.
#[test]
fn a_destination_that_nothing_reads_delays_no_rank() {
    let Some((program, _)) = program("unread") else {
        return;
    };
    let (pipe, _end) = unread(program.parent().expect("a directory"));
    let open = || File::options().write(true).open(&pipe).expect("a pipe");
    let trace = format!("--strace={}", pipe.display());
    for by_time in [true, false] {
        for (options, what) in [
            (&["-n", "1", trace.as_str()], "c"),
            (&["-n", "1", "--"], "p"),
            (&["-n", "2", "--"], "p"),
        ] {
            let mut yod = small_yod();
            if by_time {
                yod.args(["--timeout", "2"]);
            }
            yod.args(options).arg(&program).arg(what);
            if what == "p" {
                yod.stdout(open());
            }
            let child = yod.spawn().expect("yod starts");
            let job = wait_for("a rank", || {
                let job = descendants(child.id() as i32);
                job.iter().any(|p| p.name == "program").then_some(job)
            });
            if !by_time {
                wait_for("a full pipe", || {
                    let free = rustix::event::PollFlags::OUT;
                    let pipe = open();
                    let mut fds = [rustix::event::PollFd::new(&pipe, free)];
                    let now = rustix::event::Timespec {
                        tv_sec: 0,
                        tv_nsec: 0,
                    };
                    let ready = rustix::event::poll(&mut fds, Some(&now)).expect("polled");
                    (ready == 0).then_some(())
                });
                let before = ticks(child.id()).expect("a process");
                std::thread::sleep(Duration::from_millis(500));
                let spent = ticks(child.id()).expect("a process") - before;
                assert!(
                    spent < 25,
                    "{what}: yod spins, {spent} ticks in half a second"
                );
                signal(child.id() as i32, Signal::TERM);
            }
            let ended = finish(child);
            assert_eq!(
                ended.status,
                if by_time { 124 } else { 143 },
                "{what}: {ended:?}"
            );
            assert_gone(&job);
        }
    }
}

/// Opening a pipe without a reader took for ever, whatever the time limit.
#[test]
fn a_pipe_without_a_reader_meets_the_time_limit() {
    let Some((program, _)) = program("no-reader") else {
        return;
    };
    let (pipe, end) = unread(program.parent().expect("a directory"));
    drop(end);
    let trace = format!("--strace={}", pipe.display());
    let ended = run(yod().args(["--timeout", "0.5", &trace]).arg(&program));
    ended.one_line(124, "nothing reads");
    let child = yod().args(["-m", "64M", &trace]).arg(&program).spawn();
    // It waits for the reader, who then sees all of it.
    let text = std::fs::read_to_string(&pipe).expect("a trace");
    assert_eq!(finish(child.expect("yod starts")).status, 0);
    assert!(text.contains("write(1, \"ready\\n\", 6) = 6"), "{text}");
}

/// Output of several ranks to a full disk was lost, with status 0 or 141 and no line.
#[test]
fn output_that_cannot_be_written_is_named_and_decides() {
    let Some((program, _)) = program("full") else {
        return;
    };
    for what in ["", "i", "p"] {
        let mut yod = small_yod();
        yod.args(["-n", "2"]);
        yod.stdout(
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("a device"),
        );
        let ended = run(yod.arg(&program).arg(what));
        ended.one_line(71, "cannot write: stdout: No space left on device");
    }
}

/// See above; of a terminal that is hung up, which closes no pipe.
#[test]
fn a_terminal_that_goes_away_is_named() {
    let Some((program, mut yod)) = program("gone") else {
        return;
    };
    let (master, other) = terminal();
    yod.args(["-n", "2"]).arg(&program).arg("p").stdout(other);
    let child = yod.spawn().expect("yod starts");
    // Its own end of the terminal would keep it open.
    drop(yod);
    let mut bytes = [0; 100];
    rustix::io::read(&master, &mut bytes[..]).expect("output");
    drop(master);
    finish(child).one_line(71, "cannot write: stdout: Input/output error");
}

/// See above; a trace or a log is beside the job, which goes on.
#[test]
fn a_trace_or_log_that_cannot_be_written_is_named() {
    let Some((program, _)) = program("full-side") else {
        return;
    };
    for option in ["--strace=/dev/full", "--kernel-log=/dev/full"] {
        let ended = run(yod().args(["-m", "64M", option]).arg(&program));
        let line = "yod: cannot write: /dev/full: No space left on device (os error 28)\n";
        assert_eq!(
            (ended.status, ended.out.as_str(), ended.err.as_str()),
            (0, "ready\n", line)
        );
    }
}

/// The first rank writes as much as a pipe and yod take before yod reads no more. Then each writes what its own pipe holds, and
/// ends. All lines fill a page, so that pipes hold 16.
const FILLS: &str = r#"
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <fcntl.h>
#include <sched.h>
static char line[4096];
static void lines(int count) {
    for (int i = 0; i < count; i++) if (write(1, line, sizeof line) != sizeof line) _exit(1);
}
int main(int argc, char **argv) {
    for (int i = 0; i < 4096; i++) line[i] = i < 4095 ? 'x' : '\n';
    if (atoi(getenv("MARGAY_RANK")) == 0) {
        lines(80);
        for (int left = 1; left;) if (ioctl(1, FIONREAD, &left) || sched_yield()) return 2;
        if (creat(argv[1], 0600) < 0) return 3;
    }
    while (access(argv[1], F_OK)) sched_yield();
    lines(16);
    return 0;
}
"#;

/// What was left in the ranks' pipes was lost, with status 0 and no line: yod read one of them and gave the others up.
#[test]
fn output_that_is_read_late_is_whole() {
    if !has_node() {
        return;
    }
    let dir = dir("late");
    let program = compile(&dir, "fills", FILLS);
    let mut yod = small_yod();
    let child = yod.args(["-n", "3"]).arg(&program).arg(dir.join("go"));
    let mut child = child.spawn().expect("yod starts");
    let pid = child.id() as i32;
    let ranks = || descendants(pid).iter().any(|p| p.name == "fills");
    wait_for("ranks", || ranks().then_some(()));
    wait_for("the ranks' end", || (!ranks()).then_some(()));
    // As much as lets yod read again.
    let mut first = vec![0; 64 << 10];
    let out = child.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut first).expect("output");
    let ended = finish(child);
    let bytes = first.len() + ended.out.len();
    let expected = (80 + 3 * 16) * 4096;
    assert_eq!((ended.status, bytes, ended.err.as_str()), (0, expected, ""));
}

/// A reader that has enough ends a program quietly, with one rank or more.
#[test]
fn a_reader_that_goes_away_ends_the_job_quietly() {
    let Some((program, _)) = program("head") else {
        return;
    };
    for ranks in ["1", "2"] {
        let mut yod = small_yod();
        yod.args(["-n", ranks]);
        let mut child = yod.arg(&program).arg("p").spawn().expect("yod starts");
        drop(child.stdout.take());
        let ended = finish(child);
        assert_eq!((ended.status, ended.err.as_str()), (141, ""), "-n {ranks}");
    }
}

/// Says which of the descriptors 0 to 2 it finds closed, and which number it gets next.
const CLOSED: &str = r#"
#include <fcntl.h>
int main(void) {
    int closed = 0;
    for (int fd = 0; fd < 3; fd++) if (fcntl(fd, F_GETFD) < 0) closed |= 1 << fd;
    return closed | open("/etc/passwd", O_RDONLY) << 4;
}

"#;

/// A closed standard descriptor was /dev/null for the ranks, or a pipe.
#[test]
fn closed_descriptors_are_closed_for_the_program() {
    if !has_node() {
        return;
    }
    let dir = dir("closed");
    let program = compile(&dir, "closed", CLOSED);
    let yod = yod_path();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let native = run(Command::new("sh")
            .args(["-c", &format!("\"$0\" {closed}")])
            .arg(&program));
        for ranks in ["1", "2"] {
            let script = format!("\"$0\" -m 64M -n {ranks} \"$1\" {closed}");
            let ended = run(Command::new("sh")
                .args(["-c", &script, yod])
                .arg(&program)
                .env("MARGAY_OVERSUBSCRIBE", "1"));
            assert_eq!(
                ended.status, native.status,
                "{closed} -n {ranks}: {ended:?}"
            );
        }
    }
}
