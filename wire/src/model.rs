//! What stands for the hardware's atomics under loom (`--cfg loom`), which tries the orders in which threads may see them.
//!
//! loom's atomics cannot lie in shared memory: they are larger than a word, and must be made before the threads that use
//! them. So a word keeps its size here, and only its address counts: [`share`] makes an atomic of loom for each word of
//! a structure.

extern crate std;

use core::cell::Cell;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use loom::sync::atomic;
use zerocopy::{FromBytes, KnownLayout};

const WORD_BYTES: usize = size_of::<AtomicU64>();

loom::lazy_static! {
    /// The words of the execution that loom tries just now, by their addresses.
    static ref WORDS: Mutex<BTreeMap<usize, Arc<atomic::AtomicU64>>> = Mutex::default();
}

loom::thread_local! {
    static FENCES_DROPPED: Cell<bool> = Cell::new(false);
}

/// Takes the place of `core`'s.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(transparent)]
pub struct AtomicU64(u64);

impl AtomicU64 {
    /// As `core`'s, for memory that is not shared.
    #[must_use]
    pub const fn new(value: u64) -> AtomicU64 {
        AtomicU64(value)
    }

    /// As `core`'s.
    pub fn load(&self, order: Ordering) -> u64 {
        self.word().load(order)
    }

    /// As `core`'s.
    pub fn store(&self, value: u64, order: Ordering) {
        self.word().store(value, order);
    }

    /// As `core`'s.
    pub fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.word().fetch_max(value, order)
    }

    fn word(&self) -> Arc<atomic::AtomicU64> {
        // The lock must be free again when loom switches threads, which it does in `load` and `store`.
        let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        words[&(&raw const *self as usize)].clone()
    }
}

/// Makes every word of `memory` known to loom, as zero. To be called where it will stay, before threads use it.
pub fn share<T>(memory: &T) {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = &raw const *memory as usize;
    for address in (start..start + size_of::<T>()).step_by(WORD_BYTES) {
        words.insert(address, Arc::new(atomic::AtomicU64::new(0)));
    }
}

/// From now on the calling thread's fences do nothing, as those of a guest whose CPUs QEMU runs on one thread.
pub fn drop_fences() {
    FENCES_DROPPED.with(|dropped| dropped.set(true));
}

/// Takes the place of `core`'s.
pub fn fence(order: Ordering) {
    if !FENCES_DROPPED.with(Cell::get) {
        atomic::fence(order);
    }
}
