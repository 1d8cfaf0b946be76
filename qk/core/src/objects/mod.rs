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
mod list;
mod object;
mod piece;
mod table;
mod text;

#[cfg(test)]
mod tests;

pub use lease::{Lease, TextLease};
pub use piece::{File, Laid, Piece, Run};
pub use text::{AttachedText, TextKey};

use abi::Errno;
use abi::addr::PhysRange;
use alloc::vec::Vec;

use crate::Point;
use crate::frames::{self, Frames};
use list::{push, reserve};
use object::Object;
use table::Table;

/// Numbers of objects begin here: smaller ones are a rank's own, of its private mappings ([`abi::control::MappedFile`]).
pub const FIRST: u32 = abi::control::MappedFile::MAX_OBJECT + 1;

/// Work of taking frames for the front of a range, in instructions.
const TAKE_WORK: u32 = 200;
/// Work of going over a piece, and of putting one between the others.
const PIECE_WORK: u32 = 40;
const ENTER_WORK: u32 = 1000;

/// What a mapping of an object that has gone leaves.
#[derive(PartialEq, Eq, Debug)]
pub struct Left {
    /// Of this file.
    pub file: File,
    /// It was its rank's last.
    pub last: bool,
    /// Frames, for [`Objects::retire`]: it was the last of all.
    pub dead: Option<Vec<Piece>>,
}

/// All objects of the node, and the pool.
pub struct Objects {
    frames: Frames,
    objects: Table,
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
            objects: Table::new(point)?,
            retired: Vec::new(),
            live: 0,
            texts: Vec::new(),
            last_text: 0,
            text_bytes: 0,
            point,
        })
    }

    /// Lends `len_bytes` of a file to a mapping that a rank is about to make.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn attach(&mut self, file: File, rank: usize, len_bytes: u64) -> Result<Lease, Errno> {
        let known = self.objects.number_of(file);
        let number = match known {
            Some(number) => number,
            None => self.objects.make(file)?,
        };
        let object = self.objects.get_mut(number).expect("found or made");
        let held = object.hold(rank, len_bytes, self.point);
        if held.is_err() && known.is_none() {
            self.objects.remove(number);
        }
        held.map(|()| Lease::new(FIRST + number, len_bytes))
    }

    /// Takes back what was lent to mappings of a rank that are gone. After the last one of all ranks there is no such object any more.
    pub fn detach(&mut self, lease: Lease, rank: usize) -> Option<Left> {
        let (id, len_bytes) = lease.end();
        let number = id.checked_sub(FIRST)?;
        let object = self.objects.get_mut(number)?;
        let (file, last) = (object.file, object.let_go(rank, len_bytes, self.point));
        let is_dead = object.holders() == 0;
        let dead = is_dead.then(|| self.objects.remove(number)).flatten();
        let dead = dead.map(|object| object.pieces);
        Some(Left { file, last, dead })
    }

    /// How often the host's processes have a file mapped that no program has: once for each rank, and each piece.
    pub fn attachments(&self, file: File) -> u64 {
        let object = self.objects.number_of(file);
        let object = object.and_then(|number| self.objects.get(number));
        object.map_or(0, |object| {
            object.holders() as u64 + object.pieces.len() as u64
        })
    }

    /// Whether a rank maps any of a file and shares it.
    pub fn is_held(&self, file: File, rank: usize) -> bool {
        let object = self.objects.number_of(file);
        let object = object.and_then(|number| self.objects.get(number));
        object.is_some_and(|object| object.is_held_by(rank, self.point))
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
            push(&mut holes, hole, self.point)?;
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
            push(&mut found, *piece, self.point)?;
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
    ///
    /// # Errors
    /// ENOMEM.
    pub fn retired(&self) -> Result<Vec<Piece>, Errno> {
        let mut pieces = Vec::new();
        reserve(&mut pieces, self.retired.len(), self.point)?;
        for piece in &self.retired {
            (self.point)(PIECE_WORK);
            pieces.push(*piece);
        }
        Ok(pieces)
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

    fn object(&self, id: u32) -> Option<&Object> {
        self.objects.get(id.checked_sub(FIRST)?)
    }

    fn object_mut(&mut self, id: u32) -> Option<&mut Object> {
        self.objects.get_mut(id.checked_sub(FIRST)?)
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
