//! The spin lock, and what it records of its order.

use super::class::{Class, Rank};
use super::once::Once;
use super::order::Held;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether locks are recorded.
const CHECKED: bool = cfg!(debug_assertions);

/// Test-and-test-and-set lock for `lock_api`, of class `C`.
pub struct RawSpin<C>(Flag, PhantomData<fn() -> C>);

struct Flag(AtomicBool);

impl Flag {
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
}

// SAFETY: 1. `try_lock` wins only by changing false to true, so there is one holder (mutual exclusion).
//         2. Acquire on success and Release in `unlock` order the protected accesses.
unsafe impl<C: Class> lock_api::RawMutex for RawSpin<C> {
    #[allow(clippy::declare_interior_mutable_const)] // How lock_api takes the initial value.
    const INIT: Self = Self(Flag(AtomicBool::new(false)), PhantomData);
    type GuardMarker = lock_api::GuardNoSend;

    fn lock(&self) {
        self.note_taken();
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        let taken = self.0.try_lock();
        if taken {
            self.note_taken();
        }
        taken
    }

    unsafe fn unlock(&self) {
        if let Some(held) = here() {
            held.release(C::RANK, self.address());
        }
        self.0.0.store(false, Ordering::Release);
    }
}

impl<C: Class> RawSpin<C> {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn note_taken(&self) {
        if let Some(held) = here() {
            take(held, C::RANK, self.address());
        }
    }
}

/// A spin lock of class `C` around a `T`.
pub type Mutex<T, C> = lock_api::Mutex<RawSpin<C>, T>;
/// What [`Mutex::lock`] returns.
pub type MutexGuard<'a, T, C> = lock_api::MutexGuard<'a, RawSpin<C>, T>;

/// The locks that a CPU holds, or a context that does not run: one record where locks are recorded, else none.
pub(crate) struct Holds([Held; CHECKED as usize]);

impl Holds {
    pub(crate) const fn new() -> Holds {
        Holds([const { Held::new() }; _])
    }

    fn held(&self) -> Option<&Held> {
        self.0.first()
    }
}

/// Says where a CPU has the record of what it holds: the CPU's own, whatever CPU it is.
static HERE: Once<fn() -> &'static Holds> = Once::new();
/// A panic is in progress, which takes locks as it needs them.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// From now on locks are recorded.
pub(crate) fn check_order(here: fn() -> &'static Holds) {
    if CHECKED {
        assert!(HERE.set(here).is_ok(), "locks are recorded already");
    }
}

/// From now on they are not.
pub(crate) fn end_order() {
    IS_OVER.store(true, Ordering::Relaxed);
}

/// What this CPU holds, where it is recorded.
#[inline(always)] // Nothing, mostly.
fn here() -> Option<&'static Held> {
    if !CHECKED || IS_OVER.load(Ordering::Relaxed) {
        return None;
    }
    HERE.get().and_then(|here| here().held())
}

/// Panics when this CPU holds a lock under which this one may not be taken.
fn take(here: &Held, class: Rank, address: usize) {
    if let Err(held) = here.take(class, address) {
        out_of_order(class, held.0);
    }
}

/// A lock of this class may have to be taken here, though mostly it is not.
///
/// # Panics
/// With debug assertions, when this CPU holds one under which it may not be taken.
#[inline(always)] // Nothing, mostly.
pub fn may_take<C: Class>() {
    if let Some(held) = here()
        && let Err(held) = held.may_take(C::RANK, 0)
    {
        out_of_order(C::RANK, held.0);
    }
}

#[cold]
fn out_of_order(class: Rank, held: Rank) -> ! {
    panic!("a lock of class {class:?} is taken under one of {held:?}");
}

/// This CPU is about to wait, or to let interrupts in.
///
/// # Panics
/// With debug assertions, when it holds a spin lock.
pub(crate) fn may_wait() {
    if let Some(held) = here() {
        let spin = held.spin();
        assert!(spin.is_none(), "waits under a lock of class {spin:?}");
    }
}

/// This CPU leaves a context for another: each keeps its locks.
pub(crate) fn change_context(from: &Holds, to: &Holds) {
    may_wait();
    if let (Some(here), Some(from), Some(to)) = (here(), from.held(), to.held()) {
        from.copy(here);
        here.copy(to);
    }
}
