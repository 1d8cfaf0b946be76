//! Regions in the order of their addresses, in chunks of bounded length.
//!
//! Programs have tens of regions, some have thousands. One sorted array would move half of them for
//! each insertion; here an insertion moves at most a chunk. Each chunk holds the largest hole below
//! one of its regions, so that the search for a hole passes over chunks instead of regions.
//!
//! The storage of chunks is set aside by [`List::reserve`], the one operation that can fail.

mod gaps;

use super::Region;
use crate::Point;
use abi::addr::Va;
use alloc::vec::Vec;

/// Regions of a chunk. Small in tests, so that few operations meet every case.
pub(super) const CHUNK: usize = if cfg!(test) { 6 } else { 32 };
/// Two neighbours with no more regions than this become one: together a chunk is then at least 7/16 full on average.
const MERGE: usize = CHUNK * 7 / 8;
/// Chunks that one change may add: it cuts a region at either end and inserts one.
pub(super) const SPARE: usize = 3;
/// Work of moving one region within a chunk, in instructions (see [`Point`]).
const MOVE: u32 = 4;
/// Work of giving storage back.
const FREE: u32 = 300;
/// Work of looking at a region and going on to the next.
const LOOK: u32 = 32;
/// The same where chunks are passed over, and where the regions of one are looked at in turn.
const SKIP: u32 = 4;
const STEP: u32 = 8;

struct Chunk {
    slots: Vec<Region>,
    /// Bytes of the largest hole directly below one of its regions.
    gap_bytes: u64,
}

impl Chunk {
    fn first(&self) -> Va {
        self.slots.first().map_or(Va(0), |r| r.start)
    }

    fn end(&self) -> Va {
        self.slots.last().map_or(Va(0), |r| r.end)
    }
}

/// A place in the list: before a region, or at the end. Any change of the list makes it invalid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    chunk: usize,
    slot: usize,
}

/// The list. No chunk is empty.
pub(super) struct List {
    chunks: Vec<Chunk>,
    /// Storage for new chunks.
    spare: Vec<Vec<Region>>,
    len: usize,
    point: Point,
}

/// Programs with many regions are no reason to keep interrupts off at their end.
impl Drop for List {
    fn drop(&mut self) {
        while self.chunks.pop().is_some() {
            (self.point)(FREE);
        }
    }
}

impl List {
    /// An empty list that will hold at most `capacity` regions; `None` without memory for it.
    pub fn new(capacity: usize, point: Point) -> Option<Self> {
        let mut list = Self {
            chunks: Vec::new(),
            spare: Vec::new(),
            len: 0,
            point,
        };
        let chunks = 2 * (capacity / MERGE + 1) + SPARE;
        list.chunks.try_reserve_exact(chunks).ok()?;
        list.spare.try_reserve_exact(SPARE).ok()?;
        Some(list)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Sets storage for `chunks` more chunks aside, at most [`SPARE`]; `false`: there is none.
    #[must_use]
    pub fn reserve(&mut self, chunks: usize) -> bool {
        if self.chunks.try_reserve(chunks).is_err() {
            return false;
        }
        // BOUND: SPARE.
        while self.spare.len() < chunks {
            let mut storage = Vec::new();
            if storage.try_reserve_exact(CHUNK).is_err() {
                return false;
            }
            self.spare.push(storage);
        }
        true
    }

    /// How many chunks have storage set aside for them.
    #[cfg(test)]
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Gives back what is set aside.
    #[cfg(test)]
    pub fn forget_spare(&mut self) {
        self.spare.clear();
    }

    /// The first region that ends above `addr`.
    pub fn above(&self, addr: Va) -> Place {
        let chunk = self.chunks.partition_point(|c| c.end() <= addr);
        let slots = self.chunks.get(chunk).map_or(&[][..], |c| &c.slots);
        Place {
            chunk,
            slot: slots.partition_point(|r| r.end <= addr),
        }
    }

    pub fn get(&self, at: Place) -> Option<&Region> {
        self.chunks.get(at.chunk)?.slots.get(at.slot)
    }

    pub fn get_mut(&mut self, at: Place) -> Option<&mut Region> {
        self.chunks.get_mut(at.chunk)?.slots.get_mut(at.slot)
    }

    /// The place behind the region at `at`.
    pub fn next(&self, at: Place) -> Place {
        (self.point)(LOOK);
        match self.chunks.get(at.chunk) {
            Some(chunk) if at.slot + 1 < chunk.slots.len() => Place {
                slot: at.slot + 1,
                ..at
            },
            _ => Place {
                chunk: at.chunk + 1,
                slot: 0,
            },
        }
    }

    /// The region below the place.
    pub fn before(&self, at: Place) -> Option<Place> {
        match at.slot.checked_sub(1) {
            Some(slot) => Some(Place { slot, ..at }),
            None => {
                let chunk = at.chunk.checked_sub(1)?;
                let slot = self.chunks[chunk].slots.len() - 1;
                Some(Place { chunk, slot })
            }
        }
    }

    /// Puts `region` before the one at `at`. The caller has reserved storage.
    pub fn insert(&mut self, at: Place, region: Region) {
        (self.point)(MOVE * CHUNK as u32);
        let filled_bytes = self.gap_below(at);
        let at = self.make_room(at);
        self.chunks[at.chunk].slots.insert(at.slot, region);
        self.len += 1;
        self.gap_shrank(self.next(at), filled_bytes);
        self.gap_grew(at);
    }

    /// Lets the region at `at` end at `end`, up to where the next one begins.
    pub fn extend(&mut self, at: Place, end: Va) {
        let next = self.next(at);
        let filled_bytes = self.gap_below(next);
        if let Some(region) = self.get_mut(at) {
            region.end = end;
        }
        self.gap_shrank(next, filled_bytes);
    }

    /// Lets the region at `at` begin where `lower` does, up to where the one before ends.
    pub fn prepend(&mut self, at: Place, lower: &Region) {
        let was_bytes = self.gap_below(at);
        if let Some(region) = self.get_mut(at) {
            region.start = lower.start;
            region.offset = lower.offset;
        }
        self.gap_shrank(at, was_bytes);
    }

    /// Lets the region at `at` begin at `start`, inside of it.
    pub fn trim_front(&mut self, at: Place, start: Va) {
        if let Some(region) = self.get_mut(at) {
            *region = region.clip(start.until(Va(u64::MAX)));
        }
        self.gap_grew(at);
    }

    /// Lets the region at `at` end at `end`, inside of it.
    pub fn trim_back(&mut self, at: Place, end: Va) {
        if let Some(region) = self.get_mut(at) {
            region.end = end;
        }
        self.gap_grew(self.next(at));
    }

    /// Makes two of the region at `at`, of which the second begins at `addr`, inside of it. Returns the place of the first. The
    /// caller has reserved storage.
    pub fn split(&mut self, at: Place, addr: Va) -> Place {
        (self.point)(MOVE * CHUNK as u32);
        let upper = self.make_room(Place {
            slot: at.slot + 1,
            ..at
        });
        let lower = Place {
            slot: upper.slot - 1,
            ..upper
        };
        let slots = &mut self.chunks[upper.chunk].slots;
        let rest = slots[lower.slot].clip(addr.until(Va(u64::MAX)));
        slots[lower.slot].end = addr;
        slots.insert(upper.slot, rest);
        self.len += 1;
        lower
    }

    /// Takes out the region at `at` and those behind it that begin below `end`.
    pub fn remove_until(&mut self, at: Place, end: Va) {
        let Place { mut chunk, slot } = at;
        if slot > 0 {
            self.remove_in_chunk(at, end);
            // What follows is removed from the front of the next chunks, if this one ends here.
            if self.chunks[chunk].slots.len() > slot {
                return self.removed(at);
            }
            self.measure(chunk);
            chunk += 1;
        }
        let front = Place { chunk, slot: 0 };
        // POINT: remove_in_chunk
        while self.chunks.get(chunk).is_some_and(|c| c.first() < end) {
            self.remove_in_chunk(front, end);
            if !self.chunks[chunk].slots.is_empty() {
                break;
            }
            self.drop_chunk(chunk);
        }
        self.removed(front);
    }

    fn remove_in_chunk(&mut self, at: Place, end: Va) {
        (self.point)(MOVE * CHUNK as u32);
        let slots = &mut self.chunks[at.chunk].slots;
        let last = slots.partition_point(|r| r.start < end).max(at.slot);
        self.len -= last - at.slot;
        slots.drain(at.slot..last);
    }

    /// Regions below `at` have been removed.
    fn removed(&mut self, at: Place) {
        self.gap_grew(at);
        self.shorten(at);
    }

    /// Whether the region at `at` and the next were alike; now they are one. Places stay what they are.
    pub fn join_next(&mut self, at: Place) -> bool {
        let next = self.next(at);
        let (Some(this), Some(other)) = (self.get(at), self.get(next)) else {
            return false;
        };
        if !this.joins(other) {
            return false;
        }
        let end = other.end;
        (self.point)(MOVE * CHUNK as u32);
        self.chunks[next.chunk].slots.remove(next.slot);
        self.len -= 1;
        if self.chunks[next.chunk].slots.is_empty() {
            self.drop_chunk(next.chunk);
        }
        if let Some(region) = self.get_mut(at) {
            region.end = end;
        }
        true
    }

    /// The regions from `at` on.
    pub fn iter_from(&self, at: Place) -> impl Iterator<Item = &Region> + '_ {
        let mut at = at;
        core::iter::from_fn(move || {
            let region = self.get(at)?;
            at = self.next(at);
            Some(region)
        })
    }

    /// A place in a chunk that is not full, for the one that is to be inserted at `at`.
    fn make_room(&mut self, at: Place) -> Place {
        // At the end of the list: behind the last region, if there is one.
        let at = match self.before(at) {
            Some(last) if at.chunk == self.chunks.len() => Place {
                chunk: last.chunk,
                slot: last.slot + 1,
            },
            _ => at,
        };
        if self.chunks.is_empty() {
            self.open_chunk(0);
        }
        if self.chunks[at.chunk].slots.len() < CHUNK {
            return at;
        }
        self.open_chunk(at.chunk + 1);
        let (lower, upper) = self.chunks.split_at_mut(at.chunk + 1);
        // BOUND: CHUNK.
        upper[0]
            .slots
            .extend(lower[at.chunk].slots.drain(CHUNK / 2..));
        self.measure(at.chunk);
        self.measure(at.chunk + 1);
        match at.slot.checked_sub(CHUNK / 2) {
            None | Some(0) => at,
            Some(slot) => Place {
                chunk: at.chunk + 1,
                slot,
            },
        }
    }

    fn open_chunk(&mut self, chunk: usize) {
        (self.point)(MOVE * (self.chunks.len() - chunk) as u32);
        let slots = self.spare.pop().expect("storage was reserved");
        self.chunks.insert(
            chunk,
            Chunk {
                slots,
                gap_bytes: 0,
            },
        );
    }

    fn drop_chunk(&mut self, chunk: usize) {
        (self.point)(FREE + MOVE * (self.chunks.len() - chunk) as u32);
        let mut slots = self.chunks.remove(chunk).slots;
        if self.spare.len() < SPARE {
            slots.clear();
            self.spare.push(slots);
        }
    }

    /// Joins the chunk with a neighbour if both are short. Places are invalid then.
    pub fn shorten(&mut self, at: Place) {
        for lower in [at.chunk, at.chunk.saturating_sub(1)] {
            if let [a, b, ..] = self.chunks.get_mut(lower..).unwrap_or_default()
                && a.slots.len() + b.slots.len() <= MERGE
            {
                (self.point)(MOVE * CHUNK as u32);
                a.slots.append(&mut b.slots);
                a.gap_bytes = a.gap_bytes.max(b.gap_bytes);
                self.drop_chunk(lower + 1);
            }
        }
    }
}
