//! Signals on their way to the node: its mailbox takes from one thread at a time.

use wire::signal::{FIRST_REAL_TIME, Mailbox, QUEUED, Signal};

/// What has been posted.
#[derive(Default, Debug)]
pub struct Posted {
    /// A signal that was read and found no room in the mailbox.
    held: Option<Signal>,
    /// Real-time signals so far.
    real_time: u64,
}

impl Posted {
    /// Whether the node, which has taken so many real-time signals, has a place for one more. What it says wrong costs its own
    /// rank signals.
    pub fn has_place(&self, taken: u64) -> bool {
        self.real_time.saturating_sub(taken) < QUEUED
    }

    /// Posts a signal, or keeps it for later; whether there was room.
    pub fn post(&mut self, mailbox: &Mailbox, signal: Signal) -> bool {
        if !mailbox.post(&signal) {
            self.held = Some(signal);
            return false;
        }
        self.real_time += u64::from(signal.signo >= FIRST_REAL_TIME);
        true
    }

    /// The signal that found no room, which is to be posted before others.
    pub fn take_held(&mut self) -> Option<Signal> {
        self.held.take()
    }

    /// Whether one found no room.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }
}
