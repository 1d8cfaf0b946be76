//! How signals are received for the rank, and the watcher woken that does so.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use wire::signal::Signal;

use super::stops::Stops;
use crate::signalfds::Signalfds;
use crate::signals::inherited::Inherited;
use crate::signals::{self, How};
use crate::sync::lock;
use crate::terminal::takers::Takers;

/// What is received, and how.
#[derive(Debug)]
pub struct Reception {
    inherited: Inherited,
    blocked: u64,
    signalfds: Signalfds,
    takers: Mutex<Takers>,
    stops: Stops,
    watcher_doorbell: OwnedFd,
}

impl Reception {
    /// Workers block the signals of a set, which are received by descriptors.
    pub fn new(
        inherited: Inherited,
        blocked: u64,
        signalfds: Signalfds,
        watcher_doorbell: OwnedFd,
    ) -> Reception {
        Reception {
            inherited,
            blocked,
            signalfds,
            takers: Mutex::default(),
            stops: Stops::default(),
            watcher_doorbell,
        }
    }

    /// Mask and dispositions at start.
    pub fn inherited(&self) -> &Inherited {
        &self.inherited
    }

    /// Signals that workers block at first.
    pub fn blocked(&self) -> u64 {
        self.blocked
    }

    /// Stops and continues.
    pub fn stops(&self) -> &Stops {
        &self.stops
    }

    /// The next signal; a real-time one only if the node has a place for it.
    pub fn read(&self, has_place: bool) -> Option<Signal> {
        self.signalfds.read(has_place)
    }

    /// Whether a real-time signal waits to be read.
    pub fn real_time_waits(&self) -> bool {
        self.signalfds.real_time_waits()
    }

    /// The calling worker, which blocks one set, blocks another from now on: so it may be decided anew who receives the signals of
    /// job control. What is pending meanwhile is there for the thread that is to take it afterwards.
    pub fn block(&self, before: u64, after: u64) {
        let mut takers = lock(&self.takers);
        takers.change(before, after);
        let received = takers.received(self.blocked);
        signals::mask(How::Block, after);
        self.signalfds.receive(received);
        signals::mask(How::Set, after);
    }

    /// What wakes the watcher.
    pub fn watcher_doorbell(&self) -> &OwnedFd {
        &self.watcher_doorbell
    }

    /// Wakes the watcher.
    pub fn wake_watcher(&self) {
        let _ = rustix::io::write(&self.watcher_doorbell, &1u64.to_ne_bytes());
    }
}
