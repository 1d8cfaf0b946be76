//! One object.

use super::list::push;
use super::piece::{File, Piece};
use crate::Point;
use abi::Errno;
use alloc::vec::Vec;
use core::ops::Range;

/// Work of looking at a holder, in instructions.
const LOOK_WORK: u32 = 15;

/// A rank whose proxy holds the file, and the bytes of all its mappings of it.
struct Holder {
    rank: usize,
    mapped_bytes: u64,
}

/// A file that ranks share.
pub struct Object {
    /// Which one.
    pub file: File,
    holders: Vec<Holder>,
    /// By offset.
    pub pieces: Vec<Piece>,
}

impl Object {
    /// Nobody maps it yet.
    pub const fn new(file: File) -> Object {
        Object {
            file,
            holders: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// A rank maps more of it.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn hold(&mut self, rank: usize, len_bytes: u64, point: Point) -> Result<(), Errno> {
        if let Some(index) = self.index_of(rank, point) {
            self.holders[index].mapped_bytes += len_bytes;
            return Ok(());
        }
        let mapped_bytes = len_bytes;
        push(&mut self.holders, Holder { rank, mapped_bytes }, point)
    }

    /// A rank maps less of it; whether that was the last.
    pub fn let_go(&mut self, rank: usize, len_bytes: u64, point: Point) -> bool {
        let Some(index) = self.index_of(rank, point) else {
            return true;
        };
        let holder = &mut self.holders[index];
        holder.mapped_bytes = holder.mapped_bytes.saturating_sub(len_bytes);
        let last = holder.mapped_bytes == 0;
        if last {
            self.holders.swap_remove(index);
        }
        last
    }

    /// Whether a rank maps any of it.
    pub fn is_held_by(&self, rank: usize, point: Point) -> bool {
        self.index_of(rank, point).is_some()
    }

    /// How many ranks do.
    pub fn holders(&self) -> usize {
        self.holders.len()
    }

    fn index_of(&self, rank: usize, point: Point) -> Option<usize> {
        self.holders.iter().position(|holder| {
            point(LOOK_WORK);
            holder.rank == rank
        })
    }

    /// The pieces that touch `from .. to`.
    pub fn range(&self, from: u64, to: u64) -> &[Piece] {
        &self.pieces[self.indices(from, to)]
    }

    /// Likewise.
    pub fn range_mut(&mut self, from: u64, to: u64) -> &mut [Piece] {
        let indices = self.indices(from, to);
        &mut self.pieces[indices]
    }

    fn indices(&self, from: u64, to: u64) -> Range<usize> {
        let first = self.pieces.partition_point(|piece| piece.end() <= from);
        let end = self.pieces.partition_point(|piece| piece.offset < to);
        first..end.max(first)
    }

    /// What of `from .. to` has no frames.
    pub fn holes(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
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
