//! Addresses as types: physical and user-virtual ones must not be mixed up with each other, with the kernel's own, or with lengths.

use crate::map;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A physical address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Phys(pub u64);

impl Phys {
    /// Whether the address is a multiple of `align`, a power of two.
    #[must_use]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }

    /// Rounds down to a multiple of `align`, a power of two.
    #[must_use]
    pub const fn align_down(self, align: u64) -> Self {
        Self(self.0 & !(align - 1))
    }

    /// Rounds up to a multiple of `align`, a power of two. Wraps only for addresses no CPU has (above 2^52).
    #[must_use]
    pub const fn align_up(self, align: u64) -> Self {
        Self(self.0.wrapping_add(align - 1) & !(align - 1))
    }

    /// The address `bytes` further on, unless there is none.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(at) => Some(Self(at)),
            None => None,
        }
    }

    /// The address `bytes` before, unless there is none.
    #[must_use]
    pub const fn checked_sub(self, bytes: u64) -> Option<Self> {
        match self.0.checked_sub(bytes) {
            Some(at) => Some(Self(at)),
            None => None,
        }
    }

    /// The address `bytes` before; there is one.
    #[must_use]
    pub const fn before(self, bytes: u64) -> Self {
        Self(self.0 - bytes)
    }

    /// Where the direct map shows this address.
    #[must_use]
    pub const fn direct(self) -> u64 {
        map::DIRECT_MAP.wrapping_add(self.0)
    }
}

impl Add<u64> for Phys {
    type Output = Self;
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl Sub for Phys {
    type Output = u64;
    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for Phys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p:{:#x}", self.0)
    }
}

/// Physical memory `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PhysRange {
    /// First byte.
    pub start: Phys,
    /// One past the last byte.
    pub end: Phys,
}

impl PhysRange {
    /// `[start, start + len_bytes)`.
    #[must_use]
    pub const fn new(start: Phys, len_bytes: u64) -> Self {
        Self {
            start,
            end: Phys(start.0 + len_bytes),
        }
    }

    /// Bytes in the range.
    #[must_use]
    pub const fn len_bytes(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    /// Whether `[at, at + len_bytes)` lies inside.
    #[must_use]
    pub const fn holds(self, at: Phys, len_bytes: u64) -> bool {
        // Written without an addition that could wrap: `at` may come from safe code.
        at.0 >= self.start.0 && at.0 <= self.end.0 && len_bytes <= self.end.0 - at.0
    }

    /// Whether the two share a byte.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.start.0 < other.end.0
            && other.start.0 < self.end.0
    }

    /// The whole pages inside the range.
    #[must_use]
    pub const fn whole_pages(self) -> Self {
        Self {
            start: self.start.align_up(map::PAGE),
            end: self.end.align_down(map::PAGE),
        }
    }
}

/// A user-virtual address, whatever it may be worth: a program's argument may be any number. (That one lies below
/// [`map::WINDOW_TOP`] is what the HAL's `User` says.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Va(pub u64);

impl Va {
    /// Whether the address is a multiple of `align`, a power of two.
    #[inline]
    #[must_use]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0 & (align - 1) == 0
    }

    /// Rounds down to a multiple of `align`, a power of two.
    #[inline]
    #[must_use]
    pub const fn align_down(self, align: u64) -> Self {
        Self(self.0 & !(align - 1))
    }

    /// Rounds up to a multiple of `align`, a power of two; wraps to 0 at the end of the addresses, as Linux's PAGE_ALIGN.
    #[inline]
    #[must_use]
    pub const fn align_up(self, align: u64) -> Self {
        Self(self.0.wrapping_add(align - 1) & !(align - 1))
    }

    /// The address `bytes` further on, unless there is none.
    #[inline]
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(at) => Some(Self(at)),
            None => None,
        }
    }

    /// The address `bytes` before, unless there is none.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, bytes: u64) -> Option<Self> {
        match self.0.checked_sub(bytes) {
            Some(at) => Some(Self(at)),
            None => None,
        }
    }

    /// The address `bytes` before; there is one.
    #[inline]
    #[must_use]
    pub const fn before(self, bytes: u64) -> Self {
        Self(self.0 - bytes)
    }

    /// `[self, end)`.
    #[inline]
    #[must_use]
    pub const fn until(self, end: Self) -> VaRange {
        VaRange { start: self, end }
    }
}

impl Add<u64> for Va {
    type Output = Self;
    #[inline]
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl AddAssign<u64> for Va {
    #[inline]
    fn add_assign(&mut self, bytes: u64) {
        self.0 += bytes;
    }
}

impl Sub for Va {
    type Output = u64;
    #[inline]
    fn sub(self, other: Self) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for Va {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v:{:#x}", self.0)
    }
}

/// User-virtual addresses `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VaRange {
    /// First byte.
    pub start: Va,
    /// One past the last byte.
    pub end: Va,
}

impl VaRange {
    /// `[start, start + len_bytes)`, which does not wrap.
    #[inline]
    #[must_use]
    pub const fn new(start: Va, len_bytes: u64) -> Self {
        Self {
            start,
            end: Va(start.0 + len_bytes),
        }
    }

    /// Bytes in the range, whose end is not below its start.
    #[inline]
    #[must_use]
    pub const fn len_bytes(self) -> u64 {
        self.end.0 - self.start.0
    }

    /// Whether the range holds no byte.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end.0 <= self.start.0
    }

    /// Whether `at` lies inside.
    #[inline]
    #[must_use]
    pub const fn contains(self, at: Va) -> bool {
        self.start.0 <= at.0 && at.0 < self.end.0
    }

    /// Whether the two, neither of them empty, share a byte.
    #[inline]
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start.0 < other.end.0 && other.start.0 < self.end.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holding_does_not_wrap() {
        let range = PhysRange::new(Phys(0x1000), 0x1000);
        assert!(range.holds(Phys(0x1000), 0x1000));
        assert!(range.holds(Phys(0x2000), 0));
        assert!(!range.holds(Phys(0x1fff), 2));
        assert!(!range.holds(Phys(0x1800), u64::MAX));
        assert!(!range.holds(Phys(u64::MAX), 2));
    }

    #[test]
    fn user_ranges_share_a_byte_or_only_touch() {
        let range = |start, end| Va(start).until(Va(end));
        assert_eq!(VaRange::new(Va(0x1000), 0x1000), range(0x1000, 0x2000));
        assert!(range(0x1000, 0x2000).overlaps(range(0x1fff, 0x3000)));
        assert!(!range(0x1000, 0x2000).overlaps(range(0x2000, 0x3000)));
        assert!(range(0x1000, 0x2000).contains(Va(0x1000)));
        assert!(!range(0x1000, 0x2000).contains(Va(0x2000)));
        assert!(range(0x2000, 0x2000).is_empty() && !range(0, 1).is_empty());
        assert_eq!(Va(u64::MAX).align_up(map::PAGE), Va(0));
        assert_eq!(Va(u64::MAX).checked_add(1), None);
    }
}
