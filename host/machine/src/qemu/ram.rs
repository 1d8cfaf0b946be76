//! How guest RAM lies in its memfd.
//!
//! ```text
//! guest physical        0 ......... low_bytes      4 GiB ......... 4 GiB + high
//! offset in the memfd   0 ......... low_bytes, low_bytes ......... bytes
//! ```
//!
//! QEMU's q35 machine leaves a hole for devices below 4 GiB (hw/i386/pc_q35.c): RAM of less than 0xb000_0000 bytes lies
//! below it as a whole; of more, 2 GiB lie below and the rest from 4 GiB on.

use serde::{Deserialize, Serialize};

/// RAM of fewer bytes lies below 4 GiB as a whole.
pub const SPLIT_BYTES: u64 = 0xb000_0000;
/// Bytes below 4 GiB when RAM is split.
pub const LOW_BYTES: u64 = 0x8000_0000;
/// Guest-physical address of the part above the hole.
const HIGH_BASE: u64 = 1 << 32;

/// Guest RAM of a q35 machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ram {
    /// All of it.
    pub bytes: u64,
    /// What lies below 4 GiB.
    pub low_bytes: u64,
}

impl Ram {
    /// RAM of `bytes` as q35 lays it out.
    #[must_use]
    pub const fn new(bytes: u64) -> Ram {
        let low_bytes = if bytes < SPLIT_BYTES {
            bytes
        } else {
            LOW_BYTES
        };
        Ram { bytes, low_bytes }
    }

    /// Offset in the memfd of `len_bytes` of guest-physical memory at `gpa`; `None` when not all of that is RAM, or when
    /// it is not in one piece.
    #[must_use]
    pub const fn offset(&self, gpa: u64, len_bytes: u64) -> Option<u64> {
        let Some(end) = gpa.checked_add(len_bytes) else {
            return None;
        };
        if end <= self.low_bytes {
            Some(gpa)
        } else if gpa >= HIGH_BASE && end - HIGH_BASE <= self.bytes - self.low_bytes {
            Some(gpa - HIGH_BASE + self.low_bytes)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn little_ram_lies_low() {
        let ram = Ram::new(64 << 20);
        assert_eq!(ram.low_bytes, 64 << 20);
        assert_eq!(ram.offset(0x10_0000, 4096), Some(0x10_0000));
        assert_eq!(ram.offset((64 << 20) - 1, 1), Some((64 << 20) - 1));
        assert_eq!(ram.offset((64 << 20) - 1, 2), None);
        assert_eq!(ram.offset(HIGH_BASE, 1), None);
    }

    #[test]
    fn much_ram_is_split_at_two_gib() {
        assert_eq!(Ram::new(SPLIT_BYTES - 1).low_bytes, SPLIT_BYTES - 1);
        let ram = Ram::new(SPLIT_BYTES);
        assert_eq!(ram.low_bytes, LOW_BYTES);
        assert_eq!(ram.offset(LOW_BYTES - 1, 2), None, "not in one piece");
        assert_eq!(ram.offset(LOW_BYTES, 1), None, "in the hole");
        assert_eq!(ram.offset(HIGH_BASE, 1), Some(LOW_BYTES));
        let high = SPLIT_BYTES - LOW_BYTES;
        assert_eq!(ram.offset(HIGH_BASE + high - 1, 1), Some(SPLIT_BYTES - 1));
        assert_eq!(ram.offset(HIGH_BASE + high, 1), None);
        assert_eq!(ram.offset(u64::MAX, 2), None);
    }

    proptest! {
        /// No two addresses share an offset, and every offset is inside the file.
        #[test]
        fn offsets_are_distinct_and_inside(bytes in 1u64..1 << 40, a: u64, b: u64) {
            let ram = Ram::new(bytes);
            let place = |x: u64| if x & 1 == 0 { x % ram.low_bytes } else { HIGH_BASE + x % (1 << 40) };
            let (a, b) = (place(a), place(b));
            if let Some(offset) = ram.offset(a, 1) {
                prop_assert!(offset < bytes);
                prop_assert!(a == b || ram.offset(b, 1) != Some(offset));
            }
        }
    }
}
