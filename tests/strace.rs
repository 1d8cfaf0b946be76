//! What `--strace` shows of a real program.

use std::fs;

use anyhow::{Context, Result, ensure};
use margay_tests::clean;
use margay_tests::process;
use margay_tests::run::{HANG, Outcome, Run};
use margay_tests::scratch::Scratch;
use margay_tests::tree;
use rustix::process::{Pid, Signal, kill_process};

/// Lines of traced.c in their order; `*` stands for anything.
const LINES: &[&str] = &[
    r#"openat(AT_FDCWD, "file", O_RDWR|O_CREAT|O_TRUNC, 0640) = 3"#,
    r#"write(3, "hello\n\1", 7) = 7"#,
    "lseek(3, 0, SEEK_SET) = 0",
    r#"read(3, "hello\n\1", 64) = 7"#,
    r#"newfstatat(3, "", {st_mode=S_IFREG|0640, st_size=7, ...}, AT_EMPTY_PATH) = 0"#,
    r#"writev(3, [{iov_base="ab", iov_len=2}, {iov_base="cde", iov_len=3}], 2) = 5"#,
    "close(3) = 0",
    r#"unlink("file") = 0"#,
    r#"newfstatat(AT_FDCWD, "/nonexistent\33[2J", 0x*, 0) = -1 ENOENT (No such file or directory)"#,
    "rt_sigaction(SIGUSR1, {sa_handler=0x*, sa_mask=[], sa_flags=SA_RESTORER|SA_RESTART}, NULL, 8) = 0",
    "kill(*, SIGUSR1) = 0",
    "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=*, si_uid=*} ---",
    "rt_sigreturn() = 0",
    "pipe2([3, 4], 0) = 0",
    "poll([{fd=3, events=POLLIN, revents=POLLIN}], 1, -1) = 1",
    "socket(AF_UNIX, SOCK_STREAM, 0) = 5",
    r#"connect(5, {sa_family=AF_UNIX, sun_path="/nonexistent/socket"}, 110) = -1 ENOENT (No such file or directory)"#,
    "alarm(1) = 0",
    // In two parts when it was shown while it waited.
    "*pause*) = ? ERESTARTNOHAND (*",
    "--- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---",
];

fn traced_run(options: &[&str]) -> Run {
    let program = tree::program("glibc-static", "traced");
    let run = Run::yod(&["-m", "34M"]).args(options);
    run.args(&["--", &program.to_string_lossy()])
}

fn traced(options: &[&str], args: &[&str], scratch: &Scratch) -> Result<Outcome> {
    clean::run_in(traced_run(options).args(args), scratch)
}

fn matches(line: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => line == pattern,
        Some((begin, end)) => line.strip_prefix(begin).is_some_and(|rest| {
            // The rest of the pattern may begin anywhere.
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(&rest[at..], end))
        }),
    }
}

/// Checks that lines like these come in this order, whatever is between.
fn in_order(text: &str, patterns: &[&str]) -> Result<()> {
    let mut lines = text.lines();
    for pattern in patterns {
        ensure!(
            lines.any(|line| matches(line, pattern)),
            "no {pattern}, or not in order:\n{text}"
        );
    }
    Ok(())
}

/// Flags, modes, buffers that were read, structures and errors were numbers; signals and the end were not shown.
#[test]
fn calls_and_signals_are_shown_as_strace_does() -> Result<()> {
    let outcome = traced(&["--strace"], &["file"], &Scratch::new()?)?;
    ensure!(outcome.status == Some(3), "status {:?}", outcome.status);
    let text = outcome.stderr.text();
    in_order(&text, LINES)?;
    in_order(&text, &["exit_group(3) = ?", "+++ exited with 3 +++"])?;
    let last = text.lines().last();
    ensure!(last == Some("+++ exited with 3 +++"), "last: {last:?}");
    ensure!(
        !text.contains(" = -1 E5") && !text.contains("-51"),
        "a number of the kernel's own:\n{text}"
    );
    Ok(())
}

/// A call that never returned was never shown.
#[test]
fn the_call_that_a_program_hangs_in_is_shown() -> Result<()> {
    let scratch = Scratch::new()?;
    let run = traced_run(&["--strace=trace"]).args(&["file", "hang"]);
    let run = run.start(&scratch)?;
    let trace = || fs::read_to_string(scratch.path().join("cwd/trace")).unwrap_or_default();
    let shown = process::wait_until(HANG, || trace().contains("pause(<unfinished ...>\n"));
    ensure!(shown, "not shown while it hangs:\n{}", trace());
    let yod = Pid::from_raw(i32::try_from(run.pid())?).context("a process")?;
    kill_process(yod, Signal::TERM)?;
    let outcome = run.finish(HANG)?;
    ensure!(outcome.status == Some(143), "status {:?}", outcome.status);
    let text = trace();
    in_order(
        &text,
        &[
            "pause(<unfinished ...>",
            "--- SIGTERM {*",
            "+++ killed by SIGTERM +++",
        ],
    )
}

#[test]
fn only_some_calls_with_their_times() -> Result<()> {
    let scratch = Scratch::new()?;
    let options = [
        "--strace=trace",
        "--strace-only",
        "read,writev",
        "--strace-times",
    ];
    let outcome = traced(&options, &["file"], &scratch)?;
    ensure!(
        outcome.status == Some(3) && outcome.stderr.text().is_empty(),
        "{}",
        outcome.stderr.text()
    );
    let text = fs::read_to_string(scratch.path().join("cwd/trace"))?;
    let mut calls = Vec::new();
    for line in text.lines() {
        let (time, rest) = line.split_once(' ').context("no time")?;
        let seconds: f64 = time.parse().with_context(|| format!("no time: {line}"))?;
        // 2020; a node has this host's time.
        ensure!(seconds > 1_577_836_800.0, "{line}");
        let took = rest.rsplit_once(" <").map(|(_, took)| took);
        let took = took.and_then(|took| took.strip_suffix('>')?.parse::<f64>().ok());
        calls.extend(rest.split_once('(').map(|(name, _)| (name, took.is_some())));
    }
    ensure!(calls == [("read", true), ("writev", true)], "{text}");
    Ok(())
}

/// A full disk cut the trace without a word.
#[test]
fn a_trace_that_cannot_be_written_is_reported_once() -> Result<()> {
    let outcome = traced(&["--strace=/dev/full"], &["file"], &Scratch::new()?)?;
    clean::one_line(&outcome, 3, "cannot write: /dev/full: No space left")
}
