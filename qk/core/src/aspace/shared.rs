//! Mappings of shared objects: frames of the node pool, which are not the partition's.

use super::{Aspace, Machine, fresh};
use crate::objects::Piece;
use crate::paging;
use crate::regions::Region;
use abi::Errno;

impl<M: Machine> Aspace<M> {
    /// Maps frames of the node pool at `region`, where nothing is mapped; `pieces` hold its part of the object, by offset and
    /// without gaps. They have frames even without access, for mprotect to find.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn map_shared(&mut self, region: Region, pieces: &[Piece]) -> Result<(), Errno> {
        // Each may lie apart from the others, and there may be a hole before and behind them.
        self.add_pieces(pieces.len() + 2)?;
        let options = fresh(region.prot, self.max_page(&region));
        // POINT: paging::map::fill
        for piece in pieces {
            let va = region.start + (piece.offset - region.offset);
            let mapped = self.or_sync(|aspace| {
                aspace.renew(va, va + piece.len_bytes);
                let (mut tables, root) = aspace.tables();
                paging::map(&mut tables, root, va, piece.pa, piece.len_bytes, options).ok()
            });
            if let Err(error) = mapped {
                // Some of it may have been mapped until a table was missing, and another thread or a peer may have used that.
                self.flush(va, va + piece.len_bytes);
                if va > region.start {
                    self.take_out(region.start, va);
                }
                return Err(error.into());
            }
        }
        self.add_region(region)?;
        self.note_code(region.prot);
        self.publish(region.start, region.end);
        Ok(())
    }

    /// Shows `visit(va, pa, len_bytes)` what may have been written of `start .. end` since it was mapped.
    pub fn visit_dirty(&mut self, start: u64, end: u64, visit: impl FnMut(u64, u64, u64)) {
        let (mut tables, root) = self.tables();
        paging::visit_dirty(&mut tables, root, start, end, visit);
    }
}
