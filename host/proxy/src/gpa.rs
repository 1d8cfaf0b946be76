//! Guest-physical addresses and offsets into the RAM file.
//!
//! The machine puts RAM below its hole for devices and the rest above 4 GiB; the file has no hole.

/// First address above the hole.
const HIGH: u64 = 4 << 30;

/// Layout of guest RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ram {
    /// Bytes of RAM, and of its files together.
    pub bytes: u64,
    /// Bytes below the hole; all of RAM when there is none above 4 GiB.
    pub lowmem_bytes: u64,
    /// Bytes at its end that are in a file of their own, with the node pool.
    pub pool_bytes: u64,
}

/// A file of RAM, and the offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// All but the end.
    Ram(u64),
    /// The end, with the node pool.
    Pool(u64),
}

impl Ram {
    /// Offset in the file of `gpa .. gpa + len_bytes`; `None` unless all of it is RAM on one side of the hole.
    #[must_use]
    pub fn offset(&self, gpa: u64, len_bytes: u64) -> Option<u64> {
        let end = gpa.checked_add(len_bytes)?;
        let low = self.lowmem_bytes.min(self.bytes);
        if end <= low {
            return Some(gpa);
        }
        let offset = gpa.checked_sub(HIGH)?.checked_add(low)?;
        (offset.checked_add(len_bytes)? <= self.bytes).then_some(offset)
    }

    /// Which of RAM's files has all of `gpa .. gpa + len_bytes`, and where in it.
    #[must_use]
    pub fn place(&self, gpa: u64, len_bytes: u64) -> Option<Place> {
        let offset = self.offset(gpa, len_bytes)?;
        let first_bytes = self.bytes.saturating_sub(self.pool_bytes);
        match offset.checked_sub(first_bytes) {
            Some(offset) if self.pool_bytes > 0 => Some(Place::Pool(offset)),
            _ => (offset + len_bytes <= first_bytes).then_some(Place::Ram(offset)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_hole_is_no_memory() {
        let ram = Ram {
            bytes: 5 * GIB,
            lowmem_bytes: 2 * GIB,
            pool_bytes: 0,
        };
        assert_eq!(ram.offset(0x10_0000, 4096), Some(0x10_0000));
        assert_eq!(ram.offset(2 * GIB - 4096, 4096), Some(2 * GIB - 4096));
        assert_eq!(ram.offset(2 * GIB - 4096, 8192), None);
        assert_eq!(ram.offset(3 * GIB, 4096), None);
        assert_eq!(ram.offset(4 * GIB, 4096), Some(2 * GIB));
        assert_eq!(ram.offset(7 * GIB - 4096, 4096), Some(5 * GIB - 4096));
        assert_eq!(ram.offset(7 * GIB - 4096, 8192), None);
        assert_eq!(ram.offset(u64::MAX - 4095, 8192), None);
    }

    #[test]
    fn small_memory_has_nothing_above() {
        let ram = Ram {
            bytes: GIB,
            lowmem_bytes: GIB,
            pool_bytes: 0,
        };
        assert_eq!(ram.offset(4 * GIB, 4096), None);
        assert_eq!(ram.offset(0, GIB), Some(0));
        assert_eq!(ram.place(0, GIB), Some(Place::Ram(0)));
    }

    #[test]
    fn the_end_lies_in_a_file_of_its_own() {
        let ram = Ram {
            bytes: GIB,
            lowmem_bytes: GIB,
            pool_bytes: 0x1000,
        };
        let pool = GIB - 0x1000;
        assert_eq!(ram.place(pool, 0x1000), Some(Place::Pool(0)));
        assert_eq!(ram.place(pool - 1, 1), Some(Place::Ram(pool - 1)));
        assert_eq!(ram.place(pool - 1, 2), None);
        assert_eq!(ram.place(GIB - 1, 2), None);
    }

    proptest! {
        #[test]
        fn what_is_found_lies_in_the_file(gpa: u64, len: u64, bytes in 0..1u64 << 45, low in 0..4 * GIB) {
            let ram = Ram { bytes, lowmem_bytes: low, pool_bytes: 0 };
            if let Some(offset) = ram.offset(gpa, len) {
                prop_assert!(offset.checked_add(len).is_some_and(|end| end <= bytes));
            }
        }
    }
}
