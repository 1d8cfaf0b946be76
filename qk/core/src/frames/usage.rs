//! How much of a partition is in use. Each byte is used, retired or free.

use super::Frames;

impl Frames {
    /// Bytes free now.
    pub fn free_bytes(&self) -> u64 {
        self.unused_bytes() - self.retired_bytes
    }

    /// Bytes that are free now, or once what is retired is.
    pub fn unused_bytes(&self) -> u64 {
        self.end - self.base - self.used_bytes
    }

    /// Bytes allocated now; what is retired is not.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The most bytes that were allocated at once, ever or since [`Self::restart_peak`].
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Forgets what was allocated before.
    pub fn restart_peak(&mut self) {
        self.peak_bytes = self.used_bytes;
    }

    /// Bytes that are retired.
    pub fn retired_bytes(&self) -> u64 {
        self.retired_bytes
    }

    pub(super) fn count_alloc(&mut self, len_bytes: u64) {
        self.used_bytes += len_bytes;
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
    }
}
