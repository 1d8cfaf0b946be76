//! How a rank's memory is used, for those who have not locked its address space.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How a rank's memory is used.
#[derive(Default)]
pub struct MemoryUse {
    /// Pages of its mappings that show objects ([`crate::shared`]).
    object_pages: AtomicU64,
    /// Calls under way by which Linux may write to its memory.
    writers: AtomicU32,
}

impl MemoryUse {
    /// Whether the rank maps anything that ranks share.
    #[inline]
    pub fn maps_objects(&self) -> bool {
        self.object_pages.load(Ordering::Relaxed) != 0
    }

    /// It maps so many pages more of objects.
    pub fn add_object_pages(&self, pages: u64) {
        self.object_pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// It maps so many pages less of objects.
    pub fn remove_object_pages(&self, pages: u64) {
        self.object_pages.fetch_sub(pages, Ordering::Relaxed);
    }

    /// A call is under way by which Linux may write to its memory, until [`Self::end_writes`].
    pub fn begin_writes(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
    }

    /// That call is over.
    pub fn end_writes(&self) {
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there is such a call.
    #[inline]
    pub fn is_written(&self) -> bool {
        self.writers.load(Ordering::SeqCst) > 0
    }
}
