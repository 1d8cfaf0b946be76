//! Physical memory as boot reads it.
//!
//! BOUND: at boot only.

use crate::addr::Phys;

/// Physical memory as tables are read from it.
pub trait Memory {
    /// Fills `to` from `at`; false when that is not possible.
    fn read(&self, at: Phys, to: &mut [u8]) -> bool;
}

/// The little-endian number in `bytes`, eight at most.
pub(super) fn le(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// The little-endian number of `N` bytes at `offset` from `at`.
pub(super) fn number<const N: usize>(memory: &impl Memory, at: Phys, offset: u64) -> Option<u64> {
    let mut bytes = [0u8; N];
    let at = Phys(at.0.checked_add(offset)?);
    memory.read(at, &mut bytes).then(|| le(&bytes))
}
