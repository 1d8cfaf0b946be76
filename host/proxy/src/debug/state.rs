//! What the rest of the proxy needs of gdb.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::halt::Halted;
use crate::sync::lock;

/// Time that gdb gets to receive the rank's end.
const EXIT_NOTICE: Duration = Duration::from_secs(1);

/// What the rest of the proxy needs of gdb.
#[derive(Default, Debug)]
pub struct Debug {
    /// Its node was started for debugging: threads halt for breakpoints and signals, and step.
    pub is_full: AtomicBool,
    /// A thread serves a gdb, or waits for one.
    claimed: AtomicBool,
    /// The rank halts until gdb connects.
    awaited: AtomicBool,
    /// gdb is there.
    present: AtomicBool,
    /// How the rank has ended, as wait(2) says it; `None` again when gdb has been notified.
    end: Mutex<Option<i32>>,
    left: Condvar,
}

impl Debug {
    /// The calling thread is to serve a gdb; `false`: another does so already.
    pub fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }

    /// It does no more.
    pub fn release(&self) {
        self.claimed.store(false, Ordering::SeqCst);
    }

    /// Whether the rank halts for a gdb that is not there yet: signals then act on the proxy.
    pub fn waits_for_gdb(&self) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }

    /// The rank is to halt until gdb connects.
    pub fn wait_for_gdb(&self) {
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// gdb is there, and all threads have halted.
    pub fn connected(&self) {
        self.present.store(true, Ordering::SeqCst);
        self.awaited.store(false, Ordering::SeqCst);
    }

    /// The rank has ended: waits until gdb, if it is there, has been notified.
    pub fn ended(&self, halted: &Halted, status: i32) {
        if !self.present.load(Ordering::SeqCst) {
            return;
        }
        let mut end = lock(&self.end);
        *end = Some(status);
        halted.signal();
        let _ = self
            .left
            .wait_timeout_while(end, EXIT_NOTICE, |_| self.present.load(Ordering::SeqCst));
    }

    /// How the rank has ended.
    pub fn end(&self) -> Option<i32> {
        *lock(&self.end)
    }

    /// gdb has left, or was notified of the end.
    pub fn leave(&self) {
        let end = self.end.lock();
        self.present.store(false, Ordering::SeqCst);
        self.left.notify_all();
        drop(end);
    }
}
