//! Lists in slots that stay where they are: entering and leaving take constant time, wherever in a list.

use abi::Errno;
use alloc::vec::Vec;

/// Slots that are allocated at once.
const CHUNK: usize = 16;
/// No slot.
pub const NIL: u32 = u32::MAX;

/// Slots for entries of any number of lists.
pub struct Slots<T> {
    chunks: Vec<Vec<Slot<T>>>,
    free: u32,
    next_ticket: u64,
}

struct Slot<T> {
    /// The neighbours in the list; of a free slot, `next` is the next free one.
    prev: u32,
    next: u32,
    ticket: u64,
    entry: Option<T>,
}

/// Which entry: a slot may be another's later, a ticket never. Tickets grow.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    pub index: u32,
    pub ticket: u64,
}

/// A list of entries in the order in which they came.
#[derive(Clone, Copy)]
pub struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub const fn new() -> List {
        List {
            head: NIL,
            tail: NIL,
        }
    }

    /// The first entry's slot, or [`NIL`].
    pub const fn head(&self) -> u32 {
        self.head
    }
}

impl<T: Copy> Slots<T> {
    pub const fn new() -> Self {
        Slots {
            chunks: Vec::new(),
            free: NIL,
            next_ticket: 1,
        }
    }

    /// The ticket that the next entry will have.
    pub const fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Appends an entry to a list.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, list: &mut List, entry: T) -> Result<Position, Errno> {
        if self.free == NIL {
            self.grow()?;
        }
        let (index, prev, ticket) = (self.free, list.tail, self.next_ticket);
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
        list.tail = index;
        match prev {
            NIL => list.head = index,
            _ => self.slot_mut(prev).next = index,
        }
        Ok(Position { index, ticket })
    }

    /// Takes the entry out of a slot, and so out of its list; `false`: there is none.
    pub fn remove(&mut self, list: &mut List, index: u32) -> bool {
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
            NIL => list.head = next,
            _ => self.slot_mut(prev).next = next,
        }
        match next {
            NIL => list.tail = prev,
            _ => self.slot_mut(next).prev = prev,
        }
        true
    }

    /// What is in a slot, and the slot of the next entry of its list ([`NIL`]: it is the last).
    pub fn get(&self, index: u32) -> (Option<T>, u32) {
        let slot = self.slot(index);
        (slot.entry, slot.next)
    }

    /// The slot of this very entry, if it is still there.
    pub fn at(&self, position: Position) -> Option<u32> {
        let index = position.index;
        let there = index != NIL && {
            let slot = self.slot(index);
            slot.ticket == position.ticket && slot.entry.is_some()
        };
        there.then_some(index)
    }

    /// The position of the entry in a slot; ticket 0 for [`NIL`].
    pub fn position(&self, index: u32) -> Position {
        let ticket = match index {
            NIL => 0,
            _ => self.slot(index).ticket,
        };
        Position { index, ticket }
    }

    fn slot(&self, index: u32) -> &Slot<T> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
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
        // BOUND: CHUNK.
        chunk.extend((0..CHUNK).map(free));
        self.chunks.push(chunk);
        self.free = first;
        Ok(())
    }
}
