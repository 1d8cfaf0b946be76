//! gdb sessions with a rank: what gdb shows of it, and what becomes of the rank.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use margay_tests::run::HANG;
use margay_tests::trial::trial;

use crate::host::{functions, gdb, nested};
use crate::waiting::{SYSROOT, Waiting, has};

pub fn all() -> Vec<Trial> {
    let case = |name: &str, test: fn() -> Result<()>| trial(format!("session: {name}"), test);
    vec![
        case("break, watch, step", breakpoints),
        case("a wait after a breakpoint", waits),
        case("a signal that is not passed on", drops),
        case("timers go on", timers_go_on),
        case("as native", as_native),
        case("threads and Ctrl-C", threads),
        case("a rank that dies", dies),
        case("kill", kills),
        case("another program", becomes),
        case("two ranks", two_ranks),
        case("a breakpoint in what ranks share", breakpoint_in_text),
        case("detach", detaches),
    ]
}

fn breakpoints() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    let text = waiting.gdb(
        "s",
        &[
            "break twice",
            "continue",
            "bt",
            "print n",
            "stepi",
            "print counter",
            "info sharedlibrary",
            "delete",
            "watch counter",
            "continue",
            "continue",
            "delete",
            "hbreak handler",
            "continue",
            "continue",
            "print signo",
            "set var counter = 5",
            "print $xmm0.uint128 == $xmm0.uint128",
            "continue",
        ],
    )?;
    has(
        &text,
        &[
            "Breakpoint 1, twice (n=n@entry=1)",
            "#1 ",
            "main (argc=",
            "$1 = 1",
            "$2 = 1",
            "libc.so.6",
            "Hardware watchpoint 2: counter",
            "Old value = 1",
            "New value = 3",
            "Old value = 3",
            "New value = 6",
            "received signal SIGUSR1",
            "Breakpoint 3, handler (signo=10)",
            "$3 = 10",
            "exited with code 03",
        ],
    )?;
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    ensure!(
        outcome.stdout.text() == "sum 12 counter 1005\n",
        "{}",
        outcome.stdout.text()
    );
    Ok(())
}

/// The one thread of a rank halted by itself: the stop is over when it goes on, and calls it back from nothing.
fn waits() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&["--stats"], &["waits"])?;
    let quietly = "handle SIGUSR1 nostop noprint";
    let commands = [quietly, "break twice", "continue", "delete", "continue"];
    let text = waiting.gdb("s", &commands)?;
    has(&text, &["Breakpoint 1, twice", "exited with code 03"])?;
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    let stats = outcome.stderr.text();
    let of_poll = stats
        .lines()
        .find_map(|line| line.trim().strip_prefix("poll "));
    let calls: Option<u32> = of_poll.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    ensure!(calls.is_some_and(|calls| calls < 10), "{stats}");
    Ok(())
}

/// A signal that gdb does not pass on leaves nothing behind: once it stayed blocked, as while its handler runs.
fn drops() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &["blocks"])?;
    let text = waiting.gdb("s", &["handle SIGUSR1 nostop noprint nopass", "continue"])?;
    has(&text, &["exited with code 03"])?;
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    ensure!(
        outcome.stdout.text() == "sum 12 counter 6\nblocked 0\n",
        "{}",
        outcome.stdout.text()
    );
    Ok(())
}

/// A timer whose signal gdb does not pass on goes on: once it waited for ever for the program to take it.
fn timers_go_on() -> Result<()> {
    for timer in ["interval", "timer"] {
        let waiting = Waiting::new("steps")?;
        let started = waiting.start(&[], &[timer])?;
        let commands = [
            "handle SIGUSR1 nostop noprint",
            "handle SIGALRM stop nopass",
            "continue",
            "continue",
            "handle SIGALRM nostop noprint pass",
            "continue",
        ];
        let text = waiting.gdb("s", &commands)?;
        has(&text, &["received signal SIGALRM", "exited with code 03"])?;
        waiting.ended(&started.finish(HANG)?, 3)?;
    }
    Ok(())
}

/// The same commands, natively and with a rank: the same functions, and values.
fn as_native() -> Result<()> {
    const COMMANDS: &[&str] = &[
        "break main",
        "continue",
        "break twice if n == 3",
        "continue",
        "bt",
        "finish",
        "next",
        "step",
        "bt",
        "info breakpoints",
        "print counter",
        "kill",
    ];
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    let ours = waiting.gdb("s", COMMANDS)?;
    waiting.ended(&started.finish(HANG)?, 137)?;
    let native = [&["starti"][..], COMMANDS].concat();
    let cwd = waiting.scratch.path().join("cwd");
    let native = gdb(&cwd, &[&waiting.program], &native)?;
    let values = |text: &str| -> Vec<String> {
        let is_value = |line: &&str| line.starts_with('$') || line.starts_with("Value returned");
        text.lines().filter(is_value).map(str::to_owned).collect()
    };
    ensure!(
        functions(&ours) == functions(&native) && values(&ours) == values(&native),
        "natively:\n{native}\nunder yod:\n{ours}"
    );
    ensure!(values(&ours).len() == 2, "{ours}");
    Ok(())
}

/// Stops the program and shows its threads, until four of them are in `loops`.
const UNTIL_ALL_LOOP: &str = r#"python exec("""while stacks.count(' loops ') < 4:\n armed.clear()\n gdb.execute('continue')\n stacks = gdb.execute('thread apply all bt', to_string=True)""")"#;

/// Threads that compute are stopped from outside, each is shown, and all go on.
fn threads() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &["threads"])?;
    let text = waiting.gdb(
        "s",
        &[
            "handle SIGUSR1 nostop noprint",
            "break loops",
            "continue",
            "delete",
            // gdb's own Ctrl-C, once the rank runs; again until all threads have left the barrier before the loop.
            "python import threading, os, signal",
            "python interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)",
            "python stacks, armed = '', []",
            "python later = lambda event: armed or (armed.append(1), threading.Timer(1, interrupt).start())",
            "python gdb.events.cont.connect(later)",
            UNTIL_ALL_LOOP,
            "python print(stacks)",
            "set var go_on = 0",
            "continue",
        ],
    )?;
    has(&text, &["Breakpoint 1, loops", "received signal SIGINT"])?;
    let stacks = functions(&text);
    let loops = |stack: &&Vec<String>| stack.iter().any(|name| name == "loops");
    ensure!(stacks.iter().filter(loops).count() >= 4, "{text}");
    has(&text, &["exited with code 03"])?;
    waiting.ended(&started.finish(HANG)?, 3)
}

fn dies() -> Result<()> {
    let waiting = Waiting::new("dies")?;
    let started = waiting.start(&[], &["together", "deep"])?;
    let text = waiting.gdb("s", &["continue", "thread apply all bt 3", "continue"])?;
    has(
        &text,
        &[
            "received signal SIGSEGV",
            "Thread 4",
            "Thread 1",
            "dies (at=",
            "terminated with signal SIGSEGV",
        ],
    )?;
    waiting.ended(&started.finish(HANG)?, 139)
}

/// A rank that becomes another program stops at that one's first instruction, as one on Linux does. What breakpoints had put into
/// the old program's memory is not put into the new one's.
fn becomes() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &["becomes"])?;
    let text = waiting.gdb(
        "s",
        &[
            "handle SIGUSR1 nostop noprint",
            "break becomes",
            "break loops",
            "continue",
            "continue",
            "continue",
            "bt",
            "print go_on = 0",
            "delete",
            "continue",
        ],
    )?;
    has(
        &text,
        &[
            "Breakpoint 1, becomes",
            "Program received signal SIGTRAP",
            "in _start",
            "Breakpoint 2, loops",
            "main",
            "exited with code 03",
        ],
    )?;
    ensure!(!text.contains("Cannot remove"), "{text}");
    waiting.ended(&started.finish(HANG)?, 3)
}

fn kills() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    waiting.gdb("s", &["break main", "continue", "kill"])?;
    waiting.ended(&started.finish(HANG)?, 137)
}

fn two_ranks() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&["-n", "2", "--oversubscribe"], &["zero"])?;
    const COMMANDS: &[&str] = &[
        "handle SIGUSR1 nostop noprint",
        "break twice",
        "continue",
        "print n",
        "delete",
        "continue",
    ];
    let texts = std::thread::scope(|scope| {
        ["s.0", "s.1"]
            .map(|socket| scope.spawn(|| waiting.gdb(socket, COMMANDS)))
            .map(|session| session.join().expect("no panic"))
    });
    for text in texts {
        has(&text?, &["Breakpoint 1, twice", "$1 = 1"])?;
    }
    waiting.ended(&started.finish(HANG)?, 0)
}

/// A breakpoint in a library of one rank is none of the other's, which would die of it.
/// In the C library: what is as short as the program itself is not shared. The second rank runs while the first one's breakpoints
/// are there; gdb takes them out when it stops, unless set otherwise.
fn breakpoint_in_text() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&["-n", "2", "--oversubscribe"], &["zero"])?;
    const QUIET: &str = "handle SIGUSR1 nostop noprint";
    let second = [SYSROOT, "target remote s.1", QUIET, "continue"];
    let second = nested(&waiting.program, &second);
    let text = waiting.gdb(
        "s.0",
        &[
            "set breakpoint always-inserted on",
            QUIET,
            "break main",
            "continue",
            "break write",
            "continue",
            &second,
            "bt 20",
            "delete",
        ],
    );
    has(
        &text?,
        &["Breakpoint 2", "exited normally", "write", "main"],
    )?;
    waiting.ended(&started.finish(HANG)?, 0)
}

/// The rank goes on without breakpoints.
fn detaches() -> Result<()> {
    let waiting = Waiting::new("steps")?;
    let started = waiting.start(&[], &[])?;
    waiting.gdb("s", &["break twice", "continue", "watch counter", "detach"])?;
    let outcome = started.finish(HANG)?;
    waiting.ended(&outcome, 3)?;
    ensure!(outcome.stdout.text() == "sum 12 counter 1006\n");
    Ok(())
}
