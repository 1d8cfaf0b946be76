//! A shared reference per CPU, for what the kernel needs on its shortest paths.

use super::local::id;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use wire::boot::MAX_CPUS;

/// A `&'static T` or nothing for each CPU; each CPU sees and sets its own.
pub struct PerCpu<T: 'static>([AtomicPtr<T>; MAX_CPUS], PhantomData<&'static T>);

impl<T: Sync> PerCpu<T> {
    /// Nothing on any CPU.
    #[must_use]
    pub const fn new() -> Self {
        PerCpu(
            [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CPUS],
            PhantomData,
        )
    }

    /// Sets this CPU's.
    pub fn set(&self, to: Option<&'static T>) {
        let pointer = to.map_or(ptr::null_mut(), |to| ptr::from_ref(to).cast_mut());
        self.0[id()].store(pointer, Ordering::Release);
    }

    /// This CPU's.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: 1. `id` is the index of a running CPU, and start_aps refuses more than MAX_CPUS.
        //         2. Only null and `&'static T` are ever stored, and T may be shared between CPUs.
        unsafe { self.0.get_unchecked(id()).load(Ordering::Relaxed).as_ref() }
    }
}

impl<T: Sync> PerCpu<T> {
    /// CPU `cpu`'s, as it was a moment ago.
    ///
    /// # Panics
    /// When the tables have no room for such a CPU.
    #[must_use]
    pub fn of(&self, cpu: usize) -> Option<&'static T> {
        // SAFETY: 1. Only null and `&'static T` are ever stored. 2. T may be shared between CPUs.
        unsafe { self.0[cpu].load(Ordering::Acquire).as_ref() }
    }
}

impl<T: Sync> Default for PerCpu<T> {
    fn default() -> Self {
        Self::new()
    }
}
