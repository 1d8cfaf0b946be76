//! Moving what regions show to other addresses.

use super::{Region, RegionError, Regions, check_range, list};

impl Regions {
    /// Moves what is mapped in `[start, start + len)` to `to .. to_end`, which may be longer, and where nothing may be mapped
    /// outside the old range. The old range must be one piece of one region (mremap's EFAULT otherwise).
    ///
    /// # Errors
    /// As [`Self::prepare_move`]; none after it.
    pub fn move_range(
        &mut self,
        start: u64,
        len_bytes: u64,
        to: u64,
        to_end: u64,
    ) -> Result<(), RegionError> {
        let piece = self.prepare_move(start, len_bytes, to)?;
        self.cut_out(self.list.above(piece.start), piece.start, piece.end);
        self.insert(Region {
            start: to,
            end: to_end,
            ..piece
        })
    }

    /// Sets aside what [`Self::move_range`] needs; the piece that would be moved.
    ///
    /// # Errors
    /// Invalid, Hole (also at the end of the first region), Overlap, Full.
    pub fn prepare_move(
        &mut self,
        start: u64,
        len_bytes: u64,
        to: u64,
    ) -> Result<Region, RegionError> {
        let piece = self.check_move(start, len_bytes, to)?;
        self.reserve(0, list::SPARE)?;
        Ok(piece)
    }

    fn check_move(&self, start: u64, len_bytes: u64, to: u64) -> Result<Region, RegionError> {
        let end = start.checked_add(len_bytes).ok_or(RegionError::Invalid)?;
        let to_end = to.checked_add(len_bytes).ok_or(RegionError::Invalid)?;
        check_range(start, end)?;
        check_range(to, to_end)?;
        let old = *self.lookup(start).ok_or(RegionError::Hole { at: start })?;
        if old.end < end {
            return Err(RegionError::Hole { at: old.end });
        }
        if to < end && start < to_end || !self.is_vacant(to, to_end) {
            return Err(RegionError::Overlap);
        }
        let cuts = usize::from(old.start < start) + usize::from(end < old.end);
        if self.has_room(cuts) {
            Ok(old.clip(start, end))
        } else {
            Err(RegionError::Full)
        }
    }
}
