//! The atomics, or what stands for them under loom (`--cfg loom`).

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

/// Between an access and one that must not come before it. Both are sequentially consistent, which is enough; loom takes
/// them for acquire and release accesses only, but models the fence.
#[inline]
pub fn order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
