//! Sets of cores, as one value and as words that cores change at the same time.

use core::sync::atomic::{AtomicU64, Ordering};

use wire::boot::MAX_CPUS;

const WORD_BITS: usize = u64::BITS as usize;

/// Words of a set.
pub const WORDS: usize = MAX_CPUS.div_ceil(WORD_BITS);

/// A set of cores 0..[`MAX_CPUS`]. Bit `n % 64` of word `n / 64` is core `n`, as in Linux's cpu_set_t.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// No core.
    pub const EMPTY: CoreSet = CoreSet([0; WORDS]);

    /// `count` cores from `first` on.
    ///
    /// # Panics
    /// When that passes [`MAX_CPUS`].
    #[must_use]
    pub const fn of(first: usize, count: usize) -> CoreSet {
        let mut set = CoreSet::EMPTY;
        let mut core = first;
        while core < first + count {
            set.insert(core);
            core += 1;
        }
        set
    }

    /// One core.
    ///
    /// # Panics
    /// When there is no such core.
    #[must_use]
    pub const fn single(core: usize) -> CoreSet {
        CoreSet::of(core, 1)
    }

    /// From words as [`CoreSet::words`] gives them.
    #[must_use]
    pub const fn from_words(words: [u64; WORDS]) -> CoreSet {
        CoreSet(words)
    }

    /// Bit `n % 64` of word `n / 64` is core `n`.
    #[must_use]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Whether `core` is a member; one that cannot exist is none.
    #[must_use]
    pub const fn contains(&self, core: usize) -> bool {
        core < MAX_CPUS && self.0[core / WORD_BITS] & bit(core) != 0
    }

    /// Adds a core.
    ///
    /// # Panics
    /// When there is no such core.
    pub const fn insert(&mut self, core: usize) {
        self.0[core / WORD_BITS] |= bit(core);
    }

    /// Takes a core out.
    ///
    /// # Panics
    /// When there is no such core.
    pub const fn remove(&mut self, core: usize) {
        self.0[core / WORD_BITS] &= !bit(core);
    }

    /// The cores of both.
    #[must_use]
    pub fn and(&self, other: &CoreSet) -> CoreSet {
        CoreSet(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The cores of either.
    #[must_use]
    pub fn or(&self, other: &CoreSet) -> CoreSet {
        CoreSet(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether `other` has all cores of this one.
    #[must_use]
    pub fn is_subset(&self, other: &CoreSet) -> bool {
        self.and(other) == *self
    }

    /// Whether there is no core in it.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |bits, word| bits | word) == 0
    }

    /// How many cores.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest core.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        let (i, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(i * WORD_BITS + word.trailing_zeros() as usize)
    }

    /// The cores, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = *self;
        core::iter::from_fn(move || {
            let core = left.first()?;
            left.remove(core);
            Some(core)
        })
    }
}

/// A set of cores that cores change at the same time, each member on its own: a reader sees each word as it was at some
/// moment, not all of them at one.
#[derive(Debug)]
pub struct AtomicCoreSet([AtomicU64; WORDS]);

impl AtomicCoreSet {
    /// No core.
    #[must_use]
    pub const fn new() -> AtomicCoreSet {
        AtomicCoreSet([const { AtomicU64::new(0) }; WORDS])
    }

    /// Adds a core. In the one order of all such accesses (a core enters an address space and then loads its tables; another
    /// changes the tables and then reads who is in it).
    ///
    /// # Panics
    /// When there is no such core.
    pub fn insert(&self, core: usize) {
        self.0[core / WORD_BITS].fetch_or(bit(core), Ordering::SeqCst);
    }

    /// Takes a core out; see [`AtomicCoreSet::insert`].
    ///
    /// # Panics
    /// When there is no such core.
    pub fn remove(&self, core: usize) {
        self.0[core / WORD_BITS].fetch_and(!bit(core), Ordering::SeqCst);
    }

    /// Makes it another set. Whoever loads it meanwhile sees some words of either.
    pub fn store(&self, set: CoreSet) {
        for (to, from) in self.0.iter().zip(set.words()) {
            to.store(*from, Ordering::SeqCst);
        }
    }

    /// The members.
    #[must_use]
    pub fn load(&self) -> CoreSet {
        CoreSet(core::array::from_fn(|i| self.0[i].load(Ordering::SeqCst)))
    }

    /// Whether `core` is a member; one that cannot exist is none.
    #[must_use]
    pub fn contains(&self, core: usize) -> bool {
        core < MAX_CPUS && self.0[core / WORD_BITS].load(Ordering::SeqCst) & bit(core) != 0
    }

    /// Whether a core other than `core` is a member.
    #[must_use]
    pub fn has_other_than(&self, core: usize) -> bool {
        let others = |(i, word): (usize, &AtomicU64)| {
            let left_out = if i == core / WORD_BITS { bit(core) } else { 0 };
            word.load(Ordering::SeqCst) & !left_out != 0
        };
        self.0.iter().enumerate().any(others)
    }
}

impl Default for AtomicCoreSet {
    fn default() -> AtomicCoreSet {
        AtomicCoreSet::new()
    }
}

const fn bit(core: usize) -> u64 {
    1 << (core % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(of: &BTreeSet<usize>) -> CoreSet {
        let mut set = CoreSet::EMPTY;
        of.iter().for_each(|core| set.insert(*core));
        set
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(
            a in proptest::collection::btree_set(0..MAX_CPUS, 0..40),
            b in proptest::collection::btree_set(0..MAX_CPUS, 0..40),
            (first, count) in (0..MAX_CPUS).prop_flat_map(|first| (Just(first), 0..=MAX_CPUS - first)),
        ) {
            let (x, y) = (set(&a), set(&b));
            prop_assert!(x.iter().eq(a.iter().copied()));
            prop_assert_eq!((x.len(), x.is_empty(), x.first()), (a.len(), a.is_empty(), a.first().copied()));
            prop_assert_eq!(x.and(&y), set(&(&a & &b)));
            prop_assert_eq!(x.or(&y), set(&(&a | &b)));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert!(x.and(&y).is_subset(&y) && x.is_subset(&x.or(&y)));
            prop_assert!(CoreSet::of(first, count).iter().eq(first..first + count));
            prop_assert_eq!(CoreSet::from_words(*x.words()), x);
        }

        #[test]
        fn the_atomic_one_holds_what_the_other_does(
            ops in proptest::collection::vec((any::<bool>(), 0..MAX_CPUS), 0..100),
        ) {
            let (atomic, mut plain) = (AtomicCoreSet::new(), CoreSet::EMPTY);
            for (add, core) in ops {
                if add {
                    atomic.insert(core);
                    plain.insert(core);
                } else {
                    atomic.remove(core);
                    plain.remove(core);
                }
                prop_assert_eq!((atomic.contains(core), plain.contains(core)), (add, add));
                let mut others = plain;
                others.remove(core);
                prop_assert_eq!(atomic.has_other_than(core), !others.is_empty());
            }
            prop_assert_eq!(atomic.load(), plain);
        }
    }

    #[test]
    fn cores_that_cannot_exist_are_in_no_set() {
        let all = CoreSet::of(0, MAX_CPUS);
        assert_eq!(all.len(), MAX_CPUS);
        assert!(!all.contains(MAX_CPUS) && !AtomicCoreSet::new().contains(usize::MAX));
        assert_eq!(CoreSet::single(64).words()[1], 1);
    }
}
