//! What peers have windows on.

use core::sync::atomic::{AtomicU64, Ordering};

use hal::addr::Phys;

/// What peers have windows on.
#[derive(Default)]
pub struct Root {
    /// The root table of a rank, for as long as it has windows; else 0.
    table: AtomicU64,
    /// How often memory was taken away, or rights.
    removals: AtomicU64,
}

impl Root {
    /// The root table that peers have windows on from now on; `None`: they have none any more.
    pub fn show(&self, root: Option<Phys>) {
        self.table
            .store(root.map_or(0, |root| root.0), Ordering::Release);
    }

    /// The root table, for as long as peers have windows on it.
    #[inline]
    pub fn shown(&self) -> Option<Phys> {
        Some(Phys(self.table.load(Ordering::Acquire))).filter(|root| root.0 != 0)
    }

    /// How often memory was taken away, or rights.
    #[inline]
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Page table entries have gone or lost rights. The caller holds the address space.
    #[inline]
    pub fn removed(&self) {
        let before = self.removals.load(Ordering::Relaxed);
        self.removals.store(before + 1, Ordering::Release);
    }
}
