//! The locks with an owner (PI) of a bucket that have waiters: of each its owner, and its waiters in order of arrival.
//!
//! A bucket has any number of waiters, and few locks: which words hash alike is hidden from programs. So all that goes through
//! locks here is short, however many threads wait for one of them.

use abi::Errno;
use alloc::vec::Vec;
use core::ops::Range;

use super::slots::{List, NIL, Slots, give_back};
use super::{Key, Waiter};

/// A lock that has waiters.
pub struct Lock {
    pub key: Key,
    /// The thread id of its owner.
    pub owner: u32,
    /// Larger than that of all locks that were waited for before; never another's.
    pub ticket: u64,
    waiters: List,
}

pub struct Contended<W> {
    /// By their tickets.
    locks: Vec<Lock>,
    slots: Slots<(Key, W)>,
}

impl<W: Waiter> Contended<W> {
    pub const fn new() -> Self {
        Contended {
            locks: Vec::new(),
            slots: Slots::new(),
        }
    }

    /// The owner of a lock that has waiters.
    pub fn owner(&self, key: Key) -> Option<u32> {
        Some(self.locks[self.find(key)?].owner)
    }

    /// The first waiter for a lock, and whether there are more.
    pub fn first(&self, key: Key) -> Option<(W, bool)> {
        let head = self.locks[self.find(key)?].waiters.head();
        let first = self.slots.slot(head);
        Some((first.entry.1, first.next != NIL))
    }

    /// Waits for a lock that thread `owner` has; of one that has waiters already, the owner is known. Returns the slot.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, key: Key, owner: u32, waiter: W) -> Result<u32, Errno> {
        if let Some(at) = self.find(key) {
            return self.slots.push(&mut self.locks[at].waiters, (key, waiter));
        }
        self.locks.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let (mut waiters, ticket) = (List::new(), self.slots.next_ticket());
        let slot = self.slots.push(&mut waiters, (key, waiter))?;
        self.locks.push(Lock {
            key,
            owner,
            ticket,
            waiters,
        });
        Ok(slot)
    }

    /// Stops waiting.
    pub fn remove(&mut self, slot: u32) {
        let (key, _) = self.slots.slot(slot).entry;
        if let Some(at) = self.find(key) {
            self.take_out(at, slot);
        }
    }

    /// Gives a lock to its first waiter, whose thread id is `owner`.
    pub fn pass_on(&mut self, key: Key, owner: u32) {
        if let Some(at) = self.find(key) {
            let lock = &mut self.locks[at];
            lock.owner = owner;
            let head = lock.waiters.head();
            self.take_out(at, head);
        }
    }

    /// The ticket that the next lock will have.
    pub fn next_ticket(&self) -> u64 {
        self.slots.next_ticket()
    }

    /// The locks with tickets in a range.
    pub fn among(&self, tickets: Range<u64>) -> &[Lock] {
        let before = |ticket| self.locks.partition_point(|lock| lock.ticket < ticket);
        &self.locks[before(tickets.start)..before(tickets.end)]
    }

    fn find(&self, key: Key) -> Option<usize> {
        // BOUND: the locks of a bucket, few: see the module.
        self.locks.iter().position(|lock| lock.key == key)
    }

    fn take_out(&mut self, at: usize, slot: u32) {
        let moved = self.slots.remove(&mut self.locks[at].waiters, slot);
        if let Some((key, waiter)) = moved.copied() {
            waiter.place().moves(slot);
            if let Some(its) = self.find(key) {
                self.locks[its].waiters.moved(self.slots.len(), slot);
            }
        }
        if self.locks[at].waiters.head() == NIL {
            self.locks.remove(at);
            give_back(&mut self.locks);
        }
    }

    /// Locks and waiters that there is memory for.
    #[cfg(test)]
    pub fn room(&self) -> [usize; 2] {
        [self.locks.capacity(), self.slots.room()]
    }
}
