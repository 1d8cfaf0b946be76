//! Who waits for the plain words of a bucket, in the order in which they came.
//!
//! Every entry has a ticket, larger than all before it; a walk that lets go of the bucket's lock goes on by it ([`Cursor`]).

use abi::Errno;

use super::slots::{List, NIL, Position, Slots};
use super::{Key, SLICE};

/// Whom a wake-up reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A thread that waits for this word only.
    One,
    /// One that waits for several, of which none may be requeued: it knows where it put them.
    Many,
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

/// No entry's position: a walk begins at the head.
const NOT_QUEUED: Position = Position {
    index: NIL,
    ticket: 0,
};

/// How far a walk over those who wait when it began has come.
#[derive(Clone, Copy)]
pub struct Cursor {
    /// Where to go on. If that entry has left meanwhile: at the head.
    at: Position,
    /// Entries with smaller tickets have been looked at.
    floor: u64,
    /// Entries from this ticket on came later.
    end: u64,
}

pub struct Queue<W> {
    slots: Slots<Entry<W>>,
    list: List,
}

impl<W: Copy> Queue<W> {
    pub const fn new() -> Self {
        Queue {
            slots: Slots::new(),
            list: List::new(),
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, entry: Entry<W>) -> Result<Position, Errno> {
        self.slots.push(&mut self.list, entry)
    }

    /// Takes the entry out of a slot; `false`: there is none.
    pub fn remove(&mut self, index: u32) -> bool {
        self.slots.remove(&mut self.list, index)
    }

    /// Takes this very entry out; `false`: it is not there any more.
    pub fn remove_at(&mut self, at: Position) -> bool {
        self.slots.at(at).is_some_and(|index| self.remove(index))
    }

    /// Where a walk over those who wait now begins.
    pub fn walk(&self) -> Cursor {
        Cursor {
            at: NOT_QUEUED,
            floor: 0,
            end: self.slots.next_ticket(),
        }
    }

    /// Goes on with a walk, for at most [`SLICE`] slots. `visit` gets each entry once, may take it out or put it at the
    /// end, and says whether to go on. Returns whether the walk has come to its end.
    pub fn slice(
        &mut self,
        cursor: &mut Cursor,
        mut visit: impl FnMut(&mut Self, u32, Entry<W>) -> bool,
    ) -> bool {
        let mut index = self.slots.at(cursor.at).unwrap_or(self.list.head());
        // BOUND: SLICE.
        for _ in 0..SLICE {
            let Position { ticket, .. } = self.slots.position(index);
            if index == NIL || ticket >= cursor.end {
                return true;
            }
            let (entry, next) = self.slots.get(index);
            let new = entry.filter(|_| ticket >= cursor.floor);
            cursor.floor = cursor.floor.max(ticket + 1);
            let more = new.is_none_or(|entry| visit(self, index, entry));
            index = next;
            if !more {
                break;
            }
        }
        cursor.at = self.slots.position(index);
        index == NIL
    }
}
