//! Continuing a yod that is stopped: by itself because its ranks have stopped, by one of them that stopped its process group,
//! by any other process.
//!
//! A stopped process takes no signal but SIGKILL and SIGCONT, and its time limit passes unseen. Its keeper, in a session of
//! its own, is not stopped with it. Only a parent is notified of a stop, which a keeper is not: it has to poll. So that an idle
//! node is not disturbed for that, it looks when it is awake anyway.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often a yod is looked after that is stopped or has to end.
const PERIOD: Duration = Duration::from_millis(100);
/// How often any other at most. The node's clock wakes the keeper every second, which is to suffice for a look each time.
const IDLE_PERIOD: Duration = Duration::from_millis(900);
/// More than /proc/PID/status has up to the signals that wait. In between are the groups, which batch systems give dozens of.
const STATUS_BYTES: usize = 16 << 10;
/// Signals that a stopped yod has to see, as a set with bit `signo - 1`: those that end a job.
const URGENT: u64 = 1 << (libc::SIGHUP - 1)
    | 1 << (libc::SIGINT - 1)
    | 1 << (libc::SIGQUIT - 1)
    | 1 << (libc::SIGTERM - 1);
/// And one that has stopped with its ranks: that one of these has ended or was continued.
const OF_RANKS: u64 = 1 << (libc::SIGCHLD - 1);

/// What a yod must not stay stopped for.
#[derive(Debug)]
pub struct Guard {
    yod: Pid,
    /// /proc/PID/status, kept open: opening it costs more than reading.
    status: Option<File>,
    due: Option<Instant>,
    with_ranks: bool,
    /// It was, at the last look.
    stopped: bool,
    checked: Instant,
}

impl Guard {
    /// Of a yod that has said nothing yet, and whose time is over then.
    pub fn new(yod: Pid, due: Option<Instant>) -> Guard {
        Guard {
            yod,
            status: File::open(format!("/proc/{}/status", yod.as_raw_pid())).ok(),
            due,
            with_ranks: false,
            stopped: false,
            checked: Instant::now(),
        }
    }

    /// From now on guards a yod whose time is over in `left_ms`; `with_ranks`: it stops because they have.
    pub fn set(&mut self, left_ms: Option<u64>, with_ranks: bool) {
        self.due = left_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        self.with_ranks = with_ranks;
    }

    /// When the keeper has to be awake for it. `None`: whenever it is.
    pub fn timeout(&self, node_ended: bool) -> Option<Duration> {
        let next = if self.period(node_ended) == PERIOD {
            Some(self.checked + PERIOD)
        } else {
            self.due
        };
        next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// If it is time for a look, continues the yod if it must not stay stopped: its time is over, the node has ended, or an
    /// urgent signal waits. Its connection is open, so the process id is still its own.
    pub fn check(&mut self, node_ended: bool) {
        if self.checked.elapsed() < self.period(node_ended) {
            return;
        }
        self.checked = Instant::now();
        let mut bytes = [0; STATUS_BYTES];
        let status = self.status.as_ref();
        let read = status.and_then(|file| file.read_at(&mut bytes, 0).ok());
        let status = String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]);
        self.stopped = is_stopped(&status);
        let urgent = URGENT | if self.with_ranks { OF_RANKS } else { 0 };
        let must_go_on = node_ended || self.is_over() || pending(&status) & urgent != 0;
        if self.stopped && must_go_on {
            let _ = kill_process(self.yod, Signal::CONT);
        }
    }

    fn period(&self, node_ended: bool) -> Duration {
        if self.stopped || self.with_ranks || node_ended || self.is_over() {
            PERIOD
        } else {
            IDLE_PERIOD
        }
    }

    fn is_over(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() >= due)
    }
}

/// Whether a signal has stopped a process, from /proc/PID/status (proc(5)).
fn is_stopped(status: &str) -> bool {
    let mut lines = status.lines();
    lines.any(|line| line.starts_with("State:\tT"))
}

/// Signals that wait for a process or its thread, likewise.
fn pending(status: &str) -> u64 {
    let set = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .unwrap_or(0)
    };
    set("SigPnd:") | set("ShdPnd:")
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// What takes longer hangs.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A process that waits for its input, and is stopped.
    fn stopped() -> (Child, Pid) {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::null());
        let child = cat.spawn().expect("it starts");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).expect("it is there");
        await_stop(&child, true, || ());
        (child, pid)
    }

    fn await_stop(child: &Child, wanted: bool, mut work: impl FnMut()) {
        let file = format!("/proc/{}/status", child.id());
        let status = || std::fs::read_to_string(&file).expect("it is there");
        let end = Instant::now() + LIMIT;
        while is_stopped(&status()) != wanted {
            assert!(
                Instant::now() < end,
                "it is not stopped, or stays so: {wanted}"
            );
            work();
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_must_not_stay_stopped_is_continued() {
        let over = Some(Instant::now());
        for (due, node_ended) in [(over, false), (None, true)] {
            let (mut child, pid) = stopped();
            let mut guard = Guard::new(pid, due);
            await_stop(&child, false, || guard.check(node_ended));
            drop(child.stdin.take());
            child.wait().expect("it ends");
        }
    }

    #[test]
    fn pending_signals_are_read() {
        let status = "State:\tT (stopped)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n";
        assert_eq!(pending(status), 1 << (libc::SIGTERM - 1));
        assert_ne!(pending(status) & URGENT, 0);
        assert!(is_stopped(status));
        assert_eq!(pending(""), 0);
        assert!(!is_stopped("State:\tt (tracing stop)\n"));
    }
}
