//! How signals are received for the rank, and the watcher woken that does so.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::signal::{NEVER_LEFT, Signal};

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
    /// Signals that are left to descriptors of the rank; changed with `takers` locked.
    left: AtomicU64,
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
            left: AtomicU64::new(0),
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
        signals::mask(How::Block, after);
        self.receive(&takers);
        signals::mask(How::Set, after);
    }

    fn receive(&self, takers: &Takers) {
        let left = self.left.load(Ordering::Relaxed);
        self.signalfds
            .receive(takers.received(self.blocked) & !left);
    }

    /// Leaves these signals, and no others, to descriptors of the rank.
    pub fn leave(&self, left: u64) {
        let takers = lock(&self.takers);
        self.left.store(left & !NEVER_LEFT, Ordering::Relaxed);
        self.receive(&takers);
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
