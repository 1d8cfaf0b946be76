//! The locks and the record of what a rank has its proxy do one at a time: making a child, replacing the program.

use hal::sync::{Mutex, class};
use qk_core::sched::CoreSet;

use crate::sleep_lock::{SleepGuard, SleepLock};

/// What is done one at a time.
pub struct Turns {
    /// Held while a child is made: there is one record for it.
    fork_lock: SleepLock<(), class::ForkLock>,
    /// Held while a program is found that is to replace this one: its proxy keeps one.
    execs: SleepLock<(), class::Execs>,
    /// The old program is gone, and the PCT loads the new one: where it goes on.
    reload: Mutex<Option<Reload>, class::Reload>,
}

/// Where a rank whose program was replaced goes on: the core, and those that its thread was allowed.
#[derive(Clone, Copy)]
pub struct Reload {
    /// The core that the thread ran on.
    pub core: usize,
    /// Where it may run.
    pub allowed: CoreSet,
}

impl Turns {
    /// Nothing is under way.
    pub(super) fn new() -> Turns {
        Turns {
            fork_lock: SleepLock::new(()),
            execs: SleepLock::new(()),
            reload: Mutex::new(None),
        }
    }

    /// Held while a child is made.
    pub fn lock_fork(&self) -> SleepGuard<'_, (), class::ForkLock> {
        self.fork_lock.lock()
    }

    /// Held while a program is found that is to replace this one.
    pub fn lock_execs(&self) -> SleepGuard<'_, (), class::Execs> {
        self.execs.lock()
    }

    /// The old program is gone: the PCT is to load the new one, which goes on as `reload` says.
    pub fn begin_reload(&self, reload: Reload) {
        *self.reload.lock() = Some(reload);
    }

    /// Whether the PCT is to load a new program in the place of another.
    pub fn is_reloading(&self) -> bool {
        self.reload.lock().is_some()
    }

    /// The new program is loaded, or cannot be: where it goes on, if it replaces another.
    pub fn end_reload(&self) -> Option<Reload> {
        self.reload.lock().take()
    }
}
