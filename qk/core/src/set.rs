//! Sets of cores or ranks, as one value and as words that cores change at the same time.

use core::sync::atomic::Ordering;

use abi::map::MAX_RANKS;
use wire::boot::MAX_CPUS;

use crate::sync::AtomicU64;

/// What may be members: the numbers below, of which a node has no more cores, and no more ranks.
pub const LIMIT: usize = MAX_CPUS;
const _: () = assert!(MAX_RANKS <= LIMIT);

const WORD_BITS: usize = u64::BITS as usize;

/// Words of a set.
pub const WORDS: usize = LIMIT.div_ceil(WORD_BITS);

/// A set of the numbers 0..[`LIMIT`]. Bit `n % 64` of word `n / 64` is number `n`, as in Linux's cpu_set_t.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set([u64; WORDS]);

impl Set {
    /// Without members.
    pub const EMPTY: Set = Set([0; WORDS]);

    /// `count` members from `first` on.
    ///
    /// # Panics
    /// When that passes [`LIMIT`].
    #[must_use]
    pub const fn of(first: usize, count: usize) -> Set {
        let mut set = Set::EMPTY;
        let mut member = first;
        // BOUND: LIMIT.
        while member < first + count {
            set.insert(member);
            member += 1;
        }
        set
    }

    /// One member.
    ///
    /// # Panics
    /// When it is not below [`LIMIT`].
    #[must_use]
    pub const fn single(member: usize) -> Set {
        Set::of(member, 1)
    }

    /// From words as [`Set::words`] gives them.
    #[must_use]
    pub const fn from_words(words: [u64; WORDS]) -> Set {
        Set(words)
    }

    /// Bit `n % 64` of word `n / 64` is number `n`.
    #[must_use]
    pub const fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// Whether `member` is a member; a number that cannot be one is none.
    #[must_use]
    pub const fn contains(&self, member: usize) -> bool {
        member < LIMIT && self.0[member / WORD_BITS] & bit(member) != 0
    }

    /// Adds a member.
    ///
    /// # Panics
    /// When it is not below [`LIMIT`].
    pub const fn insert(&mut self, member: usize) {
        self.0[member / WORD_BITS] |= bit(member);
    }

    /// Takes a member out.
    ///
    /// # Panics
    /// When it is not below [`LIMIT`].
    pub const fn remove(&mut self, member: usize) {
        self.0[member / WORD_BITS] &= !bit(member);
    }

    /// The members of both.
    #[must_use]
    pub fn and(&self, other: &Set) -> Set {
        Set(core::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The members of either.
    #[must_use]
    pub fn or(&self, other: &Set) -> Set {
        Set(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether `other` has all members of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Set) -> bool {
        self.and(other) == *self
    }

    /// Whether it has no members.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // BOUND: the words of a set.
        self.0.iter().fold(0, |bits, word| bits | word) == 0
    }

    /// How many members.
    #[must_use]
    pub fn len(&self) -> usize {
        // BOUND: the words of a set.
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest member.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        // BOUND: the words of a set.
        let (i, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(i * WORD_BITS + word.trailing_zeros() as usize)
    }

    /// The members, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = *self;
        core::iter::from_fn(move || {
            let member = left.first()?;
            left.remove(member);
            Some(member)
        })
    }
}

/// A set that cores change at the same time, each member on its own: a reader sees each word as it was at some
/// moment, not all of them at one.
#[derive(Debug)]
pub struct AtomicSet([AtomicU64; WORDS]);

impl AtomicSet {
    /// Without members.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> AtomicSet {
        AtomicSet([const { AtomicU64::new(0) }; WORDS])
    }

    /// Without members.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> AtomicSet {
        AtomicSet(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Adds a member. In the one order of all such accesses (a core enters an address space and then loads its tables; another
    /// changes the tables and then reads which are in it).
    ///
    /// # Panics
    /// When it is not below [`LIMIT`].
    pub fn insert(&self, member: usize) {
        self.0[member / WORD_BITS].fetch_or(bit(member), Ordering::SeqCst);
    }

    /// Takes a member out; see [`AtomicSet::insert`].
    ///
    /// # Panics
    /// When it is not below [`LIMIT`].
    pub fn remove(&self, member: usize) {
        self.0[member / WORD_BITS].fetch_and(!bit(member), Ordering::SeqCst);
    }

    /// Makes it another set. A load meanwhile sees some words of either.
    pub fn store(&self, set: Set) {
        // BOUND: the words of a set.
        for (to, from) in self.0.iter().zip(set.words()) {
            to.store(*from, Ordering::SeqCst);
        }
    }

    /// The members.
    #[must_use]
    pub fn load(&self) -> Set {
        Set(core::array::from_fn(|i| self.0[i].load(Ordering::SeqCst)))
    }

    /// Whether `member` is a member; a number that cannot be one is none.
    #[must_use]
    pub fn contains(&self, member: usize) -> bool {
        member < LIMIT && self.0[member / WORD_BITS].load(Ordering::SeqCst) & bit(member) != 0
    }

    /// Whether another than `member` is a member.
    #[must_use]
    pub fn has_other_than(&self, member: usize) -> bool {
        let others = |(i, word): (usize, &AtomicU64)| {
            let left_out = if i == member / WORD_BITS {
                bit(member)
            } else {
                0
            };
            word.load(Ordering::SeqCst) & !left_out != 0
        };
        // BOUND: the words of a set.
        self.0.iter().enumerate().any(others)
    }
}

impl Default for AtomicSet {
    fn default() -> AtomicSet {
        AtomicSet::new()
    }
}

const fn bit(member: usize) -> u64 {
    1 << (member % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(of: &BTreeSet<usize>) -> Set {
        let mut set = Set::EMPTY;
        of.iter().for_each(|member| set.insert(*member));
        set
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(
            a in proptest::collection::btree_set(0..LIMIT, 0..40),
            b in proptest::collection::btree_set(0..LIMIT, 0..40),
            (first, count) in (0..LIMIT).prop_flat_map(|first| (Just(first), 0..=LIMIT - first)),
        ) {
            let (x, y) = (set(&a), set(&b));
            prop_assert!(x.iter().eq(a.iter().copied()));
            prop_assert_eq!((x.len(), x.is_empty(), x.first()), (a.len(), a.is_empty(), a.first().copied()));
            prop_assert_eq!(x.and(&y), set(&(&a & &b)));
            prop_assert_eq!(x.or(&y), set(&(&a | &b)));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert!(x.and(&y).is_subset(&y) && x.is_subset(&x.or(&y)));
            prop_assert!(Set::of(first, count).iter().eq(first..first + count));
            prop_assert_eq!(Set::from_words(*x.words()), x);
        }

        #[test]
        fn the_atomic_one_holds_what_the_other_does(
            ops in proptest::collection::vec((any::<bool>(), 0..LIMIT), 0..100),
        ) {
            let (atomic, mut plain) = (AtomicSet::new(), Set::EMPTY);
            for (add, member) in ops {
                if add {
                    atomic.insert(member);
                    plain.insert(member);
                } else {
                    atomic.remove(member);
                    plain.remove(member);
                }
                prop_assert_eq!((atomic.contains(member), plain.contains(member)), (add, add));
                let mut others = plain;
                others.remove(member);
                prop_assert_eq!(atomic.has_other_than(member), !others.is_empty());
            }
            prop_assert_eq!(atomic.load(), plain);
        }
    }

    #[test]
    fn numbers_that_cannot_be_members_are_in_no_set() {
        let all = Set::of(0, LIMIT);
        assert_eq!(all.len(), LIMIT);
        assert!(!all.contains(LIMIT) && !AtomicSet::new().contains(usize::MAX));
        assert_eq!(Set::single(64).words()[1], 1);
    }
}
