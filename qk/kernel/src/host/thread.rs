//! A thread's end of the port: its ship slot, its worker on the host, and what its proxy is to know of it.

use core::sync::atomic::AtomicUsize;

use hal::sync::{Mutex, class};
use wire::ship::{Caller, Slot};
use wire::thread::ThreadArea;

use super::area;

/// A thread's end of the port.
pub struct ThreadPort {
    area: &'static ThreadArea,
    /// Its end of its ship slot.
    pub(super) caller: Mutex<Caller, class::Caller>,
    /// Its place among the waiters of a core for an answer, if it is one.
    pub(super) waits_at: AtomicUsize,
}

impl ThreadPort {
    /// That of thread `index` of rank `rank`.
    pub fn new(rank: usize, index: usize) -> ThreadPort {
        ThreadPort {
            area: &area::get().threads(rank)[index],
            caller: Mutex::new(Caller::default()),
            waits_at: AtomicUsize::new(0),
        }
    }

    pub(super) fn slot(&self) -> &'static Slot {
        &self.area.slot
    }

    /// What the host said besides the result of the last request.
    pub fn more(&self) -> [u64; 2] {
        self.slot().more()
    }

    /// The position of the region log that its last request named.
    pub fn posted_position(&self) -> u64 {
        self.slot().posted_position()
    }

    /// The core that is rung for answers from now on.
    pub fn set_core(&self, core: usize) {
        self.area.node.core.put(core as u64);
    }

    /// The id of its worker, which is the thread's; 0: there is none yet.
    pub fn worker_tid(&self) -> u64 {
        self.area.host.tid.load()
    }

    /// The thread starts, created by thread `creator`.
    pub fn starts(&self, creator: usize) {
        self.area.node.starts(creator);
    }

    /// It has ended and makes no more calls.
    pub fn ends(&self) {
        self.area.node.ends();
    }

    /// It takes the signals `set`, of those that Linux sends for use of a terminal from the background.
    #[inline]
    pub fn publish_takes(&self, set: u64) {
        self.area.node.put_takes(set);
    }
}
