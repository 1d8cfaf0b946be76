//! Lists in slots without holes: the last entry goes where one has left. Entering and leaving take constant time, wherever in a list,
//! and there is memory for the entries that there are, however many there were.
//!
//! Slots in which entries stay would be simpler, but one entry at the end, of a thread that keeps one in every bucket, would hold
//! the memory of all that left before it.

use abi::Errno;
use alloc::vec::Vec;

/// Slots that are allocated at once: a vector of all would be copied when it grows, under the bucket's lock.
const CHUNK: usize = 16;
/// No slot.
pub const NIL: u32 = u32::MAX;

/// Slots for entries of any number of lists.
pub struct Slots<T> {
    /// All full; what is in slots from `len` on is unused.
    chunks: Vec<Vec<Slot<T>>>,
    len: u32,
    next_ticket: u64,
}

#[derive(Clone, Copy)]
pub struct Slot<T> {
    /// The neighbours in the list, or [`NIL`].
    prev: u32,
    pub next: u32,
    pub ticket: u64,
    pub entry: T,
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

    /// An entry of the list has moved to another slot.
    pub const fn moved(&mut self, from: u32, to: u32) {
        if self.head == from {
            self.head = to;
        }
        if self.tail == from {
            self.tail = to;
        }
    }
}

impl<T: Copy> Slots<T> {
    pub const fn new() -> Self {
        Slots {
            chunks: Vec::new(),
            len: 0,
            next_ticket: 1,
        }
    }

    /// Entries that there are: the slots below are theirs.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The ticket that the next entry will have.
    pub const fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Appends an entry to a list. Returns its slot.
    ///
    /// # Errors
    /// ENOMEM; nothing has changed then.
    pub fn push(&mut self, list: &mut List, entry: T) -> Result<u32, Errno> {
        let (index, prev, ticket) = (self.len, list.tail, self.next_ticket);
        if index as usize == self.chunks.len() * CHUNK {
            self.grow(entry)?;
        }
        *self.slot_mut(index) = Slot {
            prev,
            next: NIL,
            ticket,
            entry,
        };
        self.len += 1;
        self.next_ticket += 1;
        list.tail = index;
        match prev {
            NIL => list.head = index,
            _ => self.slot_mut(prev).next = index,
        }
        Ok(index)
    }

    /// Takes the entry out of a slot, and so out of its list. Returns the entry that is there now, if any is: its list and
    /// other holders of its slot have to be told that it was slot [`Slots::len`].
    #[inline]
    pub fn remove(&mut self, list: &mut List, index: u32) -> Option<&T> {
        let Slot { prev, next, .. } = *self.slot(index);
        match prev {
            NIL => list.head = next,
            _ => self.slot_mut(prev).next = next,
        }
        match next {
            NIL => list.tail = prev,
            _ => self.slot_mut(next).prev = prev,
        }
        self.len -= 1;
        if index != self.len {
            return Some(self.fill(index));
        }
        self.trim();
        None
    }

    /// The slot of this very entry, if it is still there.
    pub fn at(&self, position: Position) -> Option<u32> {
        let index = position.index;
        let there = index < self.len && self.slot(index).ticket == position.ticket;
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

    /// What is in a slot that is in use.
    pub fn slot(&self, index: u32) -> &Slot<T> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// Makes memory for more; until then it holds copies of `entry`.
    #[cold]
    fn grow(&mut self, entry: T) -> Result<(), Errno> {
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK).map_err(|_| Errno::ENOMEM)?;
        self.chunks.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let nobodys = Slot {
            prev: NIL,
            next: NIL,
            ticket: 0,
            entry,
        };
        chunk.resize(CHUNK, nobodys);
        self.chunks.push(chunk);
        Ok(())
    }

    /// Puts what is in the last slot where one has left.
    #[cold]
    fn fill(&mut self, index: u32) -> &T {
        let last = *self.slot(self.len);
        if last.prev != NIL {
            self.slot_mut(last.prev).next = index;
        }
        if last.next != NIL {
            self.slot_mut(last.next).prev = index;
        }
        *self.slot_mut(index) = last;
        self.trim();
        &self.slot(index).entry
    }

    /// Gives back chunks that are not in use any more, but for one: repeated waits allocate nothing.
    #[inline]
    fn trim(&mut self) {
        let kept = self.len as usize / CHUNK + 1;
        if (self.len as usize).is_multiple_of(CHUNK) && self.chunks.len() > kept {
            self.cut(kept);
        }
    }

    #[cold]
    fn cut(&mut self, kept: usize) {
        self.chunks.truncate(kept);
        give_back(&mut self.chunks);
    }

    /// Entries that there is memory for.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        assert!(self.chunks.capacity() <= 4 * self.chunks.len().max(LEAST));
        self.chunks.len() * CHUNK
    }
}

/// Capacity of a vector that is not given back.
pub const LEAST: usize = 8;

/// Gives back most of the memory of a vector of which less than a quarter is in use, if there is memory for a smaller one.
pub fn give_back<T>(all: &mut Vec<T>) {
    let used = all.len().max(LEAST);
    let mut smaller = Vec::new();
    if all.capacity() > 4 * used && smaller.try_reserve_exact(2 * used).is_ok() {
        smaller.append(all);
        *all = smaller;
    }
}
