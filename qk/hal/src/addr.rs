//! Addresses as types: physical and user-virtual numbers must not be mixed up, nor a program's word with an address that was checked.

pub use abi::addr::{Phys, PhysRange, Va, VaRange};
use abi::map;
use core::fmt;

/// A user-virtual address that a program alleges. Made through [`User::range`] it is known, as a [`Va`] is not, to lie with its
/// length below [`map::WINDOW_TOP`], which proves nothing about what is mapped there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct User(u64);

impl User {
    /// Accepts `[addr, addr + len_bytes)` when it neither wraps nor leaves the lower canonical half.
    #[must_use]
    pub const fn range(addr: u64, len_bytes: u64) -> Option<Self> {
        // Mostly the length is a constant: then this is one comparison.
        if len_bytes <= map::WINDOW_TOP && addr <= map::WINDOW_TOP - len_bytes {
            Some(Self(addr))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn addr(self) -> u64 {
        self.0
    }

    /// `bytes` further on, within the range that was accepted.
    pub(crate) const fn at(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u:{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_range_neither_wraps_nor_leaves_the_lower_half() {
        assert!(User::range(0, map::WINDOW_TOP).is_some());
        assert!(User::range(1, map::WINDOW_TOP).is_none());
        assert!(User::range(u64::MAX, 2).is_none());
        assert!(User::range(map::WINDOW_TOP, 0).is_some());
    }
}
