//! A lock whose holder may wait and be interrupted: whoever finds it taken parks.
//!
//! For what a program changes in steps of unbounded number, such as its address space. Never taken by interrupt handlers.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use hal::sync::{Mutex, MutexGuard};

use crate::sched;

/// The lock around a `T`.
pub struct SleepLock<T> {
    gate: Mutex<Gate>,
    /// Taken only by who holds the gate, so it is never contended.
    value: Mutex<T>,
}

#[derive(Default)]
struct Gate {
    held: bool,
    /// Tasks that wait.
    waiters: Vec<usize>,
}

/// Holds the lock.
pub struct SleepGuard<'a, T> {
    /// `None` only while it is dropped.
    value: Option<MutexGuard<'a, T>>,
    gate: &'a Mutex<Gate>,
}

impl<T> SleepLock<T> {
    /// An open lock.
    pub fn new(value: T) -> SleepLock<T> {
        SleepLock {
            gate: Mutex::new(Gate::default()),
            value: Mutex::new(value),
        }
    }

    /// Takes the lock, once it is free. The caller holds no spin lock, and is a task or alone.
    pub fn lock(&self) -> SleepGuard<'_, T> {
        while !self.enter() {
            sched::park();
        }
        SleepGuard {
            value: Some(self.value.lock()),
            gate: &self.gate,
        }
    }

    /// Closes the gate, or queues the task in front of it.
    fn enter(&self) -> bool {
        let mut gate = self.gate.lock();
        if !core::mem::replace(&mut gate.held, true) {
            return true;
        }
        let task = sched::current();
        if !gate.waiters.contains(&task) {
            gate.waiters.push(task);
        }
        false
    }
}

impl<T> Drop for SleepGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        let waiters = {
            let mut gate = self.gate.lock();
            gate.held = false;
            core::mem::take(&mut gate.waiters)
        };
        waiters.into_iter().for_each(sched::unpark);
    }
}

const HELD: &str = "the guard holds the value until it is dropped";

impl<T> Deref for SleepGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect(HELD)
    }
}

impl<T> DerefMut for SleepGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect(HELD)
    }
}
