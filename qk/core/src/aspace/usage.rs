//! How much of its memory an address space uses.

use super::{Aspace, Machine, Usage};

impl<M: Machine> Aspace<M> {
    /// What is used of the partition.
    pub fn usage(&self) -> Usage {
        Usage {
            partition: self.frames.end() - self.frames.base(),
            used: self.frames.used_bytes(),
            peak: self.frames.peak_bytes(),
            locked: self.regions.locked_bytes(),
        }
    }

    /// Changes that failed because the partition was used up.
    pub fn shortages(&self) -> u64 {
        self.shortages
    }
}
