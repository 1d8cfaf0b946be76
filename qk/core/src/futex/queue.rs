//! The waiters of a bucket: a list in the order in which they came, in slots that stay where they are.
//!
//! Entering and leaving take constant time. Every entry has a ticket, larger than all before it; a walk that lets go of the
//! bucket's lock goes on by it ([`Cursor`]).

use abi::Errno;
use alloc::vec::Vec;

use super::{Key, SLICE};

/// Slots that are allocated at once.
const CHUNK: usize = 16;
/// No slot.
const NIL: u32 = u32::MAX;

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
    /// Which wakes reach it; of who waits for a lock: the thread id of its owner.
    pub bits: u32,
    pub kind: Kind,
    pub waiter: W,
}

struct Slot<W> {
    /// The neighbours in the list; of a free slot, `next` is the next free one.
    prev: u32,
    next: u32,
    ticket: u64,
    entry: Option<Entry<W>>,
}

/// Which entry: a slot may be another's later, a ticket never.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub index: u32,
    pub ticket: u64,
}

/// No entry's position: a walk begins at the head.
const NOWHERE: Position = Position {
    index: NIL,
    ticket: 0,
};

/// How far a walk over those who waited when it began has come.
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
    chunks: Vec<Vec<Slot<W>>>,
    free: u32,
    head: u32,
    tail: u32,
    next_ticket: u64,
}

impl<W: Copy> Queue<W> {
    pub const fn new() -> Self {
        Queue {
            chunks: Vec::new(),
            free: NIL,
            head: NIL,
            tail: NIL,
            next_ticket: 1,
        }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, entry: Entry<W>) -> Result<Position, Errno> {
        if self.free == NIL {
            self.grow()?;
        }
        let (index, prev, ticket) = (self.free, self.tail, self.next_ticket);
        let slot = self.slot_mut(index);
        let next_free = slot.next;
        *slot = Slot {
            prev,
            next: NIL,
            ticket,
            entry: Some(entry),
        };
        self.free = next_free;
        self.next_ticket += 1;
        self.tail = index;
        match prev {
            NIL => self.head = index,
            _ => self.slot_mut(prev).next = index,
        }
        Ok(Position { index, ticket })
    }

    /// Takes the entry out of a slot; `false`: there is none.
    pub fn remove(&mut self, index: u32) -> bool {
        let free = self.free;
        let slot = self.slot_mut(index);
        if slot.entry.is_none() {
            return false;
        }
        slot.entry = None;
        let (prev, next) = (slot.prev, slot.next);
        slot.next = free;
        self.free = index;
        match prev {
            NIL => self.head = next,
            _ => self.slot_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            _ => self.slot_mut(next).prev = prev,
        }
        true
    }

    /// Takes this very entry out; `false`: it is not there any more.
    pub fn remove_at(&mut self, at: Position) -> bool {
        self.entry_at(at).is_some() && self.remove(at.index)
    }

    /// Where a walk over those who wait now begins.
    pub fn walk(&self) -> Cursor {
        Cursor {
            at: NOWHERE,
            floor: 0,
            end: self.next_ticket,
        }
    }

    /// Goes on with a walk, for at most [`SLICE`] slots. `visit` gets each entry once, may take it out or put it at the
    /// end, and says whether to go on. Returns whether the walk has come to its end.
    pub fn slice(
        &mut self,
        cursor: &mut Cursor,
        mut visit: impl FnMut(&mut Self, u32, Entry<W>) -> bool,
    ) -> bool {
        let mut index = match self.entry_at(cursor.at) {
            Some(_) => cursor.at.index,
            None => self.head,
        };
        // BOUND: SLICE.
        for _ in 0..SLICE {
            let Position { ticket, .. } = self.position(index);
            if index == NIL || ticket >= cursor.end {
                return true;
            }
            let slot = self.slot(index);
            let (next, entry) = (slot.next, slot.entry);
            let new = entry.filter(|_| ticket >= cursor.floor);
            cursor.floor = cursor.floor.max(ticket + 1);
            let more = new.is_none_or(|entry| visit(self, index, entry));
            index = next;
            if !more {
                break;
            }
        }
        cursor.at = self.position(index);
        index == NIL
    }

    /// The first entry for a key, and whether there is another.
    #[inline]
    pub fn first_of(&self, key: Key) -> Option<(u32, W, bool)> {
        let mut of_key = self.iter().filter(|(_, entry)| entry.key == key);
        let (index, first) = of_key.next()?;
        Some((index, first.waiter, of_key.next().is_some()))
    }

    /// The bits of the first entry for a key.
    pub fn bits_of(&self, key: Key) -> Option<u32> {
        let mut of_key = self.iter().filter(|(_, entry)| entry.key == key);
        of_key.next().map(|(_, entry)| entry.bits)
    }

    /// Changes the bits of all entries for a key.
    pub fn set_bits(&mut self, key: Key, bits: u32) {
        let mut index = self.head;
        // BOUND: who waits for a lock, a few instructions each.
        while index != NIL {
            let slot = self.slot_mut(index);
            index = slot.next;
            if let Some(entry) = slot.entry.as_mut().filter(|entry| entry.key == key) {
                entry.bits = bits;
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &Entry<W>)> {
        let mut index = self.head;
        core::iter::from_fn(move || {
            let entry = (index != NIL).then(|| self.slot(index))?;
            let this = index;
            index = entry.next;
            Some((this, entry.entry.as_ref()?))
        })
    }

    fn entry_at(&self, at: Position) -> Option<&Entry<W>> {
        if at.index == NIL || self.slot(at.index).ticket != at.ticket {
            return None;
        }
        self.slot(at.index).entry.as_ref()
    }

    fn position(&self, index: u32) -> Position {
        let ticket = if index == NIL {
            0
        } else {
            self.slot(index).ticket
        };
        Position { index, ticket }
    }

    fn slot(&self, index: u32) -> &Slot<W> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<W> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Makes free slots.
    fn grow(&mut self) -> Result<(), Errno> {
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| Errno::ENOMEM)?;
        self.chunks.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let first = (self.chunks.len() * CHUNK) as u32;
        let free = |n| Slot {
            prev: NIL,
            next: if n + 1 < CHUNK {
                first + n as u32 + 1
            } else {
                NIL
            },
            ticket: 0,
            entry: None,
        };
        // BOUND: CHUNK.
        chunk.extend((0..CHUNK).map(free));
        self.chunks.push(chunk);
        self.free = first;
        Ok(())
    }
}
