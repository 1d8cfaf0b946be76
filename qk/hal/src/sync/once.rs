//! A cell that is written once.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

const EMPTY: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// A cell written at most once, then read by everyone without a lock.
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: 1. The value is written only by the caller that moved `state` from EMPTY to BUSY.
//         2. References are given out only after FULL was seen with Acquire, which the writer stored with Release.
//         3. The value crosses CPUs by move (T: Send) and is shared by reference (T: Sync).
unsafe impl<T: Send + Sync> Sync for Once<T> {}

impl<T> Once<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU8::new(EMPTY),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Fills the cell. Gives the value back when it was full (or being filled) already.
    ///
    /// # Errors
    /// The value, when another came first.
    pub fn set(&self, value: T) -> Result<(), T> {
        if self
            .state
            .compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return Err(value);
        }
        // SAFETY: 1. EMPTY -> BUSY happens once and we did it, so nothing else touches the value until FULL.
        unsafe { (*self.value.get()).write(value) };
        self.state.store(FULL, Ordering::Release);
        Ok(())
    }

    /// The value, once it has been set.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != FULL {
            return None;
        }
        // SAFETY: 1. FULL means initialised, and it is never written again.
        Some(unsafe { (*self.value.get()).assume_init_ref() })
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}
