//! Frames for a mapping that grows, adjacent to those that it has.
//!
//! The proxy maps every physically contiguous piece on its own, and Linux allows a process so many mappings. Two mappings that grow
//! in turns, a page at a time each, would take every other frame of a chunk if they took the lowest free one. So one that
//! finds the adjacent frame taken goes on where there is room to grow, away from the other.

use super::chunk::FRAMES_PER_CHUNK;
use super::{Frames, Run, frame_in_chunk};
use crate::page::PAGE_BYTES;
use abi::addr::Phys;

/// Free frames in a row that are worth going on among, in a chunk that others use.
const ROOM: usize = 64;

/// Where frames are to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere.
    Any,
    /// Here, else anywhere.
    At(Phys),
    /// For a mapping that grows towards higher addresses, whose frames end here.
    Behind(Phys),
    /// For one that grows towards lower addresses, whose frames begin here.
    Below(Phys),
}

impl Frames {
    /// As [`Self::alloc_run`], at `place`.
    pub fn alloc_at(&mut self, frames: usize, place: Place) -> Option<Run> {
        match place {
            Place::Any => self.alloc_run(frames, None),
            Place::At(at) => self.alloc_run(frames, Some(at)),
            Place::Behind(at) => match self.run_at(at, frames) {
                None => self.alloc_apart(frames, at),
                found => found,
            },
            Place::Below(end) => match self.run_below(end, frames) {
                None => self.alloc_on_top(frames),
                found => found,
            },
        }
    }

    /// Frames that end at `end`, if the first and the last of them are free.
    fn run_below(&mut self, end: Phys, frames: usize) -> Option<Run> {
        let at = end.checked_sub(frames as u64 * PAGE_BYTES)?;
        if frames > 1 && !self.is_free(end.before(PAGE_BYTES)) {
            return None;
        }
        self.run_at(at, frames)
    }

    /// Where a mapping can grow upwards: in the middle of what is free in the chunk of `taken`, else in a chunk of its own.
    fn alloc_apart(&mut self, frames: usize, taken: Phys) -> Option<Run> {
        if self.holds(taken, PAGE_BYTES) {
            let c = self.chunk_of(taken);
            let (first, room) = self.bits_of(c).map_or((0, 0), |bits| bits.longest_gap());
            if room >= ROOM.max(2 * frames) {
                return self.take_run(c, Some(first + room / 2), frames);
            }
        }
        match self.whole.first() {
            Some(c) => self.take_run(c, Some(0), frames),
            None => self.alloc_run(frames, None),
        }
    }

    /// Where a mapping can grow downwards: at the end of the highest unused chunk.
    fn alloc_on_top(&mut self, frames: usize) -> Option<Run> {
        match self.whole.last() {
            Some(c) => self.take_run(c, FRAMES_PER_CHUNK.checked_sub(frames), frames),
            None => self.alloc_run(frames, None),
        }
    }

    /// Whether the frame at `addr` is of this partition and free.
    fn is_free(&self, addr: Phys) -> bool {
        if !addr.is_aligned(PAGE_BYTES) || !self.holds(addr, PAGE_BYTES) {
            return false;
        }
        let c = self.chunk_of(addr);
        self.whole.contains(c)
            || self
                .bits_of(c)
                .is_some_and(|bits| bits.is_free(frame_in_chunk(addr)))
    }
}
