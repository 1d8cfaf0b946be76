//! When the sleepers of a core are to be woken.
//!
//! A sorted array: a core has few sleepers, most of which are woken before their deadline, so what counts is that the
//! earliest is at hand and that nothing is allocated. Setting and clearing move the entries that are due earlier, some
//! thousand at most, and look at few.

use abi::Errno;
use alloc::vec::Vec;

/// The deadlines of one core: at most one per key, in the caller's unit.
#[derive(Debug)]
pub struct Deadlines<K> {
    /// The earliest last, so that it is taken without moving the others. Of those at the same time, which a program may make as
    /// many as it has threads, the one with the least key: so each is found by bisection.
    list: Vec<(u64, K)>,
}

impl<K: Copy + Ord> Deadlines<K> {
    /// None, and room for none.
    #[must_use]
    pub const fn new() -> Deadlines<K> {
        Deadlines { list: Vec::new() }
    }

    /// Makes room for the deadlines of `keys` keys in all.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn try_reserve(&mut self, keys: usize) -> Result<(), Errno> {
        self.list
            .try_reserve(keys.saturating_sub(self.list.len()))
            .map_err(|_| Errno::ENOMEM)
    }

    /// Sets the deadline of `key`, which has none: an earlier one was [cleared](Self::clear).
    ///
    /// # Panics
    /// When there are more keys than room was made for.
    pub fn set(&mut self, key: K, deadline: u64) {
        // BOUND: the tasks of a core; only where it is tested.
        debug_assert!(self.list.iter().all(|(_, k)| *k != key), "set twice");
        assert!(
            self.list.len() < self.list.capacity(),
            "room for every key's deadline is reserved"
        );
        self.list.insert(self.place(deadline, key), (deadline, key));
    }

    /// Forgets the deadline of `key`, which was set to `deadline`. False: it was not, or has been taken.
    pub fn clear(&mut self, key: K, deadline: u64) -> bool {
        let at = self.place(deadline, key);
        let found = self.list.get(at) == Some(&(deadline, key));
        if found {
            self.list.remove(at);
        }
        found
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.list.last().map(|(deadline, _)| *deadline)
    }

    /// Takes out the earliest deadline, if that is not after `now`, with its key.
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, K)> {
        self.list.pop_if(|(deadline, _)| *deadline <= now)
    }

    /// Where the entries begin that come with `key` at `deadline` or earlier.
    fn place(&self, deadline: u64, key: K) -> usize {
        self.list.partition_point(|entry| *entry > (deadline, key))
    }
}

impl<K: Copy + Ord> Default for Deadlines<K> {
    fn default() -> Deadlines<K> {
        Deadlines::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const KEYS: u8 = 12;

    #[derive(Clone, Debug)]
    enum Op {
        Set(u8, u64),
        Clear(u8),
        PopDue(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..KEYS, 0..20u64).prop_map(|(key, deadline)| Op::Set(key, deadline)),
            2 => (0..KEYS).prop_map(Op::Clear),
            2 => (0..20u64).prop_map(Op::PopDue),
        ]
    }

    proptest! {
        /// The model has what each key waits for.
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec(op(), 1..200)) {
            let mut deadlines = Deadlines::new();
            deadlines.try_reserve(KEYS.into()).unwrap();
            let room = deadlines.list.capacity();
            let mut model = BTreeMap::<u8, u64>::new();
            for op in ops {
                match op {
                    Op::Set(key, deadline) => {
                        if let Some(before) = model.get(&key) {
                            prop_assert!(deadlines.clear(key, *before));
                        }
                        deadlines.set(key, deadline);
                        model.insert(key, deadline);
                    }
                    Op::Clear(key) => {
                        let was = model.remove(&key);
                        let deadline = was.unwrap_or(7);
                        prop_assert!(!deadlines.clear(key, deadline + 1));
                        prop_assert_eq!(deadlines.clear(key, deadline), was.is_some());
                    }
                    Op::PopDue(now) => {
                        let first = model.iter().map(|(key, deadline)| (*deadline, *key)).min();
                        let due = first.filter(|(deadline, _)| *deadline <= now);
                        prop_assert_eq!(deadlines.pop_due(now), due);
                        due.map(|(_, key)| model.remove(&key));
                    }
                }
                prop_assert_eq!(deadlines.next(), model.values().copied().min());
            }
            prop_assert_eq!(deadlines.list.capacity(), room, "nothing is allocated");
        }
    }

    #[test]
    fn the_earliest_comes_first_and_only_when_due() {
        let mut deadlines = Deadlines::new();
        deadlines.try_reserve(3).unwrap();
        assert_eq!(
            (deadlines.next(), deadlines.pop_due(u64::MAX)),
            (None, None)
        );
        deadlines.set('a', 30);
        deadlines.set('b', 10);
        deadlines.set('c', 20);
        assert!(deadlines.clear('b', 10));
        deadlines.set('b', 40);
        assert_eq!((deadlines.next(), deadlines.pop_due(19)), (Some(20), None));
        assert_eq!(deadlines.pop_due(30), Some((20, 'c')));
        assert!(!deadlines.clear('a', 29) && !deadlines.clear('b', 30) && deadlines.clear('a', 30));
        assert_eq!(
            (deadlines.pop_due(40), deadlines.next()),
            (Some((40, 'b')), None)
        );
    }

    #[test]
    #[should_panic(expected = "reserved")]
    fn without_room_nothing_is_allocated() {
        Deadlines::new().set(0, 1);
    }

    /// One of those at the same time was sought among all of them, with interrupts off: a rank's threads may all sleep until then.
    #[test]
    fn few_of_those_at_the_same_time_are_looked_at() {
        use std::cmp::Ordering;
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static LOOKS: AtomicUsize = AtomicUsize::new(0);
        #[derive(Clone, Copy, Debug)]
        struct Key(u32);
        impl Ord for Key {
            fn cmp(&self, other: &Key) -> Ordering {
                LOOKS.fetch_add(1, Relaxed);
                self.0.cmp(&other.0)
            }
        }
        impl PartialOrd for Key {
            fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl PartialEq for Key {
            fn eq(&self, other: &Key) -> bool {
                self.cmp(other).is_eq()
            }
        }
        impl Eq for Key {}
        const KEYS: u32 = 1000;
        let mut deadlines = Deadlines::new();
        deadlines.try_reserve(KEYS as usize).unwrap();
        deadlines
            .list
            .extend((0..KEYS).rev().map(|key| (7, Key(key))));
        assert!(deadlines.clear(Key(500), 7));
        let looks = LOOKS.load(Relaxed);
        assert!(looks < 30, "{looks} looks");
    }
}
