//! The region map: what each user address of slot 0 means, as Linux's VMAs do.
//!
//! Each change sets aside what it may need first and then cannot fail, so an error leaves the map
//! as it was. Frames are not this module's business: `aspace` changes the page tables likewise.

mod list;
mod locks;
mod moves;
mod region;
#[cfg(test)]
mod tests;

pub use region::{Backing, Kind, Prot, Region, RegionFlags};

use crate::Point;
use crate::page::PAGE_BYTES;
use abi::addr::{Va, VaRange};
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
        at: Va,
    },
}

/// The map of one address space.
pub struct Regions {
    list: List,
    capacity: usize,
    /// Bytes of the regions that are locked.
    locked_bytes: u64,
}

impl Regions {
    /// An empty map with room for `capacity` regions; `point` is called in every loop over them. `None` without memory for it.
    pub fn new(capacity: usize, point: Point) -> Option<Self> {
        let list = List::new(capacity, point)?;
        Some(Self {
            list,
            capacity,
            locked_bytes: 0,
        })
    }

    /// All regions, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Region> + '_ {
        self.list.iter_from(self.list.above(Va(0)))
    }

    /// Whether any change that adds up to `extra` regions would go through. A change of access, a
    /// move, or a fixed mapping over old ones adds at most two.
    pub fn has_room(&self, extra: usize) -> bool {
        self.list.len() + extra <= self.capacity
    }

    /// The region that contains `addr`.
    pub fn lookup(&self, addr: Va) -> Option<&Region> {
        self.list
            .get(self.list.above(addr))
            .filter(|r| r.contains(addr))
    }

    /// The pieces of regions inside `range`, clipped to it, by address.
    pub fn iter_range(&self, range: VaRange) -> impl Iterator<Item = Region> + '_ {
        self.list
            .iter_from(self.list.above(range.start))
            .take_while(move |r| r.start < range.end)
            .map(move |r| r.clip(range))
    }

    /// Whether nothing is mapped in `range`.
    pub fn is_vacant(&self, range: VaRange) -> bool {
        self.iter_range(range).next().is_none()
    }

    /// The first address of `range` where nothing is mapped.
    pub fn first_hole(&self, range: VaRange) -> Option<Va> {
        let mut at = range.start;
        // POINT: regions::list::next
        for region in self.iter_range(range) {
            if region.start > at {
                break;
            }
            at = region.end;
        }
        (at < range.end).then_some(at)
    }

    /// Adds a region where nothing is mapped, joining it with neighbours that are alike.
    ///
    /// # Errors
    /// Invalid, Overlap, Full.
    pub fn insert(&mut self, region: Region) -> Result<(), RegionError> {
        check_range(region.range())?;
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

    /// Unmaps `range`, holes allowed as munmap allows them.
    ///
    /// # Errors
    /// Invalid; Full, when a region would be cut in two and there is no room.
    pub fn remove(&mut self, range: VaRange) -> Result<(), RegionError> {
        check_range(range)?;
        let first = self.list.above(range.start);
        self.check_cut(first, range)?;
        self.reserve(0, 2)?;
        self.cut_out(first, range);
        Ok(())
    }

    /// Whether [`Self::remove`] would have room.
    ///
    /// # Errors
    /// Full.
    pub fn check_remove(&self, range: VaRange) -> Result<(), RegionError> {
        self.check_cut(self.list.above(range.start), range)
    }

    /// As [`Self::check_remove`]; `first` is the first region that ends above the range's start.
    fn check_cut(&self, first: list::Place, range: VaRange) -> Result<(), RegionError> {
        let cuts_in_two = self
            .list
            .get(first)
            .is_some_and(|r| r.start < range.start && range.end < r.end);
        if cuts_in_two && !self.has_room(1) {
            Err(RegionError::Full)
        } else {
            Ok(())
        }
    }

    /// Changes the access of `range` as mprotect does: from its start up to the first hole, or
    /// the whole range.
    ///
    /// # Errors
    /// Invalid or Full with nothing changed. Hole: what lies below the hole has been changed, as on
    /// Linux; use [`Self::first_hole`] beforehand to treat the range as a whole.
    pub fn protect(&mut self, range: VaRange, prot: Prot) -> Result<(), RegionError> {
        self.update(range, |region| {
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
        self.first_hole(wanted.range()).is_none()
            && self.iter_range(wanted.range()).all(|piece| alike(&piece))
    }

    /// Lets `change` edit access, kind and flags of each piece of `range`; as
    /// [`Self::protect`] otherwise. It must leave addresses, object and offset alone.
    ///
    /// # Errors
    /// As [`Self::protect`].
    pub fn update(
        &mut self,
        range: VaRange,
        change: impl FnMut(&mut Region),
    ) -> Result<(), RegionError> {
        let Reach { first, stop } = self.reach(range)?;
        self.reserve(0, 2)?;
        let reached = range.start.until(stop);
        self.edit(first, reached, change);
        self.join(reached);
        if stop < range.end {
            Err(RegionError::Hole { at: stop })
        } else {
            Ok(())
        }
    }

    /// The same for all that there is.
    pub fn update_all(&mut self, change: impl FnMut(&mut Region)) {
        let all = Va(0).until(Va(u64::MAX));
        self.edit(self.list.above(all.start), all, change);
        self.join(all);
    }

    /// Whether [`Self::update`] would have room.
    ///
    /// # Errors
    /// Invalid, Full; Hole when nothing is mapped at its start.
    pub fn check_update(&self, range: VaRange) -> Result<(), RegionError> {
        self.reach(range).map(|_| ())
    }

    /// As [`Self::check_update`]: where it would begin and end.
    fn reach(&self, range: VaRange) -> Result<Reach, RegionError> {
        check_range(range)?;
        let VaRange { start, end } = range;
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

    /// The highest start of `len_bytes` unmapped bytes in `area` that lies `phase` bytes above a multiple of `align`, a
    /// power of two, at least a page. `phase` is a multiple of a page, modulo 2^64.
    pub fn find_hole(&self, len_bytes: u64, align: u64, phase: u64, area: VaRange) -> Option<Va> {
        self.list
            .hole(len_bytes, area, |hole| fit(len_bytes, align, phase, hole))
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
    fn place(&self, addr: Va) -> (Option<list::Place>, list::Place) {
        let at = self.list.above(addr);
        (self.list.before(at), at)
    }

    /// Adds a region before the one at `at`, or to its neighbours.
    fn put(&mut self, at: list::Place, region: Region, joins: &Joins) {
        self.locked_bytes += locks::bytes_of(&region);
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

    /// Removes `range`; `first` is the first region that ends above its start.
    fn cut_out(&mut self, first: list::Place, range: VaRange) {
        let VaRange { start, end } = range;
        let Some(&region) = self.list.get(first).filter(|r| r.start < end) else {
            return;
        };
        self.unlock_removed(range);
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

    /// Edits what lies in `range`, splitting regions at its borders; `first` is the first region that ends above its start.
    fn edit(&mut self, first: list::Place, range: VaRange, mut change: impl FnMut(&mut Region)) {
        let VaRange { start, end } = range;
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
            self.locked_bytes -= locks::bytes_of(region);
            change(region);
            self.locked_bytes += locks::bytes_of(region);
            at = self.list.next(at);
        }
    }

    /// Joins what can be joined in `range` and with what lies on either side.
    fn join(&mut self, range: VaRange) {
        let (before, first) = self.place(range.start);
        let mut at = before.unwrap_or(first);
        let mut joined = false;
        // POINT: regions::list::next
        while self.list.get(at).is_some_and(|r| r.start < range.end) {
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
    stop: Va,
}

/// Which neighbours a new region is like.
struct Joins {
    before: Option<list::Place>,
    after: bool,
}

fn check_range(range: VaRange) -> Result<(), RegionError> {
    let aligned = Va(range.start.0 | range.end.0).is_aligned(PAGE_BYTES);
    if aligned && !range.is_empty() {
        Ok(())
    } else {
        Err(RegionError::Invalid)
    }
}

/// The highest start in `hole` with that remainder that leaves room for `len_bytes`.
fn fit(len_bytes: u64, align: u64, phase: u64, hole: VaRange) -> Option<Va> {
    let highest = hole.end.checked_sub(len_bytes)?;
    let room = highest.0.checked_sub(hole.start.0)?;
    let above = highest.0.wrapping_sub(phase) & (align - 1);
    (above <= room).then(|| highest.before(above))
}
