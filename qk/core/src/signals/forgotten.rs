//! Signals that all threads of a process forget at once: what is ignored from now on, stops when SIGCONT comes, and SIGCONT when
//! a stop does (POSIX, sigaction and "Signal Concepts").
//!
//! There may be a thousand threads, and it may be an interrupt that sends SIGCONT: so it is only noted, and each thread forgets
//! what it has to before something else is done with its signals.

use super::SigSet;

/// When which signals were forgotten.
pub struct Forgotten {
    /// How often that was.
    times: u64,
    /// Of each signal the last time.
    last: [u64; 64],
}

impl Forgotten {
    /// Never.
    pub const fn new() -> Forgotten {
        Forgotten {
            times: 0,
            last: [0; 64],
        }
    }

    /// All of `set` that wait now are forgotten.
    pub fn add(&mut self, set: SigSet) {
        if set.is_empty() {
            return;
        }
        self.times += 1;
        // BOUND: the signals.
        for signal in set.iter() {
            self.last[signal.index()] = self.times;
        }
    }

    /// How often it was so far.
    #[inline]
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Those of `set` that were forgotten after the first `times`.
    #[inline]
    pub fn since(&self, times: u64, set: SigSet) -> SigSet {
        if times == self.times {
            return SigSet::EMPTY;
        }
        self.later(times, set)
    }

    #[cold]
    #[inline(never)] // Out of the way of each look at what waits.
    fn later(&self, times: u64, set: SigSet) -> SigSet {
        let later = set
            .iter()
            .filter(|signal| self.last[signal.index()] > times);
        // BOUND: the signals.
        later.fold(SigSet::EMPTY, |set, signal| set.union(SigSet::of(signal)))
    }
}
