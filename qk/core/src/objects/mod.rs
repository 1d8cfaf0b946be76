//! Shared objects: the files that ranks of the node have mapped with MAP_SHARED, and which frames of the node pool hold them.
//!
//! An object is known by the file's device and inode and lives while some rank maps any of it. It has frames for what
//! was ever mapped of it, in runs of adjacent frames (*pieces*) as long as the pool has them; the host lays the file's own pages over
//! them. All of its frames come back together, when its last mapping goes: [`Objects::detach`] hands the pieces out, and
//! [`Objects::retire`] takes them back when the file is not laid over them any more. Cores that reached them by a window,
//! and children of ranks, let go when the frames are needed: [`Objects::release`].
//!
//! The pool's other use is text that ranks share and never write to ([`Objects::attach_text`]).
//!
//! What would make us revisit it: programs that slide a window over a file much larger than the pool. Then mappings would have
//! to be counted per piece.

mod fill;
mod lease;
mod piece;
mod text;

#[cfg(test)]
mod tests;

pub use lease::{Lease, TextLease};
pub use piece::{Laid, Piece, Run};
pub use text::{AttachedText, TextKey};

use abi::Errno;
use abi::addr::PhysRange;
use abi::map::MAX_RANKS;
use alloc::vec::Vec;
use core::ops::Range;

use crate::Point;
use crate::frames::{self, Frames};

/// Numbers of objects begin here: smaller ones are a rank's own, of its private mappings ([`abi::control::MappedFile`]).
pub const FIRST: u32 = abi::control::MappedFile::MAX_OBJECT + 1;

/// Work of taking frames for the front of a range, in instructions.
const TAKE_WORK: u32 = 200;
/// Work of going over a piece, and of putting one between the others.
const PIECE_WORK: u32 = 20;
/// Work of looking at an object, or at its entry.
const LOOK_WORK: u32 = 10;
const ENTER_WORK: u32 = 1000;

/// What a file is told apart by on the host: device and inode.
pub type File = [u64; 2];

struct Object {
    file: File,
    /// Bytes of all mappings of it, in all ranks.
    mapped_bytes: u64,
    /// By offset.
    pieces: Vec<Piece>,
    /// Ranks whose proxies hold it, a bit each.
    holders: [u64; MAX_RANKS.div_ceil(64)],
}

impl Object {
    /// The pieces that touch `from .. to`.
    fn range(&self, from: u64, to: u64) -> &[Piece] {
        &self.pieces[self.indices(from, to)]
    }

    fn range_mut(&mut self, from: u64, to: u64) -> &mut [Piece] {
        let indices = self.indices(from, to);
        &mut self.pieces[indices]
    }

    fn indices(&self, from: u64, to: u64) -> Range<usize> {
        let first = self.pieces.partition_point(|piece| piece.end() <= from);
        let end = self.pieces.partition_point(|piece| piece.offset < to);
        first..end.max(first)
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
    /// Pieces of objects that are not retired: there is room for all of them in `retired`.
    live: usize,
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
        Some(Objects {
            frames: Frames::new(pool.start, pool.len_bytes(), zeroed, point)?,
            objects: Vec::new(),
            retired: Vec::new(),
            live: 0,
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
        let index = match self.index_of(file) {
            Some(index) => index,
            None => {
                self.forget_text(file);
                self.vacant()?
            }
        };
        let object = self.objects[index].get_or_insert(Object {
            file,
            mapped_bytes: 0,
            pieces: Vec::new(),
            holders: [0; _],
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

    /// Whether the proxy of a rank holds an object.
    pub fn note_holder(&mut self, id: u32, rank: usize, holds: bool) {
        if let Some(object) = self.object_mut(id) {
            let (word, bit) = (&mut object.holders[rank / 64], 1 << (rank % 64));
            *word = if holds { *word | bit } else { *word & !bit };
        }
    }

    /// How often the host's processes have a file mapped that no program has: once for each holder, and each piece.
    pub fn attachments(&self, file: File) -> u64 {
        let object = self
            .index_of(file)
            .and_then(|index| self.objects[index].as_ref());
        object.map_or(0, |object| {
            // BOUND: the words of the holders.
            let holders: u32 = object.holders.iter().map(|word| word.count_ones()).sum();
            u64::from(holders) + object.pieces.len() as u64
        })
    }

    /// Whether ranks map a file and share it.
    pub fn has(&self, file: File) -> bool {
        self.index_of(file).is_some()
    }

    /// The file of an object.
    pub fn file(&self, id: u32) -> Option<File> {
        self.object(id).map(|object| object.file)
    }

    /// Gives the object frames for what has none of `from .. to`; returns the new ones, by offset.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed: the pool has not so many frames left.
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
            .try_for_each(|&(start, end)| self.fill(start, end, &mut fresh));
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

    /// The pieces that have something of `from .. to`, by offset: without gaps once [`Self::extend`] has been called.
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
            push(&mut found, *piece)?;
        }
        Ok(found)
    }

    /// The file is laid over the pieces that have something of `from .. to`, at least in this way.
    pub fn note_laid(&mut self, id: u32, from: u64, to: u64, laid: Laid) {
        let point = self.point;
        if let Some(object) = self.object_mut(id) {
            for piece in object.range_mut(from, to) {
                point(PIECE_WORK);
                piece.laid = piece.laid.max(laid);
            }
        }
    }

    /// The file did not have the page at this offset when it was touched.
    pub fn note_lost(&mut self, id: u32, offset: u64) {
        self.set_lost(id, offset, offset + 1, true);
    }

    /// The pieces that have something of `from .. to` are looked for in the file again.
    pub fn note_found(&mut self, id: u32, from: u64, to: u64) {
        self.set_lost(id, from, to, false);
    }

    fn set_lost(&mut self, id: u32, from: u64, to: u64, is_lost: bool) {
        let point = self.point;
        if let Some(object) = self.object_mut(id) {
            for piece in object.range_mut(from, to) {
                point(PIECE_WORK);
                piece.is_lost = is_lost;
            }
        }
    }

    /// Takes frames back that no mapping shows, no file is laid over and no proxy uses. They are not free before [`Self::release`].
    pub fn retire(&mut self, pieces: &[Piece]) {
        self.live -= pieces.len();
        self.retired.extend_from_slice(pieces);
    }

    /// What was retired and is not free yet.
    pub fn retired(&self) -> &[Piece] {
        &self.retired
    }

    /// Makes retired frames free: those of some pieces of [`Self::retired`], in that order. They cannot be reached any more: by no
    /// window, no child.
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
        }
    }

    /// Bytes of the pool in use, or retired.
    pub fn used_bytes(&self) -> u64 {
        self.frames.used_bytes()
    }

    /// Whether half of the pool stays unused when `len_bytes` more are used.
    pub fn leaves_half(&self, len_bytes: u64) -> bool {
        let left = self.frames.free_bytes().checked_sub(len_bytes);
        left.is_some_and(|left| left >= self.used_bytes().saturating_add(len_bytes))
    }

    fn index_of(&self, file: File) -> Option<usize> {
        self.entry(|object| object.as_ref().is_some_and(|object| object.file == file))
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
