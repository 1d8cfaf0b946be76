//! A lock whose holder may wait and be interrupted: a task that finds it taken parks, and gets it in order of arrival.
//!
//! For what a program changes in steps of unbounded number, such as its address space. Never taken by interrupt handlers.

use core::ops::{Deref, DerefMut};

use hal::sync::class::{self, Class};
use hal::sync::{Mutex, MutexGuard};
use qk_core::sched::fifo::{Fifo, Linked};

use crate::sched::{self, Task};

/// The lock around a `T`, of class `C`.
pub struct SleepLock<T, C: Class> {
    gate: Mutex<Gate, class::Gate>,
    /// Taken only by the holder of the gate, so it is never contended. Its class is the whole lock's.
    value: Mutex<T, C>,
}

#[derive(Default)]
struct Gate {
    held: bool,
    /// The waiters, in order of arrival. Without memory: the heap may be used up, and waiting cannot fail.
    waiters: Fifo<&'static Task>,
    /// The waiter that holds it now and has not noticed yet.
    given: Option<&'static Task>,
}

/// A task waits for one sleep lock at a time. Called under that lock's gate.
impl Linked for &'static Task {
    fn set_next(self, next: Self) {
        *self.behind.lock() = Some(next);
    }

    fn take_next(self) -> Option<Self> {
        self.behind.lock().take()
    }
}

/// Holds the lock.
pub struct SleepGuard<'a, T, C: Class> {
    /// `None` only while it is dropped.
    value: Option<MutexGuard<'a, T, C>>,
    gate: &'a Mutex<Gate, class::Gate>,
}

impl<T, C: Class> SleepLock<T, C> {
    /// An open lock.
    pub fn new(value: T) -> SleepLock<T, C> {
        SleepLock {
            gate: Mutex::new(Gate::default()),
            value: Mutex::new(value),
        }
    }

    /// Takes the lock, once it is free. The caller holds no spin lock, and is a task or alone.
    pub fn lock(&self) -> SleepGuard<'_, T, C> {
        if !self.enter() {
            self.wait();
        }
        SleepGuard {
            value: Some(self.value.lock()),
            gate: &self.gate,
        }
    }

    /// Closes the gate if it is open.
    #[inline]
    fn enter(&self) -> bool {
        !core::mem::replace(&mut self.gate.lock().held, true)
    }

    /// Queues the task in front of the gate, unless it is open by now, and waits until it is this task's.
    #[cold]
    fn wait(&self) {
        {
            let mut gate = self.gate.lock();
            if !core::mem::replace(&mut gate.held, true) {
                return;
            }
            gate.waiters.push(sched::current());
        }
        while !self.is_given() {
            sched::park();
        }
    }

    /// Whether the gate was left to this task.
    fn is_given(&self) -> bool {
        let mut gate = self.gate.lock();
        let is_mine = |task: &mut &Task| core::ptr::eq(*task, sched::current());
        gate.given.take_if(is_mine).is_some()
    }
}

impl<T, C: Class> Drop for SleepGuard<'_, T, C> {
    #[inline]
    fn drop(&mut self) {
        self.value = None;
        if !self.gate.lock().open() {
            pass_on(self.gate);
        }
    }
}

impl Gate {
    /// Opens the gate, unless a task waits.
    #[inline]
    fn open(&mut self) -> bool {
        self.held = !self.waiters.is_empty();
        !self.held
    }
}

/// Leaves the gate to the first waiter. Only the holder takes tasks out of the queue, so one still waits.
#[cold]
fn pass_on(gate: &Mutex<Gate, class::Gate>) {
    let next = {
        let mut gate = gate.lock();
        gate.given = gate.waiters.pop();
        gate.given
    };
    if let Some(task) = next {
        sched::unpark(task);
    }
}

const HELD: &str = "the guard holds the value until it is dropped";

impl<T, C: Class> Deref for SleepGuard<'_, T, C> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect(HELD)
    }
}

impl<T, C: Class> DerefMut for SleepGuard<'_, T, C> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect(HELD)
    }
}
