//! The region map: what each user address of slot 0 means, as Linux's VMAs do.
//!
//! Each change sets aside what it may need first and then cannot fail, so an error leaves the map
//! as it was. Frames are not this module's business: `aspace` changes the page tables likewise.

mod list;
mod moves;
mod region;
#[cfg(test)]
mod tests;

pub use region::{Backing, Kind, Prot, Region, RegionFlags};

use crate::Point;
use list::List;

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
    list: List,
    capacity: usize,
}

impl Regions {
    /// An empty map with room for `capacity` regions; `point` is called in every loop over them. `None` without memory for it.
    pub fn new(capacity: usize, point: Point) -> Option<Self> {
        let list = List::new(capacity, point)?;
        Some(Self { list, capacity })
    }

    /// All regions, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Region> + '_ {
        self.list.iter_from(self.list.above(0))
    }

    /// Whether any change that adds up to `extra` regions would go through. A change of access, a
    /// move, or a fixed mapping over old ones adds at most two.
    pub fn has_room(&self, extra: usize) -> bool {
        self.list.len() + extra <= self.capacity
    }

    /// The region that contains `addr`.
    pub fn lookup(&self, addr: u64) -> Option<&Region> {
        self.list
            .get(self.list.above(addr))
            .filter(|r| r.contains(addr))
    }

    /// The pieces of regions inside `[start, end)`, clipped to it, by address.
    pub fn iter_range(&self, start: u64, end: u64) -> impl Iterator<Item = Region> + '_ {
        self.list
            .iter_from(self.list.above(start))
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
        // POINT: regions::list::next
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
        let (before, at) = self.place(region.start);
        let next = self.list.get(at);
        if next.is_some_and(|next| next.start < region.end) {
            return Err(RegionError::Overlap);
        }
        let joins = Joins {
            before: before.filter(|b| self.list.get(*b).is_some_and(|b| b.joins(&region))),
            after: next.is_some_and(|next| region.joins(next)),
        };
        let added = 1 - i32::from(joins.before.is_some()) - i32::from(joins.after);
        self.reserve(added, 1)?;
        self.put(at, region, &joins);
        Ok(())
    }

    /// Unmaps `[start, end)`, holes allowed as munmap allows them.
    ///
    /// # Errors
    /// Invalid; Full, when a region would be cut in two and there is no room.
    pub fn remove(&mut self, start: u64, end: u64) -> Result<(), RegionError> {
        check_range(start, end)?;
        let first = self.list.above(start);
        self.check_cut(first, start, end)?;
        self.reserve(0, 2)?;
        self.cut_out(first, start, end);
        Ok(())
    }

    /// Whether [`Self::remove`] would have room.
    ///
    /// # Errors
    /// Full.
    pub fn check_remove(&self, start: u64, end: u64) -> Result<(), RegionError> {
        self.check_cut(self.list.above(start), start, end)
    }

    /// As [`Self::check_remove`]; `first` is the first region that ends above `start`.
    fn check_cut(&self, first: list::Place, start: u64, end: u64) -> Result<(), RegionError> {
        let cuts_in_two = self
            .list
            .get(first)
            .is_some_and(|r| r.start < start && end < r.end);
        if cuts_in_two && !self.has_room(1) {
            Err(RegionError::Full)
        } else {
            Ok(())
        }
    }

    /// Changes the access of `[start, end)` as mprotect does: from `start` up to the first hole, or
    /// the whole range.
    ///
    /// # Errors
    /// Invalid or Full with nothing changed. Hole: what lies below the hole has been changed, as on
    /// Linux; use [`Self::first_hole`] beforehand to treat the range as a whole.
    pub fn protect(&mut self, start: u64, end: u64, prot: Prot) -> Result<(), RegionError> {
        self.update(start, end, |region| {
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
        // POINT: regions::list::next
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
        let Reach { first, stop } = self.reach(start, end)?;
        self.reserve(0, 2)?;
        self.edit(first, [start, stop], change);
        self.join(start, stop);
        if stop < end {
            Err(RegionError::Hole { at: stop })
        } else {
            Ok(())
        }
    }

    /// The same for all that there is.
    pub fn update_all(&mut self, change: impl FnMut(&mut Region)) {
        self.edit(self.list.above(0), [0, u64::MAX], change);
        self.join(0, u64::MAX);
    }

    /// Whether [`Self::update`] would have room.
    ///
    /// # Errors
    /// Invalid, Full; Hole when nothing is mapped at `start`.
    pub fn check_update(&self, start: u64, end: u64) -> Result<(), RegionError> {
        self.reach(start, end).map(|_| ())
    }

    /// As [`Self::check_update`]: where it would begin and end.
    fn reach(&self, start: u64, end: u64) -> Result<Reach, RegionError> {
        check_range(start, end)?;
        let first = self.list.above(start);
        let (mut stop, mut cuts) = (start, 0);
        let mut at = first;
        // POINT: regions::list::next
        while let Some(region) = self.list.get(at).filter(|r| r.start <= stop) {
            cuts += usize::from(region.start < start);
            stop = region.end;
            if stop >= end {
                break;
            }
            at = self.list.next(at);
        }
        if stop == start {
            return Err(RegionError::Hole { at: start });
        }
        cuts += usize::from(end < stop);
        if self.has_room(cuts) {
            Ok(Reach {
                first,
                stop: stop.min(end),
            })
        } else {
            Err(RegionError::Full)
        }
    }

    /// The highest aligned start of `len_bytes` unmapped bytes in `[low, high)`. `align` is a power
    /// of two, at least a page.
    pub fn find_hole(&self, len_bytes: u64, align: u64, low: u64, high: u64) -> Option<u64> {
        self.list.hole(len_bytes, low, high, |bottom, top| {
            fit(len_bytes, align, bottom, top)
        })
    }

    /// Room for a change that adds `extra` regions, and storage for it: `chunks` chunks.
    fn reserve(&mut self, extra: i32, chunks: usize) -> Result<(), RegionError> {
        let fits = self.list.len() as i64 + i64::from(extra) <= self.capacity as i64;
        if fits && self.list.reserve(chunks) {
            Ok(())
        } else {
            Err(RegionError::Full)
        }
    }

    /// The last region that ends at or below `addr`, and the place behind it.
    fn place(&self, addr: u64) -> (Option<list::Place>, list::Place) {
        let at = self.list.above(addr);
        (self.list.before(at), at)
    }

    /// Adds a region before the one at `at`, or to its neighbours.
    fn put(&mut self, at: list::Place, region: Region, joins: &Joins) {
        match (joins.before, joins.after) {
            (Some(before), after) => {
                self.list.extend(before, region.end);
                if after && self.list.join_next(before) {
                    self.list.shorten(before);
                }
            }
            (None, true) => self.list.prepend(at, &region),
            (None, false) => self.list.insert(at, region),
        }
    }

    /// Removes `[start, end)`; `first` is the first region that ends above `start`.
    fn cut_out(&mut self, first: list::Place, start: u64, end: u64) {
        let Some(&region) = self.list.get(first).filter(|r| r.start < end) else {
            return;
        };
        let mut at = first;
        if region.start < start {
            if end < region.end {
                at = self.list.split(first, end);
            }
            self.list.trim_back(at, start);
            if end <= region.end {
                return;
            }
            at = self.list.next(at);
        } else if end < region.end {
            return self.list.trim_front(first, end);
        }
        if region.end < end {
            // The last one may go on above.
            let last = self.list.above(end);
            if self.list.get(last).is_some_and(|r| r.start < end) {
                self.list.trim_front(last, end);
            }
        }
        self.list.remove_until(at, end);
    }

    /// Edits what lies in `[start, end)`, splitting regions at its borders; `first` is the first region that ends above `start`.
    fn edit(
        &mut self,
        first: list::Place,
        [start, end]: [u64; 2],
        mut change: impl FnMut(&mut Region),
    ) {
        let mut at = first;
        if self.list.get(at).is_some_and(|r| r.start < start) {
            let below = self.list.split(at, start);
            at = self.list.next(below);
        }
        // POINT: regions::list::next
        while let Some(region) = self.list.get_mut(at).filter(|r| r.start < end) {
            if end < region.end {
                at = self.list.split(at, end);
                continue;
            }
            change(region);
            at = self.list.next(at);
        }
    }

    /// Joins what can be joined in `[start, end)` and with what lies on either side.
    fn join(&mut self, start: u64, end: u64) {
        let (before, first) = self.place(start);
        let mut at = before.unwrap_or(first);
        let mut joined = false;
        // POINT: regions::list::next
        while self.list.get(at).is_some_and(|r| r.start < end) {
            match self.list.join_next(at) {
                true => joined = true,
                false => at = self.list.next(at),
            }
        }
        if joined {
            self.list.shorten(at);
        }
    }
}

/// What a change of a range gets to.
struct Reach {
    /// The first region that ends above the range's start.
    first: list::Place,
    /// The first hole, or the range's end.
    stop: u64,
}

/// Which neighbours a new region is like.
struct Joins {
    before: Option<list::Place>,
    after: bool,
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
