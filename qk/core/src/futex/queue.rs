//! The waiters for the plain words of a bucket, in order of arrival.
//!
//! Every entry has a ticket, larger than all before it; a walk that lets go of the bucket's lock goes on by it ([`Cursor`]).

use abi::Errno;

use super::slots::{List, NIL, Position, Slots};
use super::{Key, NOT_QUEUED, SLICE, Waiter};

/// Which waiters a wake-up reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A thread that waits for this word only.
    One,
    /// One that waits for several, of which none may be requeued; which of them it is.
    Many(u8),
}

/// A waiter for one word.
#[derive(Clone, Copy)]
pub struct Entry<W> {
    pub key: Key,
    /// Which wakes reach it.
    pub bits: u32,
    pub kind: Kind,
    pub waiter: W,
}

impl<W: Waiter> Entry<W> {
    /// It is in another slot of its bucket. Called under the bucket's lock, as [`Entry::leaves`].
    fn moves(&self, slot: u32) {
        let place = self.waiter.place();
        match self.kind {
            Kind::One => place.moves(slot),
            Kind::Many(word) => place.set_one(word, slot),
        }
    }

    /// It has been woken.
    pub fn leaves(&self) {
        let place = self.waiter.place();
        if let Kind::Many(word) = self.kind {
            place.set_one(word, NIL);
        }
        place.set(NOT_QUEUED);
    }
}

/// No entry's position: a walk begins at the head.
const HEAD: Position = Position {
    index: NIL,
    ticket: 0,
};

/// How far a walk over the waiters of its begin has come.
#[derive(Clone, Copy)]
pub struct Cursor {
    /// Where to go on. If that entry has left meanwhile: at the head.
    at: Position,
    /// Entries with smaller tickets have been looked at.
    floor: u64,
    /// Entries from this ticket on came later.
    end: u64,
}

/// What becomes of an entry that a walk has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Stays,
    Leaves,
}

pub struct Queue<W> {
    slots: Slots<Entry<W>>,
    list: List,
}

impl<W: Waiter> Queue<W> {
    pub const fn new() -> Self {
        Queue {
            slots: Slots::new(),
            list: List::new(),
        }
    }

    /// Appends an entry. Returns its slot, until the entry [moves](Entry::moves).
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, entry: Entry<W>) -> Result<u32, Errno> {
        self.slots.push(&mut self.list, entry)
    }

    /// Takes the entry out of a slot.
    pub fn remove(&mut self, index: u32) {
        if let Some(moved) = self.slots.remove(&mut self.list, index).copied() {
            self.list.moved(self.slots.len(), index);
            moved.moves(index);
        }
    }

    /// Where a walk over the present waiters begins.
    pub fn walk(&self) -> Cursor {
        Cursor {
            at: HEAD,
            floor: 0,
            end: self.slots.next_ticket(),
        }
    }

    /// Goes on with a walk, for at most [`SLICE`] slots. `visit` gets each entry once, may put others at the end, and says what
    /// becomes of it and whether to go on. Returns whether the walk has come to its end.
    pub fn slice(
        &mut self,
        cursor: &mut Cursor,
        mut visit: impl FnMut(&mut Self, Entry<W>) -> (Fate, bool),
    ) -> bool {
        let mut index = self.slots.at(cursor.at).unwrap_or(self.list.head());
        // BOUND: SLICE.
        for _ in 0..SLICE {
            if index == NIL {
                return true;
            }
            let slot = self.slots.slot(index);
            if slot.ticket >= cursor.end {
                return true;
            }
            let (mut next, mut more) = (slot.next, true);
            if slot.ticket >= cursor.floor {
                cursor.floor = slot.ticket + 1;
                let entry = slot.entry;
                let fate;
                (fate, more) = visit(self, entry);
                if fate == Fate::Leaves {
                    self.remove(index);
                    // The next one may be what has been put there.
                    if next == self.slots.len() {
                        next = index;
                    }
                }
            }
            index = next;
            if !more {
                break;
            }
        }
        cursor.at = self.slots.position(index);
        index == NIL
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.slots.room()
    }
}
