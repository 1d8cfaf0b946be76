//! Tests that wait a fixed time for something to happen: they fail on a machine that is slower than their author's. So what sleeps
//! is written down here, with the reason. The programs that tests run are looked at, too: once only the tests were, and three
//! programs slept by another clock than the one that they waited for.

use std::collections::{BTreeMap, BTreeSet};

use super::{files, words};

/// Where tests may sleep, and how often: in the loops that look again and again whether something is so, with a limit; and
/// where how long something takes, or that nothing happens for so long, is what is tested.
const TESTS: &[(&str, usize)] = &[
    ("host/proxy/tests/serve/node.rs", 2), // both poll
    ("host/yod/tests/common/mod.rs", 3),   // all poll
    ("host/yod/tests/endings.rs", 1),      // a job stays stopped
    ("host/yod/tests/node.rs", 1),         // a proxy attaches late
    ("host/yod/tests/output.rs", 1),       // yod's processor time while it waits
    ("qk/hal/tests/machine.rs", 2),        // polls; between interrupts
    ("tests/children/killed.rs", 1),       // the moment of the blow
    ("tests/kill/round.rs", 1),            // the moment of the blow
    ("tests/launchers/kill.rs", 2),        // the moment of the blow
    ("tests/noise/barriers.rs", 1),        // quiet for so long
    ("tests/noise/main.rs", 4),            // between signals; quiet for so long, twice; polls
    ("tests/noise/node.rs", 1),            // polls
    ("tests/noise/pair.rs", 2),            // quiet for so long; between signals
    ("tests/noise/team.rs", 1),            // quiet for so long
    ("tests/src/process.rs", 1),           // polls
];

/// Which programs that tests run may sleep, and in how many lines: those that look again and again whether something is so, and
/// those for which sleeping, or that nothing happens for so long, is what is tested. All in folder time are.
const PROGRAMS: &[(&str, usize)] = &[
    ("lib/smartmap/test/harness.h", 1),         // polls
    ("lib/smartmap/test/peers.c", 1),           // the moment of the blow
    ("tests/programs/attack/stale.c", 1),       // polls
    ("tests/programs/bad/endless.c", 1),        // never ends
    ("tests/programs/bad/rank_ends.c", 2),      // to be ended; polls
    ("tests/programs/children/execs.c", 1),     // a missing wait for it is found out
    ("tests/programs/children/replaced.c", 1),  // to be ended
    ("tests/programs/common/settle.h", 1),      // polls
    ("tests/programs/effects/of_signals.c", 4), // a clock stands still; nothing comes; sleeping
    ("tests/programs/fp/control_words.c", 1),   // a system call like others, as the next two
    ("tests/programs/fp/rounding.c", 1),
    ("tests/programs/fp/x87_stack.c", 1),
    ("tests/programs/threads/c11_threads.c", 1), // sleeping
    ("tests/programs/threads/cancel.c", 3), // to be cancelled; to be joined; a point where it could be
    ("tests/programs/threads/ends.c", 1),   // to be ended
    ("tests/programs/threads/posix_timers.c", 1), // to be interrupted
    ("tests/programs/threads/shipped.c", 1), // sleeping
    ("tests/programs/threads/signal_waits.c", 1), // to be interrupted
];
/// Calls that sleep, in Rust, C and C++.
const CALLS: &[&str] = &[
    "sleep",
    "usleep",
    "nanosleep",
    "clock_nanosleep",
    "thrd_sleep",
    "sleep_for",
    "sleep_until",
];

/// In how many lines a file sleeps.
fn lines_that_sleep(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = BTreeSet::new();
    for call in CALLS {
        let called = format!("{call}(");
        let in_code = words(text, call).into_iter();
        found.extend(in_code.filter(|number| lines[number - 1].contains(&called)));
    }
    found.len()
}

/// Compares the files of some folders with what is written down.
fn compare(found: impl Iterator<Item = (String, String)>, written: &[(&str, usize)]) {
    let mut left: BTreeMap<_, _> = written.iter().copied().collect();
    for (path, text) in found {
        let allowed = left.remove(path.as_str()).unwrap_or(0);
        assert_eq!(
            lines_that_sleep(&text),
            allowed,
            "{path}: lines with a sleep"
        );
    }
    assert!(left.is_empty(), "no such files: {left:?}");
}

#[test]
fn no_test_sleeps_until_something_should_have_happened() {
    let in_tests = |path: &str| path.starts_with("tests/") || path.contains("/tests/");
    let others = ["tests/programs/", "tests/source/"];
    let of_tests = files("rs")
        .filter(|(path, _)| in_tests(path) && !others.iter().any(|other| path.starts_with(other)));
    compare(of_tests, TESTS);
}

#[test]
fn no_program_of_the_tests_does_either() {
    let in_tests = |path: &str| {
        path.starts_with("tests/programs/") && !path.starts_with("tests/programs/time/")
            || path.starts_with("lib/") && path.contains("/test/")
    };
    let all = ["c", "h", "cpp"].into_iter().flat_map(files);
    compare(all.filter(|(path, _)| in_tests(path)), PROGRAMS);
}

#[test]
fn lines_that_sleep_are_found() {
    let text = "// sleep(1)\nusleep(1); nanosleep(&t, NULL);\nsleep = 2;\nsleep_for(t); /* usleep(2) */\nint sleeps(void); f(sleep);\n";
    assert_eq!(lines_that_sleep(text), 2);
    assert_eq!(lines_that_sleep("thread::sleep(LOOK);\nusleep(5);\n"), 2);
}
