//! A ring of records in shared memory with one producer and one consumer.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::Word;

/// A record as it lies in the ring: words that one side writes and the other copies.
pub trait Entry {
    /// The record itself.
    type Record;

    /// Writes the record; the ring publishes it.
    fn put(&self, record: &Self::Record);

    /// Copies the record.
    fn get(&self) -> Self::Record;
}

/// A ring of `CAPACITY` entries, a power of two.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C, align(64))]
pub struct Ring<E, const CAPACITY: usize> {
    /// Records ever appended; written by the producer.
    head: Word,
    _pad0: [Word; 7],
    /// Records ever taken; written by the consumer.
    tail: Word,
    _pad1: [Word; 7],
    entries: [E; CAPACITY],
}

impl<E: Entry, const CAPACITY: usize> Ring<E, CAPACITY> {
    /// Appends a record (producer only); `false` when the ring is full.
    #[must_use]
    pub fn append(&self, record: &E::Record) -> bool {
        let head = self.head.peek();
        if !self.has_room() {
            return false;
        }
        self.entries[head as usize % CAPACITY].put(record);
        self.head.store(head.wrapping_add(1));
        true
    }

    /// Whether a record can be appended (producer only).
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.head.peek().wrapping_sub(self.tail.load()) < CAPACITY as u64
    }

    /// Whether there is nothing to take (consumer only).
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.load() == self.tail.peek()
    }

    /// Takes the next record (consumer only).
    ///
    /// A ring that claims to hold more than fits is emptied: with such a count, taking would not end.
    pub fn take(&self) -> Option<E::Record> {
        let (head, tail) = (self.head.load(), self.tail.peek());
        if head == tail {
            return None;
        }
        if head.wrapping_sub(tail) > CAPACITY as u64 {
            self.tail.store(head);
            return None;
        }
        let record = self.entries[tail as usize % CAPACITY].get();
        self.tail.store(tail.wrapping_add(1));
        Some(record)
    }
}

impl<E: Default, const CAPACITY: usize> Default for Ring<E, CAPACITY> {
    fn default() -> Self {
        Ring {
            head: Word::default(),
            _pad0: Default::default(),
            tail: Word::default(),
            _pad1: Default::default(),
            entries: core::array::from_fn(|_| E::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Entry for Word {
        type Record = u64;

        fn put(&self, record: &u64) {
            Word::put(self, *record);
        }

        fn get(&self) -> u64 {
            self.peek()
        }
    }

    type Numbers = Ring<Word, 4>;

    #[test]
    fn order_is_kept_and_full_is_said() {
        let ring = Numbers::default();
        for round in 0..3 {
            assert!((0..4).all(|n| ring.append(&(round + n))));
            assert!(!ring.append(&9) && !ring.is_empty());
            assert!((0..4).all(|n| ring.take() == Some(round + n)));
            assert!(ring.is_empty() && ring.take().is_none());
        }
    }

    #[test]
    fn a_count_that_cannot_be_is_no_work_without_end() {
        let ring = Numbers::default();
        ring.head.store(5);
        assert!(ring.take().is_none() && ring.is_empty());
        ring.head.store(4);
        assert!(ring.take().is_none() && ring.is_empty());
    }
}
