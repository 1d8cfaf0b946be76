//! Which of the rank's descriptors are of some kind.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which of the rank's descriptors are of some kind.
#[derive(Debug)]
pub struct Marks(Box<[AtomicU64]>);

impl Marks {
    /// None of `count` descriptors.
    #[must_use]
    pub fn new(count: u64) -> Marks {
        Marks((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks one.
    pub fn set(&self, fd: u64) {
        if let Some(word) = self.0.get((fd / 64) as usize) {
            word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
        }
    }

    /// Whether a descriptor is, or was, one.
    pub fn has(&self, fd: u64) -> bool {
        let word = self.0.get((fd as u32 / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 != 0)
    }
}
