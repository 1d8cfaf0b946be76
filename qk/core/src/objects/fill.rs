//! Taking frames for what an object does not have yet, and entering them.

use super::list::{push, reserve};
use super::{ENTER_WORK, Laid, Objects, Piece, TAKE_WORK};
use crate::page::{PAGE_BYTES, PageSize};
use abi::Errno;
use abi::addr::Phys;
use alloc::vec::Vec;

impl Objects {
    /// Allocates frames for `start .. end`, adjacent where that can be. Whatever it takes is in `fresh`, also when it fails.
    pub(super) fn fill(
        &mut self,
        start: u64,
        end: u64,
        fresh: &mut Vec<Piece>,
    ) -> Result<(), Errno> {
        let mut at = start;
        while at < end {
            (self.point)(TAKE_WORK);
            let last = fresh.last_mut().filter(|piece| piece.end() == at);
            let prefer = last.as_ref().map(|piece| piece.pa + piece.len_bytes);
            let taken = self.take(at, end - at, prefer).ok_or(Errno::ENOMEM)?;
            at += taken.len_bytes;
            match last {
                Some(last) if prefer == Some(taken.pa) => {
                    last.len_bytes += taken.len_bytes;
                    last.zero &= taken.zero;
                }
                _ => push(fresh, taken, self.point).inspect_err(|_| self.free(&[taken]))?,
            }
        }
        Ok(())
    }

    /// Frames for the front of `offset .. offset + len_bytes`: a large page where one can be mapped.
    pub(super) fn take(
        &mut self,
        offset: u64,
        len_bytes: u64,
        prefer: Option<Phys>,
    ) -> Option<Piece> {
        const LARGE: PageSize = PageSize::Size2M;
        let piece = |pa, len_bytes, zero| Piece {
            offset,
            len_bytes,
            pa,
            zero,
            laid: Laid::No,
            is_lost: false,
        };
        if PageSize::largest(offset, len_bytes, LARGE) == LARGE {
            let frame = self.frames.alloc_prefer(LARGE, prefer.unwrap_or_default());
            if let Some(frame) = frame {
                return Some(piece(frame.addr, LARGE.bytes(), frame.zero));
            }
        }
        let to_large = LARGE.bytes() - offset % LARGE.bytes();
        let most = (len_bytes.min(to_large) / PAGE_BYTES) as usize;
        let run = self.frames.alloc_run(most, prefer)?;
        Some(piece(run.addr, run.len_bytes, run.zero))
    }

    /// Enters new pieces into an object.
    pub(super) fn enter(&mut self, id: u32, fresh: &[Piece]) -> Result<(), Errno> {
        let point = self.point;
        reserve(&mut self.retired, self.live + fresh.len(), point)?;
        let object = self.object_mut(id).ok_or(Errno::ENOMEM)?;
        let pieces = &mut object.pieces;
        reserve(pieces, fresh.len(), point)?;
        for piece in fresh {
            point(ENTER_WORK);
            let at = pieces.partition_point(|other| other.offset < piece.offset);
            pieces.insert(at, *piece);
        }
        self.live += fresh.len();
        Ok(())
    }
}
