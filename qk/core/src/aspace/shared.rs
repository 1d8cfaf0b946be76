//! Mappings of shared objects: frames of the node pool, which are not the partition's.

use super::{Aspace, Machine, fresh};
use crate::objects::{Lease, Piece};
use crate::paging;
use crate::regions::{Backing, Region, RegionFlags};
use abi::Errno;
use abi::addr::VaRange;

impl<M: Machine> Aspace<M> {
    /// Maps a part of an object at `region`, where nothing is mapped; `pieces` have it, by offset and without gaps, or nothing
    /// where the file has ended. They have frames even without access, for mprotect to find. Takes its bytes from `lease`.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn map_object(
        &mut self,
        region: Region,
        pieces: &[Piece],
        lease: &mut Lease,
    ) -> Result<(), Errno> {
        debug_assert_eq!(region.backing(), Backing::Object(lease.object()));
        self.map_pieces(region, pieces, region.offset)?;
        self.show_new(region)?;
        self.object_bytes += region.len_bytes();
        lease.pass_on(region.len_bytes());
        Ok(())
    }

    /// Gives `region`, a part of an object behind the end of its file as yet, the frames of `pieces`.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn extend_object(&mut self, region: Region, pieces: &[Piece]) -> Result<(), Errno> {
        let range = region.range();
        let room = self.regions.check_update(range);
        room.map_err(|_| Errno::ENOMEM)?;
        self.map_pieces(region, pieces, region.offset)?;
        let in_file = |region: &mut Region| region.flags.remove(RegionFlags::PAST_END);
        if self.regions.update(range, in_file).is_err() {
            self.take_out(range);
            return Err(Errno::ENOMEM);
        }
        self.note_cut();
        self.note_access(region.prot);
        self.publish_access(range, region.prot);
        Ok(())
    }

    /// Takes the frames of `range` away, all of it of one object: its file ends before, by now.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub fn cut_object(&mut self, range: VaRange) -> Result<(), Errno> {
        let room = self.regions.check_update(range);
        room.map_err(|_| Errno::ENOMEM)?;
        self.reserve_tables(range)?;
        self.take_back(range);
        let behind = |region: &mut Region| region.flags.insert(RegionFlags::PAST_END);
        let cut = self.regions.update(range, behind);
        self.note_cut();
        cut.map_err(|_| Errno::ENOMEM)
    }

    /// Maps `pieces` at `region`, from the offset `from` on.
    ///
    /// # Errors
    /// ENOMEM, with nothing changed.
    pub(super) fn map_pieces(
        &mut self,
        region: Region,
        pieces: &[Piece],
        from: u64,
    ) -> Result<(), Errno> {
        // Each may lie apart from the others, and there may be a hole before and behind them.
        self.add_pieces(pieces.len() + 2)?;
        let options = fresh(region.prot, self.max_page(&region));
        // POINT: paging::map::fill
        for piece in pieces {
            let piece = piece.clip(from, from + region.len_bytes());
            let va = region.start + (piece.offset - from);
            let range = VaRange::new(va, piece.len_bytes);
            let mapped = self.or_sync(|aspace| {
                aspace.renew(range);
                let (mut tables, root) = aspace.tables();
                paging::map(&mut tables, root, va, piece.pa, piece.len_bytes, options).ok()
            });
            if let Err(error) = mapped {
                // Some of it may have been mapped until a table was missing, and another thread or a peer may have used that.
                self.flush(range);
                if va > region.start {
                    self.take_out(region.start.until(va));
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Enters and logs a region whose frames are mapped.
    pub(super) fn show_new(&mut self, region: Region) -> Result<(), Errno> {
        self.add_region(region)?;
        self.note_access(region.prot);
        self.publish_over(region.range());
        self.publish_reservation(&region, region.range());
        Ok(())
    }
}
