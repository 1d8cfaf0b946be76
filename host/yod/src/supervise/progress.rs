//! The state of the loop of [`super::Supervisor`].

use std::time::{Duration, Instant};

use super::UNREAD;
use crate::failure::Failure;
use crate::verdict::Verdict;

/// A signal that ends programs was sent to the job.
pub struct EndRequest {
    pub signo: i32,
    pub at: Instant,
    /// Since when a rank cannot take it, or cannot end.
    pub stuck: Option<Instant>,
}

/// What has happened to the job so far.
pub struct State {
    pub up: bool,
    /// The node is gone, which does not affect ranks that have ended on it.
    pub node_gone: bool,
    pub boot_due: Instant,
    pub timeout_due: Option<Instant>,
    /// What the keeper was notified of last: whether the job ends.
    pub guarded: Option<bool>,
    pub verdict: Verdict,
    pub others: Vec<usize>,
    pub interrupted: bool,
    pub failure: Option<Failure>,
    pub end_request: Option<EndRequest>,
    /// Nothing waits for the rest of the output any more.
    pub abandoned: bool,
    /// The appendix is among the output.
    pub appended: bool,
    /// Once the ranks have ended: bytes of output that were written, and since when there are no more.
    pub written: Option<(u64, Instant)>,
}

impl State {
    /// Of a job whose ranks are just started.
    pub fn new(now: Instant, boot_limit: Duration, timeout: Option<Duration>) -> State {
        State {
            up: false,
            node_gone: false,
            boot_due: now + boot_limit,
            timeout_due: timeout.map(|timeout| now + timeout),
            guarded: None,
            verdict: Verdict::default(),
            others: Vec::new(),
            interrupted: false,
            failure: None,
            end_request: None,
            abandoned: false,
            appended: false,
            written: None,
        }
    }

    /// Until the time limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.timeout_due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// The job is to end, whether its output is read or not.
    pub fn is_ending(&self) -> bool {
        self.failure.is_some() || self.end_request.is_some()
    }

    /// Nothing has taken any of the output for so long that it is given up.
    pub fn unread(&self) -> bool {
        self.written
            .is_some_and(|(_, since)| since.elapsed() >= UNREAD)
    }
}
