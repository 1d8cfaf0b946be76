//! The order of lines: calls that return, that do not, and signals in between.

use wire::trace::Pieces;

use super::*;

fn trace(options: &[&str]) -> Trace {
    let words = ["yod", "--strace"].iter().chain(options).chain(&["x"]);
    let cli = match crate::cli::parse(words.map(std::ffi::OsString::from), None) {
        Ok(crate::cli::Parsed::Run(cli)) => cli,
        other => panic!("{other:?}"),
    };
    let place = crate::place::Place {
        ranks: 0..cli.ranks,
        size: cli.ranks,
        launched: None,
    };
    Trace::new(&cli, &place).expect("right").expect("a trace")
}

fn record(kind: Kind, name: &str, args: [u64; 6], ret: i64) -> Record {
    Record {
        kind,
        tid: 7,
        time_ns: 1_500_000_000,
        nr: by_name(name).expect(name).nr.into(),
        args,
        ret,
        pieces: Pieces::default(),
    }
}

fn texts(lines: Vec<Line>) -> Vec<String> {
    lines.into_iter().map(|line| line.text).collect()
}

#[test]
fn a_call_is_one_line_unless_it_takes_long() {
    let mut trace = trace(&[]);
    let args = [0, 0x1000, 9, 0, 0, 0];
    assert!(
        trace
            .lines(0, record(Kind::Enter, "read", args, 0))
            .is_empty()
    );
    assert!(
        trace
            .unfinished_after(0, Duration::from_secs(3600))
            .is_empty()
    );
    assert_eq!(
        texts(trace.lines(0, record(Kind::Exit, "read", args, -9))),
        ["read(0, 0x1000, 9) = -1 EBADF (Bad file descriptor)"]
    );
    let _ = trace.lines(0, record(Kind::Enter, "read", args, 0));
    assert_eq!(
        texts(trace.unfinished_after(0, Duration::ZERO)),
        ["read(0, <unfinished ...>"]
    );
    assert!(
        trace.unfinished_after(0, Duration::ZERO).is_empty(),
        "said once"
    );
    assert_eq!(
        texts(trace.lines(0, record(Kind::Exit, "read", args, 0))),
        ["<... read resumed>\"\", 9) = 0"]
    );
}

#[test]
fn the_last_line_names_a_core_file() {
    assert_eq!(
        texts(trace(&[]).last_lines(0, 0x80 | 11)),
        ["+++ killed by SIGSEGV (core dumped) +++"]
    );
}

/// A call that a program hung in was not shown at all.
#[test]
fn the_end_shows_what_a_rank_was_in() {
    let mut trace = trace(&["-n", "2", "--oversubscribe"]);
    let _ = trace.lines(0, record(Kind::Enter, "pause", [0; 6], 0));
    assert_eq!(
        texts(trace.last_lines(0, 9)),
        ["pause(<unfinished ...>", "+++ killed by SIGKILL +++"]
    );
    assert!(trace.last_lines(0, 9).is_empty(), "said once");
    let _ = trace.lines(1, record(Kind::Enter, "exit_group", [3, 0, 0, 0, 0, 0], 0));
    assert_eq!(
        texts(trace.last_lines(1, 3 << 8)),
        ["exit_group(3) = ?", "+++ exited with 3 +++"]
    );
}

#[test]
fn signals_are_shown() {
    let signal = |signo, code, first| {
        let mut signal = record(Kind::Signal, "read", [first, 7, 0, 0, 0, 0], code);
        signal.nr = signo;
        signal_line(&signal)
    };
    assert_eq!(
        signal(10, 0, 42 | 1000 << 32),
        "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=42, si_uid=1000} ---"
    );
    assert_eq!(
        signal(11, 1, 0x10),
        "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10} ---"
    );
    assert_eq!(
        signal(14, 128, 0),
        "--- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---"
    );
    assert!(signal(34, -1, 5).contains("SIGRT_2") && signal(34, -1, 5).contains("sival_int=7"));
}

#[test]
fn only_what_is_wanted_is_shown() {
    let mut trace = trace(&["--strace-only", "read,write"]);
    for (name, count) in [("read", 1), ("close", 0), ("write", 1)] {
        let _ = trace.lines(0, record(Kind::Enter, name, [0; 6], 0));
        assert_eq!(
            trace.lines(0, record(Kind::Exit, name, [0; 6], 0)).len(),
            count,
            "{name}"
        );
    }
    let wrong = only(&Some("read,nonsense".into())).expect_err("no such call");
    assert!(wrong.status == 2 && wrong.line.contains("nonsense"));
}

/// As strace -f shows them: whose a line is once there is more than one thread, and calls that others interrupt.
#[test]
fn threads_are_distinguished() {
    let mut trace = trace(&[]);
    let of = |tid, kind, name, ret| Record {
        tid,
        ..record(kind, name, [3, 0x1000, 9, 0, 0, 0], ret)
    };
    for record in [
        of(70, Kind::Enter, "close", 0),
        of(70, Kind::Exit, "close", 0),
        of(70, Kind::Enter, "read", 0),
        of(71, Kind::Enter, "close", 0),
        of(71, Kind::Exit, "close", -9),
        of(71, Kind::Enter, "write", 0),
        of(70, Kind::Exit, "read", 0),
        of(71, Kind::Exit, "write", 9),
        of(71, Kind::Enter, "exit", 0),
        of(70, Kind::Enter, "close", 0),
        of(70, Kind::Exit, "close", 0),
    ] {
        let lines = trace.lines(0, record);
        trace.write(0, &lines);
    }
    let text = String::from_utf8(trace.sink.pending().clone()).expect("text");
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "close(3) = 0",
            "[pid    70] read(3, <unfinished ...>",
            "[pid    71] close(3) = -1 EBADF (Bad file descriptor)",
            "[pid    71] write(3, 0x1000, 9 <unfinished ...>",
            "[pid    70] <... read resumed>\"\", 9) = 0",
            "[pid    71] <... write resumed>) = 9",
            "[pid    71] exit(3) = ?",
            "[pid    71] +++ exited with 3 +++",
            "[pid    70] close(3) = 0",
        ]
    );
    assert_eq!(texts(trace.last_lines(0, 0)), ["+++ exited with 0 +++"]);
}

#[test]
fn the_end_shows_what_all_threads_were_in() {
    let mut trace = trace(&[]);
    let of = |tid, name| Record {
        tid,
        ..record(Kind::Enter, name, [0; 6], 0)
    };
    assert!(trace.lines(0, of(70, "pause")).is_empty());
    assert_eq!(
        texts(trace.lines(0, of(71, "exit_group"))),
        ["pause(<unfinished ...>"]
    );
    assert_eq!(
        texts(trace.last_lines(0, 0)),
        [
            "exit_group(0) = ?",
            "+++ exited with 0 +++",
            "+++ exited with 0 +++"
        ]
    );
}

/// There was one last line for all, and none for a thread whose `exit` was not among the calls that are shown; strace -f has one for
/// each thread.
#[test]
fn each_thread_has_a_last_line_and_the_main_thread_s_comes_last() {
    let mut trace = trace(&["--strace-only", "write"]);
    let of = |tid, name| Record {
        tid,
        ..record(Kind::Enter, name, [4, 0, 0, 0, 0, 0], 0)
    };
    let mut ends = |record| {
        let lines = trace.lines(0, record);
        lines
            .into_iter()
            .map(|line| (line.tid, line.text))
            .collect::<Vec<_>>()
    };
    for tid in [70, 71, 72, 73] {
        assert_eq!(ends(of(tid, "read")), []);
    }
    assert_eq!(
        ends(of(72, "exit")),
        [(Some(72), "+++ exited with 4 +++".into())]
    );
    assert_eq!(ends(of(70, "exit")), [], "the others go on");
    let last = trace.last_lines(0, 11);
    let last: Vec<_> = last.iter().map(|line| (line.tid, &*line.text)).collect();
    let killed = "+++ killed by SIGSEGV +++";
    assert_eq!(
        last,
        [(Some(71), killed), (Some(73), killed), (None, killed)]
    );
}
