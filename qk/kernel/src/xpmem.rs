//! What a rank has to do with XPMEM: what it offers, and what it may attach. The requests are served in [`crate::syscall`].

use core::sync::atomic::{AtomicU64, Ordering};

use hal::sync::{Mutex, class};
use qk_core::xpmem::{Access, Numbered, Segment};

/// What a rank has to do with XPMEM; `O` is how it knows the owner of a segment.
pub struct Xpmem<O> {
    /// What it offers.
    pub segments: Mutex<Numbered<Segment>, class::Segments>,
    /// What it may attach.
    pub permits: Mutex<Numbered<Permit<O>>, class::Permits>,
    /// In the lower half a descriptor that is known to be the device, or [`NONE`]; in the upper how often one was closed.
    device: AtomicU64,
}

/// No descriptor.
const NONE: u64 = u32::MAX as u64;

/// A permit for a segment, which may be gone.
#[derive(Clone, Copy)]
pub struct Permit<O> {
    /// The rank that offers it.
    pub owner: O,
    /// The segment's number there.
    pub segment: u32,
    /// What was asked for.
    pub access: Access,
}

impl<O> Xpmem<O> {
    /// Of a rank that has not begun.
    pub fn new() -> Xpmem<O> {
        Xpmem {
            segments: Mutex::new(Numbered::default()),
            permits: Mutex::new(Numbered::default()),
            device: AtomicU64::new(NONE),
        }
    }

    /// The program is over: takes back what it offered, and what it got.
    pub fn program_ends(&self) {
        self.segments.lock().clear();
        self.permits.lock().clear();
        self.forget_device();
    }

    /// Whether a descriptor is known to be the device.
    pub fn is_device(&self, fd: u64) -> bool {
        fd as u32 as u64 == self.device.load(Ordering::Acquire) & NONE && fd as u32 as u64 != NONE
    }

    /// Descriptors have been closed: it may have been one.
    pub fn forget_device(&self) {
        let closed = |word: u64| Some((word | NONE).wrapping_add(1) | NONE);
        let _ = self
            .device
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, closed);
    }

    /// How things are with descriptors: for [`Self::note_device`].
    pub fn devices(&self) -> u64 {
        self.device.load(Ordering::Acquire)
    }

    /// `fd` is the device, unless one has been closed since `before`.
    pub fn note_device(&self, fd: u64, before: u64) {
        let known = before & !NONE | u64::from(fd as u32);
        let _ = self
            .device
            .compare_exchange(before, known, Ordering::AcqRel, Ordering::Relaxed);
    }
}
