//! What a program sets of a timer: its clock, what it does when it expires, and when that is.

use crate::signals::Signal;

/// A clock that timers count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_REALTIME.
    Real,
    /// Processor time of the process.
    Process,
    /// Processor time of the thread with this number.
    Thread(usize),
    /// That of a thread which has ended.
    Ended,
}

impl Clock {
    /// Whether it counts processor time, and stands still while nothing runs.
    #[must_use]
    pub const fn is_cpu(self) -> bool {
        !matches!(self, Clock::Monotonic | Clock::Real)
    }

    /// What a time is measured on: setting the clock does not change how long "in an hour" is.
    pub(super) const fn measures(self, absolute: bool) -> Clock {
        match self {
            Clock::Real if !absolute => Clock::Monotonic,
            clock => clock,
        }
    }
}

/// The target of a timer's signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Nothing: the timer is only read (SIGEV_NONE), or its thread has ended.
    None,
    /// The process.
    Process,
    /// The thread with this number.
    Thread(usize),
}

/// What timer_create sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The clock.
    pub clock: Clock,
    /// The target of the signal.
    pub notify: Notify,
    /// Which signal.
    pub signal: Signal,
    /// si_value; `None`: the timer's id.
    pub value: Option<u64>,
}

/// What timer_settime sets, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// When it expires, from now on or as the clock shows it; 0: never.
    pub value_ns: u64,
    /// From expiration to expiration; 0: it expires once.
    pub period_ns: u64,
    /// TIMER_ABSTIME.
    pub absolute: bool,
}
