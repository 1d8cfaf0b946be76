//! Shared objects: the files that ranks of the node have mapped with MAP_SHARED, and which frames of the node pool hold them.
//!
//! An object is known by the file's device and inode and lives while some rank maps any of it. It has frames for what
//! was ever mapped of it, in runs of adjacent frames (*pieces*) as long as the pool has them. All of its frames come
//! back together, when its last mapping goes: what may still write to them has to let go first. The ranks' proxies at
//! once: [`Objects::detach`] hands the pieces out and [`Objects::retire`] takes them back. Cores that reached them by a window,
//! and children of ranks, when the frames are needed: [`Objects::release`].
//!
//! The pool's other use is text that ranks share and never write to ([`Objects::attach_text`]).
//!
//! What would make us revisit it: programs that slide a window over a file much larger than the pool. Then mappings would have
//! to be counted per piece.

mod fill;
mod lease;
mod text;

#[cfg(test)]
mod tests;

pub use lease::{Lease, TextLease};
pub use text::{AttachedText, TextKey};

use abi::Errno;
use abi::addr::{Phys, PhysRange};
use alloc::vec::Vec;

use crate::Point;
use crate::frames::{self, Frames};

/// Numbers of objects begin here: smaller ones are a rank's own, of its private mappings ([`abi::control::MappedFile`]).
pub const FIRST: u32 = abi::control::MappedFile::MAX_OBJECT + 1;
/// Pieces of all objects together: each has a slot in the directory that proxies read.
pub const MOST_PIECES: usize = wire::objects::ENTRIES;

/// Work of taking frames for the front of a range, in instructions.
const TAKE_WORK: u32 = 200;
/// Work of going over a piece, and of putting one between the others.
const PIECE_WORK: u32 = 20;
/// Work of looking at an object, or at its entry.
const LOOK_WORK: u32 = 10;
const ENTER_WORK: u32 = 1000;

/// What a file is told apart by on the host: device and inode.
pub type File = [u64; 2];

/// Adjacent frames that hold something of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Offset in the file of the first byte.
    pub offset: u64,
    /// Address of the first byte.
    pub pa: Phys,
    /// Length in bytes.
    pub len_bytes: u64,
}

impl Run {
    /// Makes it longer by `next`; `false`: that is not adjacent both ways.
    pub fn append(&mut self, next: &Run) -> bool {
        let (end, end_pa) = (self.offset + self.len_bytes, self.pa + self.len_bytes);
        let is_adjacent = next.offset == end && next.pa == end_pa;
        if is_adjacent {
            self.len_bytes += next.len_bytes;
        }
        is_adjacent
    }
}

/// Bytes of an object in adjacent frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Offset in the file of the first byte; a multiple of 4 KiB.
    pub offset: u64,
    /// Length in bytes; a multiple of 4 KiB.
    pub len_bytes: u64,
    /// Address of the first byte.
    pub pa: Phys,
    /// Known to hold zeros, when it is new.
    pub zero: bool,
    /// Number of its place in the directory; [`MOST_PIECES`]: it has none.
    pub slot: usize,
}

impl Piece {
    /// End of it in the file.
    pub const fn end(&self) -> u64 {
        self.offset + self.len_bytes
    }

    /// Its frames.
    pub const fn run(&self) -> Run {
        Run {
            offset: self.offset,
            pa: self.pa,
            len_bytes: self.len_bytes,
        }
    }

    /// The part in `from .. to` of the file, which must overlap.
    #[must_use]
    pub fn clip(&self, from: u64, to: u64) -> Piece {
        let start = self.offset.max(from);
        Piece {
            offset: start,
            len_bytes: self.end().min(to) - start,
            pa: self.pa + (start - self.offset),
            ..*self
        }
    }
}

struct Object {
    file: File,
    /// Bytes of all mappings of it, in all ranks.
    mapped_bytes: u64,
    /// By offset.
    pieces: Vec<Piece>,
}

impl Object {
    /// The pieces that touch `from .. to`.
    fn range(&self, from: u64, to: u64) -> &[Piece] {
        let first = self.pieces.partition_point(|piece| piece.end() <= from);
        let end = self.pieces.partition_point(|piece| piece.offset < to);
        &self.pieces[first..end.max(first)]
    }

    /// What of `from .. to` has no frames.
    fn holes(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let pieces = self.range(from, to).iter();
        let edges = pieces.map(|piece| (piece.offset, piece.end()));
        let mut at = from;
        edges.chain([(to, to)]).filter_map(move |(start, end)| {
            let hole = (at, start);
            at = end.max(at);
            (hole.0 < hole.1).then_some(hole)
        })
    }
}

/// All objects of the node, and the pool.
pub struct Objects {
    frames: Frames,
    objects: Vec<Option<Object>>,
    /// Of objects that are gone, and text that is not mapped any more: not free yet.
    retired: Vec<Piece>,
    /// A bit per slot of the directory: taken.
    slots: [u64; MOST_PIECES / 64],
    texts: Vec<text::Text>,
    /// Index of the one that was found last.
    last_text: usize,
    /// Bytes of frames that are text, or about to become that.
    text_bytes: u64,
    point: Point,
}

impl Objects {
    /// No objects, and frames of `pool`; `zeroed`: it is known to hold zeros. `None` when there is no memory for
    /// its records.
    pub fn new(pool: PhysRange, zeroed: bool, point: Point) -> Option<Objects> {
        point(frames::SET_UP_WORK);
        let mut retired = Vec::new();
        // Each piece of an object has a slot, so there is always room.
        retired.try_reserve_exact(MOST_PIECES).ok()?;
        Some(Objects {
            frames: Frames::new(pool.start, pool.len_bytes(), zeroed, point)?,
            objects: Vec::new(),
            retired,
            slots: [0; _],
            texts: Vec::new(),
            last_text: 0,
            text_bytes: 0,
            point,
        })
    }

    /// Lends `len_bytes` of a file to a mapping that is about to be made.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn attach(&mut self, file: File, len_bytes: u64) -> Result<Lease, Errno> {
        let known = |object: &Option<Object>| object.as_ref().is_some_and(|o| o.file == file);
        let index = match self.entry(known) {
            Some(index) => index,
            None => self.vacant()?,
        };
        let object = self.objects[index].get_or_insert(Object {
            file,
            mapped_bytes: 0,
            pieces: Vec::new(),
        });
        object.mapped_bytes += len_bytes;
        Ok(Lease::new(FIRST + index as u32, len_bytes))
    }

    /// Takes back what was lent to mappings of an object that are gone. After the last one there is no such object any more: its
    /// pieces are returned, for [`Self::retire`].
    pub fn detach(&mut self, lease: Lease) -> Option<Vec<Piece>> {
        let (id, len_bytes) = lease.end();
        let slot = self.objects.get_mut((id.checked_sub(FIRST)?) as usize)?;
        let object = slot.as_mut()?;
        object.mapped_bytes = object.mapped_bytes.saturating_sub(len_bytes);
        let dead = slot.take_if(|object| object.mapped_bytes == 0)?;
        Some(dead.pieces)
    }

    /// The file of an object.
    pub fn file(&self, id: u32) -> Option<File> {
        self.object(id).map(|object| object.file)
    }

    /// Gives the object frames for what has none of `from .. to`; returns the new ones, by offset.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: the pool has not so many frames left, or the directory no slots.
    pub fn extend(&mut self, id: u32, from: u64, to: u64) -> Result<Vec<Piece>, Errno> {
        let object = self.object(id).ok_or(Errno::ENOMEM)?;
        let bytes = |(start, end)| {
            (self.point)(PIECE_WORK);
            end - start
        };
        // POINT: extend
        let wanted: u64 = object.holes(from, to).map(bytes).sum();
        if wanted > self.frames.free_bytes() {
            return Err(Errno::ENOMEM);
        }
        let mut holes = Vec::new();
        for hole in object.holes(from, to) {
            (self.point)(PIECE_WORK);
            push(&mut holes, hole)?;
        }
        let mut fresh = Vec::new();
        // POINT: objects::fill::fill
        let filled = holes
            .iter()
            .try_for_each(|&(start, end)| self.fill(start, end, &mut fresh, true));
        let entered = filled.and_then(|()| self.enter(id, &fresh));
        if let Err(errno) = entered {
            self.free(&fresh);
            return Err(errno);
        }
        Ok(fresh)
    }

    /// Takes back what [`Self::extend`] returned; the frames are to be given to [`Self::retire`].
    pub fn retract(&mut self, id: u32, fresh: &[Piece]) {
        let point = self.point;
        if let Some(object) = self.object_mut(id) {
            take_out(&mut object.pieces, fresh, point);
        }
    }

    /// The frames of `from .. to`, by offset: without gaps once [`Self::extend`] has been called.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn pieces(&self, id: u32, from: u64, to: u64) -> Result<Vec<Piece>, Errno> {
        let mut found = Vec::new();
        for piece in self
            .object(id)
            .map_or(&[][..], |object| object.range(from, to))
        {
            (self.point)(PIECE_WORK);
            push(&mut found, piece.clip(from, to))?;
        }
        Ok(found)
    }

    /// Takes frames back that no mapping shows and no proxy uses. They are not free before [`Self::release`].
    pub fn retire(&mut self, pieces: &[Piece]) {
        self.retired.extend_from_slice(pieces);
    }

    /// What was retired and is not free yet.
    pub fn retired(&self) -> &[Piece] {
        &self.retired
    }

    /// Makes retired frames free, and their slots: those of some pieces of [`Self::retired`], in that order. They cannot be
    /// reached any more: by no window, no child.
    pub fn release(&mut self, pieces: &[Piece]) {
        take_out(&mut self.retired, pieces, self.point);
        self.free(pieces);
    }

    fn free(&mut self, pieces: &[Piece]) {
        // POINT: frames::free::free_range
        for piece in pieces {
            self.frames
                .free_range(piece.pa, piece.len_bytes, false)
                .expect("frames of an object were in use");
            if let Some(word) = self.slots.get_mut(piece.slot / 64) {
                *word &= !(1 << (piece.slot % 64));
            }
        }
    }

    /// Bytes of the pool in use, or retired.
    pub fn used_bytes(&self) -> u64 {
        self.frames.used_bytes()
    }

    /// Whether half of the pool and of the directory stay unused when one more run of `len_bytes` is made.
    pub fn leaves_half(&self, len_bytes: u64) -> bool {
        // BOUND: the words of the slots.
        let pieces: u32 = self.slots.iter().map(|word| word.count_ones()).sum();
        let free_bytes = self.frames.free_bytes();
        (pieces as usize) < MOST_PIECES / 2
            && free_bytes
                .checked_sub(len_bytes)
                .is_some_and(|left| left >= self.used_bytes().saturating_add(len_bytes))
    }

    /// Index of the first entry that is wanted: there may be as many as all ranks have regions.
    fn entry(&self, is_wanted: impl Fn(&Option<Object>) -> bool) -> Option<usize> {
        self.objects.iter().position(|object| {
            (self.point)(LOOK_WORK);
            is_wanted(object)
        })
    }

    /// Index of an entry for a new object.
    fn vacant(&mut self) -> Result<usize, Errno> {
        if let Some(index) = self.entry(Option::is_none) {
            return Ok(index);
        }
        push(&mut self.objects, None)?;
        Ok(self.objects.len() - 1)
    }

    fn object(&self, id: u32) -> Option<&Object> {
        let index = id.checked_sub(FIRST)? as usize;
        self.objects.get(index)?.as_ref()
    }

    fn object_mut(&mut self, id: u32) -> Option<&mut Object> {
        let index = id.checked_sub(FIRST)? as usize;
        self.objects.get_mut(index)?.as_mut()
    }
}

/// Takes some pieces out of a list that has them in the same order. Once each was looked for among all.
///
/// # Panics
/// When one is not there: it would be used twice.
fn take_out(list: &mut Vec<Piece>, some: &[Piece], point: Point) {
    let mut left = some.iter().peekable();
    list.retain(|piece| {
        point(PIECE_WORK);
        left.next_if_eq(&piece).is_none()
    });
    assert!(
        left.next().is_none(),
        "not in the list, or in another order"
    );
}

/// Appends without panicking when the heap is full.
fn push<T>(to: &mut Vec<T>, value: T) -> Result<(), Errno> {
    to.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    to.push(value);
    Ok(())
}
