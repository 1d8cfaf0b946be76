//! Signals that wait outside of the node, where a program's descriptors find them (signalfd(2)).

use super::set::{SigSet, Signal};

/// Which signals of a process wait outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Those that some descriptor is for.
    received: SigSet,
    /// Those of them that wait outside now.
    now: SigSet,
}

impl Left {
    /// Descriptors are for these, too.
    pub fn receive(&mut self, set: SigSet) {
        self.received = self.received.union(set);
    }

    /// Those that descriptors are for.
    pub fn received(&self) -> SigSet {
        self.received
    }

    /// Those that wait outside.
    pub fn now(&self) -> SigSet {
        self.now
    }

    /// Those that may be left outside, but are not.
    pub fn kept(&self) -> SigSet {
        self.received.without(self.now)
    }

    /// Leaves some that descriptors are for.
    pub fn leave(&mut self, set: SigSet) {
        self.now = self.now.union(set.and(self.received));
    }

    /// None of these is left from now on.
    pub fn keep(&mut self, set: SigSet) {
        self.now = self.now.without(set);
    }

    /// Whether a signal is to wait outside.
    #[inline]
    pub(super) fn holds(&self, signal: Signal) -> bool {
        self.now.contains(signal)
    }
}
