//! Moving what regions show to other addresses.

use super::{Region, RegionError, Regions, check_range, list};
use abi::addr::{Va, VaRange};

impl Regions {
    /// Moves what is mapped in `from` to `to`, which may be longer, and where nothing may be mapped
    /// outside the old range. The old range must be one piece of one region (mremap's EFAULT otherwise).
    ///
    /// # Errors
    /// As [`Self::prepare_move`]; none after it.
    pub fn move_range(&mut self, from: VaRange, to: VaRange) -> Result<(), RegionError> {
        let piece = self.prepare_move(from, to.start)?;
        self.cut_out(self.list.above(piece.start), piece.range());
        self.insert(Region {
            start: to.start,
            end: to.end,
            ..piece
        })
    }

    /// Sets aside what [`Self::move_range`] needs; the piece that would be moved.
    ///
    /// # Errors
    /// Invalid, Hole (also at the end of the first region), Overlap, Full.
    pub fn prepare_move(&mut self, from: VaRange, to: Va) -> Result<Region, RegionError> {
        let piece = self.check_move(from, to)?;
        self.reserve(0, list::SPARE)?;
        Ok(piece)
    }

    fn check_move(&self, from: VaRange, to: Va) -> Result<Region, RegionError> {
        check_range(from)?;
        let to_end = to.checked_add(from.len_bytes());
        let to = to.until(to_end.ok_or(RegionError::Invalid)?);
        check_range(to)?;
        let old = self.lookup(from.start);
        let old = *old.ok_or(RegionError::Hole { at: from.start })?;
        if old.end < from.end {
            return Err(RegionError::Hole { at: old.end });
        }
        if to.overlaps(from) || !self.is_vacant(to) {
            return Err(RegionError::Overlap);
        }
        let cuts = usize::from(old.start < from.start) + usize::from(from.end < old.end);
        if self.has_room(cuts) {
            Ok(old.clip(from))
        } else {
            Err(RegionError::Full)
        }
    }
}
