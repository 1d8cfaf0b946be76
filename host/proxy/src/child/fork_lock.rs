//! The fork lock: keeps descriptors that are yet to be checked from children. Who opens something for the rank shares it, who forks
//! excludes the others.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// The lock. There is one per process.
#[derive(Debug, Default)]
pub struct ForkLock {
    openings: RwLock<()>,
    /// A thread waits to fork: openings that block are to be kicked.
    wanted: AtomicBool,
}

thread_local! {
    /// How often the thread shares the lock.
    static SHARES: Cell<u32> = const { Cell::new(0) };
}

/// No thread forks while this lives. Those of one thread end in the opposite order of their beginning.
#[derive(Debug)]
pub struct NoFork<'a> {
    _openings: Option<RwLockReadGuard<'a, ()>>,
}

impl ForkLock {
    /// Keeps others from forking for as long as the guard lives. A thread that does so already does not wait again: a lock
    /// with a waiting writer lets in no more readers, and would have the thread wait for itself.
    pub fn no_fork(&self) -> NoFork<'_> {
        let first = SHARES.replace(SHARES.get() + 1) == 0;
        let openings = first.then(|| self.openings.read().unwrap_or_else(PoisonError::into_inner));
        NoFork {
            _openings: openings,
        }
    }

    /// Whether a thread waits to fork.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Waits until nothing is being opened, for a fork; `kick` has openings that block interrupted.
    pub fn for_fork(&self, kick: impl FnOnce()) -> RwLockWriteGuard<'_, ()> {
        // As a rule nothing is, and waking the watcher costs a tenth of a fork.
        match self.openings.try_write() {
            Ok(closed) => return closed,
            Err(TryLockError::Poisoned(closed)) => return closed.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.wanted.store(true, Ordering::SeqCst);
        kick();
        let closed = self
            .openings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.wanted.store(false, Ordering::SeqCst);
        closed
    }
}

impl Drop for NoFork<'_> {
    fn drop(&mut self) {
        SHARES.set(SHARES.get() - 1);
    }
}
