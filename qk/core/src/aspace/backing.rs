//! Finding frames: every accessible region is backed when it is made, with the largest pages that fit.

use super::{Aspace, Machine, OutOfMemory, Purpose, fresh, record, shown};
use crate::frames::{Frame, Place};
use crate::page::{PAGE_BYTES, PageSize};
use crate::paging::{self, Extent, MapOptions, Stretch};
use crate::regions::Prot;
use abi::addr::{Phys, Va, VaRange};

/// Work of taking and mapping a run of frames.
const FILL_WORK: u32 = 600;

/// Work of taking a frame that continues others.
const TAKE_WORK: u32 = 60;

/// Frames for the front of a range.
pub(super) struct Taken {
    pub pa: Phys,
    pub len_bytes: u64,
    /// Known to hold zeros.
    pub zero: bool,
}

impl<M: Machine> Aspace<M> {
    /// Sets tables aside for borders at start and end of `range`.
    pub(super) fn reserve_tables(&mut self, range: VaRange) -> Result<(), OutOfMemory> {
        self.or_sync(|aspace| {
            let (mut tables, root) = aspace.tables();
            tables.reserve(root, range).then_some(())
        })
    }

    /// Whether `len_bytes` could be backed, given that what is retired comes back.
    pub(super) fn check_free(&mut self, len_bytes: u64) -> Result<(), OutOfMemory> {
        if len_bytes <= self.frames.unused_bytes() {
            Ok(())
        } else {
            self.shortages += 1;
            Err(OutOfMemory)
        }
    }

    /// Whether there are page tables for two new mappings of `len_bytes` each, wherever they lie.
    pub(super) fn check_tables_for_two(&mut self, len_bytes: u64) -> Result<(), OutOfMemory> {
        if self.pool.has_room_for_two(len_bytes) {
            Ok(())
        } else {
            self.shortages += 1;
            Err(OutOfMemory)
        }
    }

    /// Bytes of `range` that have no frame.
    pub(super) fn vacant_bytes(&mut self, range: VaRange) -> u64 {
        let (tables, root) = self.tables();
        let (mut at, mut bytes) = (range.start, 0);
        // POINT: paging::report::stretch
        while at < range.end {
            let stretch = paging::stretch(&tables, root, at, range.end);
            if !stretch.mapped {
                bytes += stretch.end - at;
            }
            at = stretch.end;
        }
        bytes
    }

    /// Backs every page of `range` that has no frame yet, with the largest pages up to `max`. Pages that have one keep it.
    ///
    /// # Errors
    /// [`OutOfMemory`]; some pages may have been backed.
    pub(super) fn back(
        &mut self,
        range: VaRange,
        prot: Prot,
        max: PageSize,
    ) -> Result<(), OutOfMemory> {
        self.reclaim();
        let VaRange { start: mut at, end } = range;
        // POINT: paging::report::stretch
        while at < end {
            let (tables, root) = self.tables();
            let Stretch { end: next, mapped } = paging::stretch(&tables, root, at, end);
            if mapped {
                at = next;
            } else {
                // Of a hole that goes on in the next table all at once: it may have room for larger pages.
                let next = self.hole_end(next, end);
                let place = self.behind(at);
                self.fill(at.until(next), prot, max, place)?;
                at = next;
            }
        }
        Ok(())
    }

    /// Backs `range` as [`Self::back`], and logs it, or leaves it as it was. It is wholly vacant, and no region's.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn back_new(
        &mut self,
        range: VaRange,
        prot: Prot,
        max: PageSize,
    ) -> Result<(), OutOfMemory> {
        self.check_free(range.len_bytes())?;
        self.reclaim();
        let place = self.newest.place(range);
        let filled = self.fill(range, prot, max, place);
        match filled {
            Ok(pa) => self.newest.note(range, pa),
            Err(_) => self.take_back(range),
        }
        filled.map(|_| ())
    }

    /// Takes back the frames of `range`, which the proxy may have mapped. Recorded first: what is unmapped is retired up to
    /// this record. Tables for splits at the borders are reserved.
    pub(super) fn take_back(&mut self, range: VaRange) {
        self.publish_hole(range);
        self.take_out(range);
    }

    /// Takes the frames of `range` out of the page tables. Tables for splits at the borders are reserved, and the log
    /// has the change.
    pub(super) fn take_out(&mut self, range: VaRange) {
        let written = self.machine.is_written();
        let (mut tables, root) = self.tables_for(Purpose::Borders);
        paging::unmap(&mut tables, root, range, |tables, pa, len_bytes, dirty| {
            tables.retire(pa, len_bytes, !dirty && !written)
        })
        .expect("tables for the borders are reserved");
        self.leases.begin(self.machine);
        self.flush(range);
    }

    /// Takes back frames that the proxy has let go.
    pub(super) fn reclaim(&mut self) {
        if self.frames.retired_bytes() > 0
            && self.replaced.is_empty()
            && self.leases.have_ended(self.machine)
        {
            self.frames.release_retired();
        }
    }

    /// Tries `once`, and again after the proxy has let go what it holds.
    pub(super) fn or_sync<R>(
        &mut self,
        mut once: impl FnMut(&mut Self) -> Option<R>,
    ) -> Result<R, OutOfMemory> {
        if let Some(done) = once(self) {
            return Ok(done);
        }
        if self.frames.retired_bytes() > 0 {
            self.end_replacing();
            self.machine.sync();
            self.reclaim();
            if let Some(done) = once(self) {
                return Ok(done);
            }
        }
        self.shortages += 1;
        Err(OutOfMemory)
    }

    /// End of the vacant stretch that goes on at `at`.
    pub(super) fn hole_end(&mut self, at: Va, end: Va) -> Va {
        let (tables, root) = self.tables();
        let mut at = at;
        // POINT: paging::report::stretch
        while at < end {
            match paging::stretch(&tables, root, at, end) {
                Stretch {
                    end: next,
                    mapped: false,
                } => at = next,
                _ => break,
            }
        }
        at
    }

    /// Maps fresh zeroed frames at `range`, where nothing is mapped, the first at `place` if they can be, and logs
    /// those with an access, in as few pieces as they have. Returns the address of the first, and behind the last.
    fn fill(
        &mut self,
        range: VaRange,
        prot: Prot,
        max: PageSize,
        mut place: Place,
    ) -> Result<[Phys; 2], OutOfMemory> {
        // One, and a hole before it.
        self.add_pieces(2)?;
        let mut first = None;
        let mut piece = Extent {
            va: range.start,
            pa: Phys(0),
            len_bytes: 0,
            prot,
        };
        // POINT: fill_front
        loop {
            let at = piece.va + piece.len_bytes;
            let end_pa = piece.pa + piece.len_bytes;
            let taken = self
                .or_sync(|aspace| aspace.fill_front(at.until(range.end), fresh(prot, max), place));
            let (pa, len_bytes) = taken?;
            if pa != end_pa {
                if at > range.start {
                    self.show(&piece);
                    self.add_pieces(1)?;
                    first = first.or(Some(piece.pa));
                }
                (piece.va, piece.pa, piece.len_bytes) = (at, pa, 0);
            }
            piece.len_bytes += len_bytes;
            let end_pa = piece.pa + piece.len_bytes;
            if piece.va + piece.len_bytes == range.end {
                self.show(&piece);
                return Ok([first.unwrap_or(piece.pa), end_pa]);
            }
            place = Place::At(end_pa);
        }
    }

    /// Logs fresh frames that are mapped with an access, for the proxy.
    fn show(&mut self, piece: &Extent) {
        if !piece.prot.is_empty() {
            record(self.machine, &shown(piece));
            self.published(VaRange::new(piece.va, piece.len_bytes));
        }
    }

    /// Maps fresh frames at the front of `range`: their address and length. `None`: no frame, or no table.
    fn fill_front(
        &mut self,
        range: VaRange,
        options: MapOptions,
        place: Place,
    ) -> Option<(Phys, u64)> {
        let taken = self.take(range, options.max, place)?;
        let Taken { pa, len_bytes, .. } = taken;
        if !taken.zero {
            self.machine.zero(pa, len_bytes);
        }
        M::point(FILL_WORK);
        let front = VaRange::new(range.start, len_bytes);
        self.renew(front);
        let (mut tables, root) = self.tables();
        if paging::map(&mut tables, root, front.start, pa, len_bytes, options).is_err() {
            // Some of it may have been mapped until a table was missing, and another thread or a peer may have used that.
            self.flush(front);
            self.frames
                .free_range(pa, len_bytes, false)
                .expect("a frame just allocated can be freed");
            return None;
        }
        Some((pa, len_bytes))
    }

    /// Frames for the front of `range`.
    #[inline(always)] // It is on the way of each small mapping.
    pub(super) fn take(&mut self, range: VaRange, max: PageSize, place: Place) -> Option<Taken> {
        let (va, len_bytes) = (range.start, range.len_bytes());
        let mut size = PageSize::largest(va.0, len_bytes, max);
        // BOUND: the sizes of pages.
        while size != PageSize::Size4K {
            let frame = match place {
                Place::At(addr) | Place::Behind(addr) => self.frames.alloc_prefer(size, addr),
                Place::Any | Place::Below(_) => self.frames.alloc(size),
            };
            if let Some(frame) = frame {
                let most_bytes = len_bytes.min(up_to(va, PageSize::Size1G));
                let len_bytes = match size {
                    PageSize::Size2M if most_bytes > size.bytes() => {
                        self.take_more(frame, most_bytes)
                    }
                    _ => size.bytes(),
                };
                return Some(Taken {
                    pa: frame.addr,
                    len_bytes,
                    zero: frame.zero,
                });
            }
            size = size.smaller()?;
        }
        let max_frames = len_bytes.min(up_to(va, PageSize::Size2M)) / PAGE_BYTES;
        let run = self.frames.alloc_at(max_frames as usize, place)?;
        Some(Taken {
            pa: run.addr,
            len_bytes: run.len_bytes,
            zero: run.zero,
        })
    }

    /// Takes the frames that continue `first`, to be mapped as one run of at most `most_bytes`; returns its bytes.
    #[inline(never)] // Out of that way.
    fn take_more(&mut self, first: Frame, most_bytes: u64) -> u64 {
        let step = first.size.bytes();
        let mut len_bytes = step;
        while len_bytes + step <= most_bytes
            && self.frames.alloc_next(first.addr + len_bytes, first.zero)
        {
            len_bytes += step;
            M::point(TAKE_WORK);
        }
        len_bytes
    }
}

/// Bytes from `va` up to the next address where a page of `size` may start.
fn up_to(va: Va, size: PageSize) -> u64 {
    size.bytes() - (va - va.align_down(size.bytes()))
}
