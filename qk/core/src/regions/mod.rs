//! The region map: what each user address of slot 0 means, as Linux's VMAs do.
//!
//! A sorted array. Programs have tens of regions, the largest traced had 525: binary search plus a
//! `memmove` beats any tree at that size, and a range walk is a slice walk. Each change checks its
//! capacity first and then cannot fail, so an error leaves the map as it was.
//!
//! Frames are not this module's business: callers are shown the pieces that went away or changed
//! ([`Regions::remove`], [`Regions::protect`]) and act on the page tables themselves.

mod region;
#[cfg(test)]
mod tests;

pub use region::{Kind, Prot, Region, RegionFlags};

use alloc::vec::Vec;

/// Regions a rank may have unless told otherwise; Linux's default is 65530.
pub const DEFAULT_CAPACITY: usize = 4096;

/// Why a change was refused. Nothing has changed, except as [`RegionError::Hole`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// Something is mapped in the range already.
    Overlap,
    /// It could need more regions than the map has room for: ENOMEM.
    Full,
    /// Empty or misaligned range.
    Invalid,
    /// Nothing is mapped at `at`: ENOMEM (or EFAULT, as the call has it).
    Hole {
        /// First unmapped address of the range.
        at: u64,
    },
}

/// The map of one address space.
pub struct Regions {
    /// Room for two more than the capacity, for pieces that exist only during a change. Never grows.
    slots: Vec<Region>,
    capacity: usize,
}

impl Regions {
    /// An empty map with room for `capacity` regions.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity + 2),
            capacity,
        }
    }

    /// All regions, by address.
    pub fn as_slice(&self) -> &[Region] {
        &self.slots
    }

    /// How many regions the map can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether any change that adds up to `extra` regions would go through. A change of access, a
    /// move, or a fixed mapping over old ones adds at most two.
    pub fn has_room(&self, extra: usize) -> bool {
        self.slots.len() + extra <= self.capacity()
    }

    /// The region that contains `addr`.
    pub fn lookup(&self, addr: u64) -> Option<&Region> {
        self.as_slice()
            .get(self.index_above(addr))
            .filter(|r| r.contains(addr))
    }

    /// The pieces of regions inside `[start, end)`, clipped to it, by address.
    pub fn iter_range(&self, start: u64, end: u64) -> impl Iterator<Item = Region> + '_ {
        self.as_slice()[self.index_above(start)..]
            .iter()
            .take_while(move |r| r.start < end)
            .map(move |r| r.clip(start, end))
    }

    /// Whether nothing is mapped in `[start, end)`.
    pub fn is_vacant(&self, start: u64, end: u64) -> bool {
        self.iter_range(start, end).next().is_none()
    }

    /// The first address of `[start, end)` where nothing is mapped.
    pub fn first_hole(&self, start: u64, end: u64) -> Option<u64> {
        let mut at = start;
        for region in self.iter_range(start, end) {
            if region.start > at {
                break;
            }
            at = region.end;
        }
        (at < end).then_some(at)
    }

    /// Adds a region where nothing is mapped, joining it with neighbours that are alike.
    ///
    /// # Errors
    /// Invalid, Overlap, Full.
    pub fn insert(&mut self, region: Region) -> Result<(), RegionError> {
        check_range(region.start, region.end)?;
        if !self.is_vacant(region.start, region.end) {
            return Err(RegionError::Overlap);
        }
        let i = self.index_above(region.start);
        let joins_before = i > 0 && self.slots[i - 1].joins(&region);
        let joins_after = i < self.slots.len() && region.joins(&self.slots[i]);
        if self.slots.len() + 1 - usize::from(joins_before) - usize::from(joins_after)
            > self.capacity()
        {
            return Err(RegionError::Full);
        }
        self.open_slot(i, region);
        self.merge(i, i + 1);
        Ok(())
    }

    /// Unmaps `[start, end)`, holes allowed as munmap allows them. `visit` sees each piece removed.
    ///
    /// # Errors
    /// Invalid; Full, when a region would be cut in two and there is no room.
    pub fn remove(
        &mut self,
        start: u64,
        end: u64,
        mut visit: impl FnMut(&Region),
    ) -> Result<(), RegionError> {
        check_range(start, end)?;
        self.check_remove(start, end)?;
        let first = self.split_at(start);
        let last = self.split_at(end);
        self.slots[first..last].iter().for_each(&mut visit);
        self.slots.drain(first..last);
        Ok(())
    }

    /// Whether [`Self::remove`] would have room.
    ///
    /// # Errors
    /// Full.
    pub fn check_remove(&self, start: u64, end: u64) -> Result<(), RegionError> {
        let cuts_in_two = self
            .lookup(start)
            .is_some_and(|r| r.start < start && end < r.end);
        if cuts_in_two && self.slots.len() == self.capacity() {
            Err(RegionError::Full)
        } else {
            Ok(())
        }
    }

    /// Changes the access of `[start, end)` as mprotect does: from `start` up to the first hole, or
    /// the whole range. `visit` sees each piece as it was before.
    ///
    /// # Errors
    /// Invalid or Full with nothing changed. Hole: what lies below the hole has been changed, as on
    /// Linux; use [`Self::first_hole`] beforehand to treat the range as a whole.
    pub fn protect(
        &mut self,
        start: u64,
        end: u64,
        prot: Prot,
        mut visit: impl FnMut(&Region),
    ) -> Result<(), RegionError> {
        self.update(start, end, |region| {
            visit(region);
            region.prot = prot;
            if prot.contains(Prot::WRITE) {
                region.flags.remove(RegionFlags::UNWRITTEN);
            }
        })
    }

    /// Whether all of `wanted`, a private mapping of a file, shows just that already, so that only access can differ.
    pub fn shows(&self, wanted: &Region) -> bool {
        let alike = |piece: &Region| {
            piece.kind == wanted.kind
                && piece.object == wanted.object
                && piece.offset == wanted.offset_at(piece.start)
                && piece.flags.contains(RegionFlags::UNWRITTEN)
        };
        self.first_hole(wanted.start, wanted.end).is_none()
            && self
                .iter_range(wanted.start, wanted.end)
                .all(|piece| alike(&piece))
    }

    /// Lets `change` edit access, kind and flags of each piece of `[start, end)`; as
    /// [`Self::protect`] otherwise. It must leave addresses, object and offset alone.
    ///
    /// # Errors
    /// As [`Self::protect`].
    pub fn update(
        &mut self,
        start: u64,
        end: u64,
        change: impl FnMut(&mut Region),
    ) -> Result<(), RegionError> {
        check_range(start, end)?;
        let stop = self.first_hole(start, end).unwrap_or(end);
        if stop == start {
            return Err(RegionError::Hole { at: start });
        }
        let cuts = usize::from(self.cuts_at(start)) + usize::from(self.cuts_at(stop));
        if self.slots.len() + cuts > self.capacity() {
            return Err(RegionError::Full);
        }
        let first = self.split_at(start);
        let last = self.split_at(stop);
        self.slots[first..last].iter_mut().for_each(change);
        self.merge(first, last);
        if stop < end {
            Err(RegionError::Hole { at: stop })
        } else {
            Ok(())
        }
    }

    /// Moves what is mapped in `[start, start + len)` to `to`, where nothing may be mapped outside
    /// the old range. The old range must be one piece of one region (mremap's EFAULT otherwise).
    ///
    /// # Errors
    /// Invalid, Hole (also at the end of the first region), Overlap, Full.
    pub fn move_range(&mut self, start: u64, len_bytes: u64, to: u64) -> Result<(), RegionError> {
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
        if self.slots.len() + cuts > self.capacity() {
            return Err(RegionError::Full);
        }
        let piece = old.clip(start, end);
        self.remove(start, end, |_| ())?;
        self.insert(Region {
            start: to,
            end: to_end,
            ..piece
        })
    }

    /// The highest aligned start of `len_bytes` unmapped bytes in `[low, high)`. `align` is a power
    /// of two, at least a page.
    pub fn find_hole(&self, len_bytes: u64, align: u64, low: u64, high: u64) -> Option<u64> {
        let below = self.as_slice().partition_point(|r| r.start < high);
        let mut top = high;
        for region in self.as_slice()[..below].iter().rev() {
            if let Some(start) = fit(len_bytes, align, low.max(region.end), top) {
                return Some(start);
            }
            if region.start <= low {
                return None;
            }
            top = region.start;
        }
        fit(len_bytes, align, low, top)
    }

    /// Index of the first region that ends above `addr`.
    fn index_above(&self, addr: u64) -> usize {
        self.as_slice().partition_point(|r| r.end <= addr)
    }

    /// Whether a region begins below `addr` and ends above it.
    fn cuts_at(&self, addr: u64) -> bool {
        self.lookup(addr).is_some_and(|r| r.start < addr)
    }

    /// Makes `addr` a border; returns the index of the first region at or above it.
    fn split_at(&mut self, addr: u64) -> usize {
        let i = self.index_above(addr);
        if i == self.slots.len() || self.slots[i].start >= addr {
            return i;
        }
        let upper = self.slots[i].clip(addr, u64::MAX);
        self.slots[i].end = addr;
        self.open_slot(i + 1, upper);
        i + 1
    }

    fn open_slot(&mut self, i: usize, region: Region) {
        self.slots.insert(i, region);
    }

    /// Joins what can be joined among `first..last` and its two neighbours.
    fn merge(&mut self, first: usize, last: usize) {
        let from = first.saturating_sub(1);
        let to = (last + 1).min(self.slots.len());
        let mut kept = from;
        for i in from + 1..to {
            let next = self.slots[i];
            if self.slots[kept].joins(&next) {
                self.slots[kept].end = next.end;
            } else {
                kept += 1;
                self.slots[kept] = next;
            }
        }
        if kept + 1 < to {
            self.slots.drain(kept + 1..to);
        }
    }
}

fn check_range(start: u64, end: u64) -> Result<(), RegionError> {
    let aligned = (start | end) & (crate::page::PAGE_BYTES - 1) == 0;
    if aligned && start < end {
        Ok(())
    } else {
        Err(RegionError::Invalid)
    }
}

/// The highest aligned start in `[bottom, top)` that leaves room for `len_bytes`.
fn fit(len_bytes: u64, align: u64, bottom: u64, top: u64) -> Option<u64> {
    let start = top.checked_sub(len_bytes)? & !(align - 1);
    (start >= bottom).then_some(start)
}
