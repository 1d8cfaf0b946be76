//! A bit set that finds its lowest member in one word read, at most four.
//!
//! Each level summarises 64 words of the one below by one bit, so the search costs the same for
//! 16 MiB of memory and for 512 GiB. A hint alone would be as fast on average, but its worst case
//! is a scan with interrupts off.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// A fixed-size set of small integers.
pub struct BitTree {
    leaf: Box<[u64]>,
    mid: Box<[u64]>,
    /// One word per 2^18 members: a single word for any partition that fits below 512 GiB.
    top: Box<[u64]>,
    /// No word of `leaf` below this one has a bit set: members taken in a row are found at once.
    low: usize,
}

impl BitTree {
    /// An empty set able to hold 0..`len`; `None` without memory for it.
    pub fn new(len: usize) -> Option<Self> {
        let level = |below: usize| zeroed::<u64>(below.div_ceil(64).max(1));
        let leaf = level(len)?;
        let mid = level(leaf.len())?;
        let top = level(mid.len())?;
        Some(Self {
            leaf,
            mid,
            top,
            low: 0,
        })
    }

    /// Whether `i` is a member.
    pub fn contains(&self, i: usize) -> bool {
        self.leaf[i / 64] & bit(i) != 0
    }

    /// Adds `i`.
    pub fn insert(&mut self, i: usize) {
        self.low = self.low.min(i / 64);
        self.leaf[i / 64] |= bit(i);
        self.mid[i / 4096] |= bit(i / 64);
        self.top[i >> 18] |= bit(i / 4096);
    }

    /// Takes `i` out.
    pub fn remove(&mut self, i: usize) {
        let leaf = &mut self.leaf[i / 64];
        *leaf &= !bit(i);
        if *leaf == 0 {
            self.clear_summary(i / 64);
        }
    }

    /// The lowest member.
    pub fn first(&self) -> Option<usize> {
        let word = self.leaf[self.low];
        if word != 0 {
            return Some(self.low * 64 + word.trailing_zeros() as usize);
        }
        let l = self.first_leaf()?;
        Some(l * 64 + self.leaf[l].trailing_zeros() as usize)
    }

    /// The highest member.
    pub fn last(&self) -> Option<usize> {
        let highest = |word: u64| 63 - word.leading_zeros() as usize;
        // BOUND: the words of the uppermost summary, each of 2^18 bits.
        let (t, top) = self.top.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        let m = t * 64 + highest(*top);
        let l = m * 64 + highest(self.mid[m]);
        Some(l * 64 + highest(self.leaf[l]))
    }

    /// Takes out the lowest member.
    pub fn pop_first(&mut self) -> Option<usize> {
        if self.leaf[self.low] == 0 {
            self.low = self.first_leaf()?;
        }
        let leaf = &mut self.leaf[self.low];
        let i = self.low * 64 + leaf.trailing_zeros() as usize;
        *leaf &= *leaf - 1;
        if *leaf == 0 {
            self.clear_summary(self.low);
        }
        Some(i)
    }

    /// The first word of `leaf` with a bit set, by way of the summaries.
    fn first_leaf(&self) -> Option<usize> {
        // BOUND: the words of the uppermost summary, each of 2^18 bits.
        let (t, top) = self.top.iter().enumerate().find(|(_, word)| **word != 0)?;
        let m = t * 64 + top.trailing_zeros() as usize;
        Some(m * 64 + self.mid[m].trailing_zeros() as usize)
    }

    /// Notes that word `l` of `leaf` has become 0.
    #[cold]
    fn clear_summary(&mut self, l: usize) {
        let mid = &mut self.mid[l / 64];
        *mid &= !bit(l);
        if *mid == 0 {
            self.top[l / 4096] &= !bit(l / 64);
        }
    }
}

/// `len` zeros; `None` without memory for them.
pub fn zeroed<T: Copy + Default>(len: usize) -> Option<Box<[T]>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).ok()?;
    all.resize(len, T::default());
    Some(all.into_boxed_slice())
}

const fn bit(i: usize) -> u64 {
    1 << (i % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_set(ops in proptest::collection::vec((any::<bool>(), 0usize..600_000), 1..300)) {
            let mut tree = BitTree::new(600_000).unwrap();
            let mut model = BTreeSet::new();
            for (add, i) in ops {
                if add {
                    tree.insert(i);
                    model.insert(i);
                } else if i % 2 == 0 {
                    prop_assert_eq!(tree.pop_first(), model.pop_first());
                } else {
                    let victim = model.iter().next().copied().unwrap_or(i);
                    tree.remove(victim);
                    model.remove(&victim);
                }
                prop_assert_eq!(tree.first(), model.first().copied());
                prop_assert_eq!(tree.last(), model.last().copied());
                prop_assert_eq!(tree.contains(i), model.contains(&i));
            }
        }
    }
}
