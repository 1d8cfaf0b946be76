//! Where a task is, as one atomic word, and how one core wakes another that halts.
//!
//! One word instead of a lock: an unpark is one atomic operation, whichever core it comes from. Every unpark writes the word,
//! also where it changes nothing, so that whatever the unparker wrote before is seen by the task once it runs.
//!
//! A core with nothing to run halts, in its idle context or right in a task that parks. It announces the halt
//! ([`HaltFlag::announce`]), looks at its queue and at its task's token once more, and halts; an interrupt that comes after
//! the look ends the halt at once. An unparker changes the word (and the queue) and then reads [`HaltFlag::is_set`]: in the
//! one order of all these accesses, either the core's look sees the token, or the unparker sees the flag and interrupts.
//! An unparker that finds a token need not read it: the one that left the token does.

use core::sync::atomic::Ordering::SeqCst;

use crate::sync::{AtomicBool, AtomicU8, order};

/// Waits to be unparked, its context complete.
const PARKED: u8 = 0;
/// In a run queue. It parked before: when it runs it looks at what it waits for, so it needs no token.
const QUEUED: u8 = 1;
/// In a run queue in the middle of something, after it yielded or was preempted.
const YIELDED: u8 = 2;
/// The same, and it was unparked since: it may just have been about to park.
const YIELDED_WOKEN: u8 = 3;
/// On its core: running, or halted while it waits.
const RUNNING: u8 = 4;
/// The same, and it was unparked since: the token.
const RUNNING_WOKEN: u8 = 5;
/// Ended.
const GONE: u8 = 6;

/// What an unparker has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unparked {
    /// Put the task into a run queue, now, and wake that core if it halts.
    Queue,
    /// The task runs or halts on its core and has a token now: wake that core if it halts.
    OnCore,
    /// Nothing: it is queued already, another unparker left a token and wakes the core, or the task is gone.
    Nothing,
}

/// Where one task is.
#[derive(Debug)]
pub struct Parking(AtomicU8);

impl Parking {
    /// A parked task.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Parking {
        Parking(AtomicU8::new(PARKED))
    }

    /// A parked task.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Parking {
        Parking(AtomicU8::new(PARKED))
    }

    /// The place of a task that has not begun: as of one that is gone.
    #[must_use]
    pub fn vacant() -> Parking {
        Parking(AtomicU8::new(GONE))
    }

    /// Makes a parked task runnable, or lets the next park of one that is not parked return at once. From any core.
    #[must_use = "the task may have to be queued, or its core woken"]
    pub fn unpark(&self) -> Unparked {
        let old = self.change(|state| match state {
            PARKED | QUEUED => QUEUED,
            YIELDED | YIELDED_WOKEN => YIELDED_WOKEN,
            RUNNING | RUNNING_WOKEN => RUNNING_WOKEN,
            other => other,
        });
        match old {
            PARKED => Unparked::Queue,
            RUNNING => Unparked::OnCore,
            _ => Unparked::Nothing,
        }
    }

    /// A core took the task from its queue and is about to switch to it.
    ///
    /// # Panics
    /// When it was not queued.
    pub fn run(&self) {
        let old = self.change(|state| match state {
            QUEUED | YIELDED => RUNNING,
            YIELDED_WOKEN => RUNNING_WOKEN,
            other => other,
        });
        assert!(
            matches!(old, QUEUED | YIELDED | YIELDED_WOKEN),
            "a task runs that was not queued (state {old})"
        );
    }

    /// Takes the token, if an unpark left one. By the task itself, on its core.
    #[must_use = "without the token the task parks"]
    pub fn take_token(&self) -> bool {
        self.0
            .compare_exchange(RUNNING_WOKEN, RUNNING, SeqCst, SeqCst)
            .is_ok()
    }

    /// Whether the running task has a token.
    pub fn has_token(&self) -> bool {
        self.0.load(SeqCst) == RUNNING_WOKEN
    }

    /// The task's core has left it and its context is complete. `runnable`: it yielded or was preempted, and goes on later
    /// (with its token, if it has one); else it parked, which a token ends. True: the caller queues it.
    ///
    /// A task that is gone stays so.
    ///
    /// # Panics
    /// When it did not run.
    #[must_use = "the task may have to be queued"]
    pub fn left(&self, runnable: bool) -> bool {
        let old = self.change(|state| match (state, runnable) {
            (RUNNING, true) => YIELDED,
            (RUNNING_WOKEN, true) => YIELDED_WOKEN,
            (RUNNING, false) => PARKED,
            (RUNNING_WOKEN, false) => QUEUED,
            (other, _) => other,
        });
        match old {
            RUNNING => runnable,
            RUNNING_WOKEN => true,
            GONE => false,
            _ => panic!("a core leaves a task that it did not run (state {old})"),
        }
    }

    /// The task ended: unparks do nothing any more. By the task itself or, once its core left it, in place of
    /// [`Parking::left`].
    ///
    /// # Panics
    /// When it did not run.
    pub fn gone(&self) {
        let old = self.0.swap(GONE, SeqCst);
        assert!(
            matches!(old, RUNNING | RUNNING_WOKEN),
            "a task ended that did not run (state {old})"
        );
    }

    /// Whether the task is gone: its core has left it.
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        self.0.load(SeqCst) == GONE
    }

    /// The place of a task that is gone, whose core has left it, becomes that of another: parked, its context complete.
    /// An unpark that was meant for the former task may make it runnable.
    ///
    /// # Panics
    /// When the former task is not gone.
    pub fn reuse(&self) {
        let old = self.0.swap(PARKED, SeqCst);
        assert_eq!(old, GONE, "a task's place is used again");
    }

    /// Changes the state as `next` says; the old one. Writes even what stays the same.
    fn change(&self, mut next: impl FnMut(u8) -> u8) -> u8 {
        let mut old = self.0.load(SeqCst);
        // BOUND: again only when another core has changed it.
        loop {
            match self.0.compare_exchange(old, next(old), SeqCst, SeqCst) {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }
}

impl Default for Parking {
    fn default() -> Parking {
        Parking::new()
    }
}

/// Whether a core halts, or is about to.
#[derive(Debug)]
pub struct HaltFlag(AtomicBool);

impl HaltFlag {
    /// Of a core that runs.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> HaltFlag {
        HaltFlag(AtomicBool::new(false))
    }

    /// Of a core that runs.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> HaltFlag {
        HaltFlag(AtomicBool::new(false))
    }

    /// This core is about to halt. It must look at its queue and its task's token after this, and halt only if there is
    /// nothing, with interrupts off from the look to the halt.
    pub fn announce(&self) {
        self.0.store(true, SeqCst);
        order();
    }

    /// This core goes on.
    pub fn withdraw(&self) {
        self.0.store(false, SeqCst);
    }

    /// Whether the core must be interrupted to see what this one did before.
    #[must_use]
    pub fn is_set(&self) -> bool {
        order();
        self.0.load(SeqCst)
    }
}

impl Default for HaltFlag {
    fn default() -> HaltFlag {
        HaltFlag::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_parked_task_is_queued_once_and_runs() {
        let task = Parking::new();
        assert_eq!(task.unpark(), Unparked::Queue);
        assert_eq!(task.unpark(), Unparked::Nothing);
        task.run();
        assert!(!task.has_token() && !task.take_token());
        assert!(!task.left(false), "parked");
        assert_eq!(task.unpark(), Unparked::Queue);
    }

    #[test]
    fn a_token_ends_the_next_park() {
        let task = running();
        assert_eq!(task.unpark(), Unparked::OnCore);
        assert_eq!(task.unpark(), Unparked::Nothing);
        assert!(task.has_token() && task.take_token() && !task.take_token());
        assert_eq!(task.unpark(), Unparked::OnCore);
        assert!(task.left(false), "it came before its core had left it");
        task.run();
        assert!(!task.has_token(), "spent on that park");
    }

    /// A task that is preempted between its look and its park must not lose the unpark that comes while it is queued.
    #[test]
    fn an_unpark_of_a_preempted_task_is_kept() {
        for before in [false, true] {
            let task = running();
            if before {
                assert_eq!(task.unpark(), Unparked::OnCore);
            }
            assert!(task.left(true));
            if !before {
                assert_eq!(task.unpark(), Unparked::Nothing);
            }
            task.run();
            assert!(task.take_token());
        }
        let task = running();
        assert!(task.left(true));
        task.run();
        assert!(!task.take_token(), "yielding leaves no token");
    }

    #[test]
    fn a_task_that_is_gone_is_not_woken_and_its_place_is_used_again() {
        let task = running();
        task.gone();
        assert_eq!(task.unpark(), Unparked::Nothing);
        assert!(!task.left(false) && !task.left(true));
        task.reuse();
        assert_eq!(task.unpark(), Unparked::Queue);
    }

    #[test]
    #[should_panic(expected = "not queued")]
    fn a_parked_task_cannot_run() {
        Parking::new().run();
    }

    #[test]
    #[should_panic(expected = "did not run")]
    fn a_queued_task_cannot_be_left() {
        let task = Parking::new();
        assert_eq!(task.unpark(), Unparked::Queue);
        let _ = task.left(true);
    }

    fn running() -> Parking {
        let task = Parking::new();
        assert_eq!(task.unpark(), Unparked::Queue);
        task.run();
        task
    }
}
