//! Keeping a rank's threads out of ring 3 while a child gets a copy of its memory.

use core::sync::atomic::Ordering;

use abi::Errno;

use super::Rank;
use crate::shootdown;

/// See [`Rank::keep_still`].
pub struct Still(&'static Rank);

impl Drop for Still {
    fn drop(&mut self) {
        if self.0.is_copied.swap(false, Ordering::SeqCst) {
            self.0.call_threads();
        }
    }
}

impl Rank {
    /// Keeps its other threads out of ring 3 until the result is dropped: what a child gets of memory is of one moment.
    ///
    /// # Errors
    /// ESRCH without an address space.
    pub fn keep_still(&'static self) -> Result<Still, Errno> {
        let still = Still(self);
        if self.threads.live() > 1 {
            self.is_copied.store(true, Ordering::SeqCst);
            self.call_threads();
            self.with_aspace(|_| {
                shootdown::barrier(&self.shootdown);
                Ok(())
            })?;
        }
        Ok(still)
    }
}
