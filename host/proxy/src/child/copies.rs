//! The copy of the rank's memory that a child of fork begins with.
//!
//! It is made before there is a child, in memory of this process that the child then has as any child has its parent's. The
//! child moves it to where the rank has it; here it is unmapped as soon as there is a child, which so has the pages alone.
//! Guest RAM is mapped here and its page tables are filled: a child would have to read a file, page by page.
//!
//! Linux takes as long to find a page of 4 KiB as to copy 50 KiB. So the copy is made of huge pages where the host has them: large
//! runs of regions lie as they will in the child, so that huge pages are moved as they are, and small ones lie one behind the
//! other. What was hardly touched is copied by single pages, which Linux is asked for before, many at a time: by a fault for each
//! it takes twice as long.

use std::ptr::{null_mut, without_provenance_mut};
use std::slice;

use abi::Errno;
use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Room;
use crate::errno::linux;
use crate::memory::{Held, Memory};
use crate::regions::Region;

/// Bytes of a huge page, of x86-64.
const HUGE_BYTES: u64 = 2 << 20;
/// A huge page of which so much is used costs less than the small pages, and not much memory that is not used.
const WORTH_BYTES: u64 = HUGE_BYTES / 2;

/// For less than this it is not checked what the host has left: that takes as long as to copy some MiB.
const MUCH_BYTES: u64 = 32 << 20;

/// Memory of this process, unmapped when it is dropped.
#[derive(Debug)]
pub struct Copies {
    start: *mut u8,
    len_bytes: u64,
}

// SAFETY: 1. The mapping belongs to no thread, and is only written by who makes it.
unsafe impl Send for Copies {}

/// What goes where in the child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Address of the copy.
    pub from: u64,
    /// Address that the rank has it at.
    pub to: u64,
    /// Length.
    pub len_bytes: u64,
    /// Access, as mmap(2) has it.
    pub prot: u64,
}

/// Regions that adjoin each other and have the same access: to Linux one mapping, of which it moves no more than one (mremap(2)).
struct Run<'a> {
    regions: &'a [&'a Region],
    held: Vec<(&'a Region, Held)>,
}

impl<'a> Run<'a> {
    fn new(memory: &Memory, regions: &'a [&'a Region]) -> Result<Run<'a>, Errno> {
        let mut held = Vec::new();
        for &region in regions {
            held.extend(memory.held(region)?.into_iter().map(|held| (region, held)));
        }
        Ok(Run { regions, held })
    }

    fn extent(&self) -> Extent {
        let start = self.regions[0].start;
        let held = self.held.iter().map(|(_, held)| held.len_bytes);
        Extent {
            start,
            len_bytes: self.regions[self.regions.len() - 1].end - start,
            held_bytes: held.sum(),
        }
    }
}

impl Copies {
    /// Copies runs of regions, none of which is shared.
    ///
    /// # Errors
    /// ENOMEM, or what Linux says of the RAM's file.
    pub fn make(
        memory: &Memory,
        runs: &[&[&Region]],
        room: Room,
    ) -> Result<(Copies, Vec<Move>), Errno> {
        let runs: Result<Vec<Run<'_>>, Errno> =
            runs.iter().map(|run| Run::new(memory, run)).collect();
        let runs = runs?;
        let extents: Vec<Extent> = runs.iter().map(Run::extent).collect();
        has_room(extents.iter().map(|extent| extent.held_bytes).sum(), room)?;
        let plan = Plan::of(&extents);
        let mut copies = Copies::reserve(plan.len_bytes + HUGE_BYTES).map_err(linux)?;
        let base = copies.address().next_multiple_of(HUGE_BYTES);
        for area in &plan.areas {
            copies.map(base, area).map_err(linux)?;
        }
        let mut moves = Vec::new();
        for ((run, extent), offset) in runs.iter().zip(&extents).zip(plan.offsets) {
            let from = base + offset;
            for (region, held) in &run.held {
                let to = from + (held.addr - extent.start);
                copies.populate(to, held.len_bytes);
                memory.copy_held(region, held, copies.bytes(to, held.len_bytes))?;
            }
            moves.push(Move {
                from,
                to: extent.start,
                len_bytes: extent.len_bytes,
                prot: run.regions[0].protection(),
            });
        }
        Ok((copies, moves))
    }

    fn address(&self) -> u64 {
        self.start.addr() as u64
    }

    fn reserve(len_bytes: u64) -> io::Result<Copies> {
        let how = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: 1. No address is requested, so nothing that exists is replaced.
        let start =
            unsafe { mmap_anonymous(null_mut(), len_bytes as usize, ProtFlags::empty(), how)? };
        Ok(Copies {
            start: start.cast(),
            len_bytes,
        })
    }

    fn map(&mut self, base: u64, area: &Area) -> io::Result<()> {
        let (start, len) = (base + area.start, (area.end - area.start) as usize);
        assert!(self.has(start, len as u64));
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let how = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: 1. Only what `reserve` has mapped for `self` is replaced (just checked), and nothing refers to that.
        let at = unsafe { mmap_anonymous(without_provenance_mut(start as usize), len, prot, how)? };
        if area.huge {
            // SAFETY: 1. The range was just mapped, and is empty. Without huge pages it does as well.
            let _ = unsafe { madvise(at, len, Advice::LinuxHugepage) };
        }
        Ok(())
    }

    /// Has Linux give pages to a range of an area.
    fn populate(&self, start: u64, len_bytes: u64) {
        assert!(self.has(start, len_bytes));
        let at = without_provenance_mut(start as usize);
        // SAFETY: 1. The range is mapped by `self` (just checked); its contents stay. Linux before 5.14 does not know this: then each
        // page comes with the first store to it.
        let _ = unsafe { madvise(at, len_bytes as usize, Advice::LinuxPopulateWrite) };
    }

    fn has(&self, start: u64, len_bytes: u64) -> bool {
        let offset = start.checked_sub(self.address());
        offset
            .is_some_and(|offset| offset <= self.len_bytes && len_bytes <= self.len_bytes - offset)
    }

    /// Bytes at an address, which is in an area.
    fn bytes(&mut self, start: u64, len_bytes: u64) -> &mut [u8] {
        assert!(self.has(start, len_bytes));
        let offset = (start - self.address()) as usize;
        // SAFETY: 1. The range is mapped by `self` (just checked), readable and writable in an area, and zero at first.
        // 2. `&mut self` says that no other code has it.
        unsafe { slice::from_raw_parts_mut(self.start.add(offset), len_bytes as usize) }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // SAFETY: 1. Mapped by `reserve` and `map`; no reference outlives `self`.
        let _ = unsafe { munmap(self.start.cast(), self.len_bytes as usize) };
    }
}

/// Linux lets memory be mapped that it does not have, and ends a process when it is stored to: QEMU, as a rule.
fn has_room(bytes: u64, room: Room) -> Result<(), Errno> {
    let fits = bytes < MUCH_BYTES || bytes < (room.0)();
    fits.then_some(()).ok_or(Errno::ENOMEM)
}

/// A run as far as its place matters.
#[derive(Clone, Copy, Debug)]
struct Extent {
    start: u64,
    len_bytes: u64,
    held_bytes: u64,
}

impl Extent {
    fn is_dense(&self) -> bool {
        self.held_bytes >= self.len_bytes / 2
    }

    fn is_small(&self) -> bool {
        self.is_dense() && self.len_bytes < HUGE_BYTES
    }
}

/// A mapping: offsets of its ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Area {
    start: u64,
    end: u64,
    huge: bool,
}

impl Area {
    /// One for huge pages: its first and its last one are in it whole if they are worth it.
    fn huge(start: u64, end: u64) -> Area {
        let head = (start.next_multiple_of(HUGE_BYTES)).min(end) - start;
        let tail = end - (end - end % HUGE_BYTES).max(start);
        let whole = |used, edge, wide| if used >= WORTH_BYTES { wide } else { edge };
        let start = whole(head, start, start - start % HUGE_BYTES);
        let end = whole(tail, end, end.next_multiple_of(HUGE_BYTES));
        Area {
            start,
            end,
            huge: end - start >= HUGE_BYTES,
        }
    }
}

/// Which run lies where. No two mappings have a part of the same huge page.
#[derive(PartialEq, Eq, Debug)]
struct Plan {
    /// Of each run, from the beginning of a huge page.
    offsets: Vec<u64>,
    areas: Vec<Area>,
    len_bytes: u64,
}

impl Plan {
    fn of(runs: &[Extent]) -> Plan {
        let (mut offsets, mut areas) = (vec![0; runs.len()], Vec::new());
        let mut free = 0;
        for (offset, run) in offsets
            .iter_mut()
            .zip(runs)
            .filter(|(_, run)| !run.is_small())
        {
            *offset = free + run.start % HUGE_BYTES;
            let end = *offset + run.len_bytes;
            areas.push(match run.is_dense() {
                true => Area::huge(*offset, end),
                false => Area {
                    start: *offset,
                    end,
                    huge: false,
                },
            });
            free = end.next_multiple_of(HUGE_BYTES);
        }
        let first = free;
        for (offset, run) in offsets
            .iter_mut()
            .zip(runs)
            .filter(|(_, run)| run.is_small())
        {
            *offset = free;
            free += run.len_bytes;
        }
        if free > first {
            areas.push(Area::huge(first, free));
        }
        Plan {
            offsets,
            areas,
            len_bytes: free.next_multiple_of(HUGE_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::map::PAGE;
    use proptest::prelude::*;

    fn full(start: u64, len_bytes: u64) -> Extent {
        Extent {
            start,
            len_bytes,
            held_bytes: len_bytes,
        }
    }

    #[test]
    fn large_runs_keep_their_huge_pages_and_small_ones_share_some() {
        let sparse = Extent {
            held_bytes: PAGE,
            ..full(3 * HUGE_BYTES, 5 * HUGE_BYTES)
        };
        let runs = [
            full(HUGE_BYTES + PAGE, 3 * HUGE_BYTES),
            full(PAGE, WORTH_BYTES),
            sparse,
            full(9 * HUGE_BYTES, PAGE),
        ];
        let area = |start, end, huge| Area { start, end, huge };
        let first = 4 * HUGE_BYTES;
        let small = first + 5 * HUGE_BYTES;
        let plan = Plan::of(&runs);
        assert_eq!(plan.offsets, [PAGE, small, first, small + WORTH_BYTES]);
        let areas = [
            area(0, 3 * HUGE_BYTES + PAGE, true),
            area(first, small, false),
            area(small, small + HUGE_BYTES, true),
        ];
        assert_eq!(plan.areas, areas);
        assert_eq!(plan.len_bytes, small + HUGE_BYTES);
    }

    #[test]
    fn what_is_hardly_used_is_no_huge_page() {
        let plan = Plan::of(&[full(0, PAGE)]);
        let area = Area {
            start: 0,
            end: PAGE,
            huge: false,
        };
        assert_eq!(plan.areas, [area]);
        assert_eq!(Plan::of(&[]).len_bytes, 0);
    }

    proptest! {
        #[test]
        fn every_run_has_its_own_place_in_an_area(
            runs in proptest::collection::vec((0..2000u64, 1..3000u64, 0..=100u64), 0..20)
        ) {
            let runs: Vec<Extent> = runs.into_iter().map(|(start, pages, percent)| Extent {
                start: start * PAGE,
                len_bytes: pages * PAGE,
                held_bytes: pages * percent / 100 * PAGE,
            }).collect();
            let plan = Plan::of(&runs);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (run, &offset) in runs.iter().zip(&plan.offsets) {
                let end = offset + run.len_bytes;
                prop_assert!(taken.iter().all(|(from, to)| end <= *from || *to <= offset));
                prop_assert!(plan.areas.iter().any(|area| area.start <= offset && end <= area.end));
                prop_assert!(run.is_small() || offset % HUGE_BYTES == run.start % HUGE_BYTES);
                taken.push((offset, end));
            }
            for pair in plan.areas.windows(2) {
                prop_assert!(pair[0].end.next_multiple_of(HUGE_BYTES) <= pair[1].start - pair[1].start % HUGE_BYTES);
            }
            prop_assert!(plan.areas.iter().all(|area| area.end <= plan.len_bytes));
        }
    }
}
