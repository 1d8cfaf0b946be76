//! Continuing a yod that has stopped itself because its ranks have.
//!
//! A stopped process takes no signal but SIGKILL and SIGCONT, and its time limit passes unseen. Its keeper, in a session of
//! its own, is not stopped with it.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often signals that wait for a stopped yod are looked for.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Signals that a stopped yod has to see, as a set with bit `signo - 1`: those that end a job, and that of a rank that has
/// ended or was continued.
const URGENT: u64 = 1 << (libc::SIGCHLD - 1)
    | 1 << (libc::SIGHUP - 1)
    | 1 << (libc::SIGINT - 1)
    | 1 << (libc::SIGQUIT - 1)
    | 1 << (libc::SIGTERM - 1);

/// A yod that is stopped, or about to be.
#[derive(Debug)]
pub struct Guard {
    due: Option<Instant>,
}

impl Guard {
    /// Guards a yod whose time is over in `left_ms`.
    pub fn new(left_ms: Option<u64>) -> Guard {
        let due = left_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Guard { due }
    }

    /// Continues the yod if it must not stay stopped: its time is over, the node has ended, or an urgent signal waits. Its connection is open, so the process id is still its own.
    pub fn look_after(&self, yod: Pid, node_ended: bool) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", yod.as_raw_pid()));
        let over = node_ended || self.due.is_some_and(|due| Instant::now() >= due);
        if over || status.is_ok_and(|status| pending(&status) & URGENT != 0) {
            let _ = kill_process(yod, Signal::CONT);
        }
    }
}

/// Signals that wait for a process or its thread, from /proc/PID/status (proc(5)).
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
    use super::*;

    #[test]
    fn pending_signals_are_read() {
        let status = "State:\tT (stopped)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n";
        assert_eq!(pending(status), 1 << (libc::SIGTERM - 1));
        assert_ne!(pending(status) & URGENT, 0);
        assert_eq!(pending(""), 0);
    }
}
