//! Tests that wait a fixed time for something to happen: they fail on a machine that is slower than their author's. So what sleeps
//! is written down here, with the reason: tests and unit tests, the programs and scripts that they and the benchmarks run, and what
//! of these is within a test's text. Once only the tests were looked at, and three programs slept by another clock than the one that
//! they waited for; then only programs in files of their own, and loops of scripts had no limit.

use std::collections::BTreeMap;
use std::path::Path;

use super::{all_files, places, skip};

/// What may sleep, and in how many lines: what polls whether something is so, with a limit (which may be that of
/// its run); and where how long something takes, that nothing happens for so long, or the end of what sleeps is what is tested.
const SLEEPERS: &[(&str, usize)] = &[
    // Tests.
    ("bench/src/native/place.rs", 1),                 // polls
    ("bench/src/process.rs", 2),                      // a time is measured; to be ended
    ("host/machine/src/keeper/ticker.rs", 2),         // a node that is not always quick; polls
    ("host/proxy/src/kick/tests.rs", 1),              // between signals
    ("host/proxy/tests/serve/children.rs", 1),        // to be ended
    ("host/proxy/tests/serve/node.rs", 2),            // both poll
    ("host/proxy/tests/serve/reach/processes.rs", 2), // to be ended
    ("host/yod/src/output.rs", 1),                    // polls
    ("host/yod/src/trace/call_tests.rs", 1),          // a call that is shown
    ("host/yod/tests/bad_input/main.rs", 3),          // to be ended, twice; polls
    ("host/yod/tests/common/job.rs", 1),              // to be ended
    ("host/yod/tests/common/mod.rs", 3),              // all poll
    ("host/yod/tests/endings.rs", 1),                 // a job stays stopped
    ("host/yod/tests/node/main.rs", 1),               // to be ended
    ("host/yod/tests/output.rs", 1),                  // yod's processor time while it waits
    ("qk/hal/tests/machine/injected.rs", 2),          // polls; between interrupts
    ("tests/attack/packets.rs", 1),                   // polls
    ("tests/bad_input/host.rs", 1),                   // to be ended
    ("tests/children/killed.rs", 1),                  // the moment of the blow
    ("tests/children/main.rs", 1),                    // to be ended
    ("tests/children/terminal.rs", 1),                // to be ended
    ("tests/cokernel/cycles.rs", 1),                  // the moment of the blow
    ("tests/cokernel/inside.rs", 2),                  // both poll
    ("tests/gdb/connection.rs", 1),                   // to be ended
    ("tests/cokernel/watch.rs", 2),                   // polls; quiet for so long
    ("tests/hostile/round.rs", 2), // the moment of the attack, and how long it lasts
    ("tests/kill/round.rs", 1),    // the moment of the blow
    ("tests/launchers/kill.rs", 2), // the moment of the blow
    ("tests/noise/barriers.rs", 1), // quiet for so long
    ("tests/noise/main.rs", 4),    // between signals; quiet for so long, twice; polls
    ("tests/noise/node.rs", 1),    // polls
    ("tests/noise/pair.rs", 1),    // quiet for so long
    ("tests/noise/team.rs", 1),    // quiet for so long
    ("tests/src/process.rs", 2),   // polls; to be ended
    ("tests/src/run.rs", 1),       // to be ended
    ("tests/src/run/doings.rs", 1), // to be ended
    // Programs.
    ("bench/programs/demanding_threads.h", 3), // to be ended, twice; timers expire meanwhile, by the same clock
    ("bench/programs/neighbours.c", 1),        // a system call like others
    ("bench/programs/timers.c", 1),            // measured
    ("lib/smartmap/test/harness.h", 1),        // polls
    ("lib/smartmap/test/peers.c", 1),          // the moment of the blow
    ("tests/launchers/ring.c", 1),             // polls
    ("tests/cokernel/abuse.c", 1),             // the moment of the blow
    ("tests/programs/attack/busy.c", 1),       // a system call like others
    ("tests/programs/attack/stale.c", 1),      // polls
    ("tests/programs/bad/endless.c", 1),       // never ends
    ("tests/programs/children/outside.c", 2),  // a file is empty for a moment, and is not
    ("tests/programs/bad/futex_heap.c", 1),    // polls
    ("tests/programs/bad/rank_ends.c", 2),     // to be ended; polls
    ("tests/programs/children/execs.c", 1),    // a missing wait for it is found out
    ("tests/programs/children/replaced.h", 1), // to be ended
    ("tests/programs/common/settle.h", 1),     // polls
    ("tests/programs/effects/of_signals.c", 4), // a clock stands still; nothing comes; sleeping
    ("tests/programs/fp/control_words.c", 1),  // a system call like others, as the next two
    ("tests/programs/fp/rounding.c", 1),
    ("tests/programs/fp/x87_stack.c", 1),
    ("tests/programs/threads/c11_threads.c", 1), // sleeping
    ("tests/programs/threads/cancel.c", 3), // to be cancelled; to be joined; a point where it could be
    ("tests/programs/threads/ends.c", 1),   // to be ended
    ("tests/programs/threads/posix_timers_process.c", 1), // to be interrupted
    ("tests/programs/threads/shipped.c", 1), // sleeping
    ("tests/programs/threads/fatal_signals.c", 1), // to be interrupted, as the next
    ("tests/programs/threads/signal_waits.c", 1),
    // Scripts.
    ("lib/mpi/test/helpers.sh", 1),   // polls
    ("lib/mpi/test/kill", 1),         // the moment of the blow
    ("lib/mpi/test/run", 3),          // all to be ended
    ("lib/smartmap/test/run", 1),     // polls
    ("tests/attack/confined.sh", 1),  // polls
    ("tests/debian/children.tsv", 2), // to be ended
    ("tests/debian/inputs.sh", 2),    // it is waited for; polls
    ("tests/debian/programs.tsv", 1), // sleep(1)
    ("tests/debian/threads.tsv", 2),  // sleeping; to be ended
    ("tests/launchers/hosts.sh", 3),  // to be ended; both others poll
];

/// Sleeping is what is tested by all in here; and the text of this file is no test.
const EXEMPT: &[&str] = &["tests/programs/time/", "tests/source/sleeps.rs"];

/// Folders whose files all are tests, or run by them or by the benchmarks.
const OF_TESTS: &[&str] = &["test", "tests", "bench", "examples"];

/// Languages whose comments [`skip`] knows.
const LIKE_C: &[&str] = &["rs", "c", "h", "cpp", "go"];

/// Calls that sleep, in Rust, C, C++, Fortran, Python and Go; the first is a program, too.
const CALLS: &[&str] = &[
    "sleep",
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "thrd_sleep",
    "sleep_for",
    "sleep_until",
    "Sleep",
];

/// What of a file is tests, or is run by them; of Rust beside them the unit tests.
fn of_tests<'a>(path: &str, text: &'a str) -> &'a str {
    let prose = path.ends_with(".md");
    if prose || EXEMPT.iter().any(|place| path.starts_with(place)) {
        return "";
    }
    if path.split('/').any(|name| OF_TESTS.contains(&name)) {
        return text;
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    if !name.ends_with(".rs") {
        return "";
    }
    if name.contains("test") {
        return text;
    }
    let unit_tests = text.find("\nmod tests {");
    unit_tests.map_or("", |at| &text[at..])
}

/// The text without comments, which `skip` knows from text.
fn without_comments(text: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let is_comment = rest.starts_with("//") || rest.starts_with("/*");
        let (taken, after) = rest.split_at(skip(rest).max(first.len_utf8()));
        if is_comment {
            code.extend(taken.chars().filter(|&c| c == '\n'));
        } else {
            code.push_str(taken);
        }
        rest = after;
    }
    code
}

/// Whether a line calls what sleeps, or runs the program: `sleep 1`, `sleep "$time"`, `Command::new("sleep")`.
fn sleeps(line: &str) -> bool {
    let calls = |call: &str, at: usize| line[at + call.len()..].trim_start().starts_with('(');
    let runs = |at: usize| {
        let (before, behind) = (&line[..at], &line[at + "sleep".len()..]);
        let time = behind.strip_prefix(' ').unwrap_or_default();
        let is_time = |c: char| c.is_ascii_digit() || ".$\"{".contains(c);
        let started =
            behind.starts_with('"') && (before.ends_with("new(\"") || before.ends_with('/'));
        started || time.starts_with(is_time) || time.starts_with("inf")
    };
    let found = |call: &&str| places(line, call).any(|at| calls(call, at));
    CALLS.iter().any(found) || places(line, "sleep").any(runs)
}

/// In how many lines of a file tests sleep.
fn lines_that_sleep(path: &str, text: &str) -> usize {
    let text = of_tests(path, text);
    let ending = Path::new(path).extension().unwrap_or_default();
    let code = if LIKE_C.iter().any(|like_c| ending == *like_c) {
        without_comments(text)
    } else {
        text.to_owned()
    };
    code.lines().filter(|line| sleeps(line)).count()
}

#[test]
fn no_test_sleeps_until_something_should_have_happened() {
    let mut left: BTreeMap<_, _> = SLEEPERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, text) in all_files() {
        let (lines, allowed) = (
            lines_that_sleep(&path, &text),
            left.remove(path.as_str()).unwrap_or(0),
        );
        if lines != allowed {
            wrong.push(format!("{path}: {lines} lines with a sleep, not {allowed}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(left.is_empty(), "no such files: {left:?}");
}

#[test]
fn lines_that_sleep_are_found() {
    let c = "// sleep(1)\nusleep(1); nanosleep(&t, NULL);\nsleep = 2;\nsleep_for(t); /* usleep(2)\n*/\nint sleeps(void); f(sleep);\n";
    let test = "thread::sleep(LOOK);\nlet text = \"// 'sleep 1'\";\nlet c = r#\"\nsleep(1);\"#;\nCommand::new(\"sleep\")\nrun(\"sleep\")\n";
    let script = "sleep 1\n sleep \"$((x))\"\nexec sleep infinity\nsleep=1\nasleep 1\n";
    let (python, fortran) = ("time.sleep(1)\n", "call sleep (1)\n! asleep\n");
    for (path, text, lines) in [
        ("tests/programs/a.c", c, 2),
        ("lib/a/src/a.c", c, 0),
        ("tests/programs/time/a.c", c, 0),
        ("tests/a.rs", test, 4),
        ("host/a/src/a_tests.rs", test, 4),
        ("host/a/src/a.rs", test, 0),
        ("lib/a/test/run", script, 3),
        ("lib/a/test", script, 3),
        ("tests/README.md", script, 0),
        ("bench/a.py", python, 1),
        ("tests/a.f90", fortran, 1),
    ] {
        assert_eq!(lines_that_sleep(path, text), lines, "{path}");
    }
    let unit_tests = format!("{test}#[cfg(all(test, not(loom)))]\nmod tests {{\n{test}}}\n");
    assert_eq!(lines_that_sleep("host/a/src/a.rs", &unit_tests), 4);
}
