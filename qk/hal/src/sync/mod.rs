//! Spin locks and run-once cells.
//!
//! Interrupts are off in the kernel, so a holder is never preempted and a plain test-and-set lock suffices; sections are short and
//! contention rare (each core's data is its own). Tickets would add fairness at the price of a second atomic; revisit if a lock
//! ever shows up under contention.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Test-and-test-and-set lock for `lock_api`.
pub struct RawSpin(AtomicBool);

// SAFETY: 1. `try_lock` wins only by changing false to true, so there is one holder (mutual exclusion).
//         2. Acquire on success and Release in `unlock` order the protected accesses.
unsafe impl lock_api::RawMutex for RawSpin {
    #[allow(clippy::declare_interior_mutable_const)] // How lock_api takes the initial value.
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        // BOUND: as long as another CPU holds it, which lets no interrupts in meanwhile and has no loops but short ones.
        while !self.try_lock() {
            core::hint::cold_path();
            // BOUND: as above.
            while self.0.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
    }

    fn try_lock(&self) -> bool {
        self.0
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A spin lock around a `T`.
pub type Mutex<T> = lock_api::Mutex<RawSpin, T>;
/// What [`Mutex::lock`] returns.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawSpin, T>;

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
