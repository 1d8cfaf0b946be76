//! Frame allocator over one rank's partition: a single physically contiguous range.
//!
//! Free memory is known at three grains. A bit per wholly free gigabyte and a bit per wholly free
//! 2 MiB chunk sit in [`BitTree`]s, so handing out a large page costs the same few reads however
//! large the partition is. Only a chunk used by parts has a bitmap in force. There is no free list:
//! freeing the parts of a large page in any order makes it whole again by itself.
//!
//! Each free frame also carries whether it is known to hold zeros. Clearing memory is the dearest
//! thing the kernel does (512 stores per 4 KiB), and a machine that hands its RAM over zeroed has
//! already paid for it once.
//!
//! A frame that is unmapped may still be mapped by others for a while (the proxy, another core's
//! TLB). Such a frame is **retired**: no longer in use, not free before [`Frames::release_retired`].
//!
//! Metadata: three bits per frame, plus 6 bytes and three bits per chunk. A buddy system was
//! considered; it needs links inside free frames (pool memory holds no kernel data) or a bit per
//! order, and its only gain, sizes between 4 KiB and 2 MiB, is something the MMU cannot map.

mod beside;
mod chunk;
mod free;
mod retired;
#[cfg(test)]
mod tests;
mod usage;
mod whole;

use crate::Point;
use crate::bits::BitTree;
use crate::page::{PAGE_BYTES, PageSize};
use abi::addr::Phys;
use alloc::vec::Vec;
pub use beside::Place;
use chunk::{Bits, Chunk, FRAMES_PER_CHUNK, Zero};
use whole::{CHUNKS_PER_GIB, Whole};

const CHUNK_BYTES: u64 = PageSize::Size2M.bytes();
const GIB_BYTES: u64 = PageSize::Size1G.bytes();
/// Work of setting one up, besides that of each chunk, for its caller (see [`Point`]).
pub const SET_UP_WORK: u32 = 5000;
/// Work per chunk in a loop over chunks.
const CHUNK_WORK: u32 = 100;

/// An allocated page-sized piece of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Physical address, aligned to `size`.
    pub addr: Phys,
    /// Its size.
    pub size: PageSize,
    /// Known to hold zeros in every byte.
    pub zero: bool,
}

/// Allocated adjacent 4 KiB frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Physical address of the first.
    pub addr: Phys,
    /// Length in bytes, a multiple of 4 KiB, at least one.
    pub len_bytes: u64,
    /// Known to hold zeros in every byte.
    pub zero: bool,
}

/// Why a free was refused: each is a kernel bug, and nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeError {
    /// Address or length is not a multiple of 4 KiB, or the length is zero.
    Misaligned,
    /// Not inside this partition.
    OutsidePartition,
    /// Some frame of it was free already.
    DoubleFree,
}

/// The allocator. Chunk numbers count 2 MiB steps from `origin`, the partition's base rounded down to
/// 1 GiB, so that a gigabyte is always 512 chunks starting at a multiple of 512.
pub struct Frames {
    base: Phys,
    end: Phys,
    origin: Phys,
    /// Chunks between `origin` and the first that has a bitmap.
    lead: usize,
    chunks: Vec<Chunk>,
    bits: Vec<Bits>,
    /// Chunks with every frame free.
    whole: Whole,
    /// Chunks with some, not all, frames free.
    partial: BitTree,
    /// Chunks with retired frames.
    waiting: BitTree,
    used_bytes: u64,
    retired_bytes: u64,
    peak_bytes: u64,
    point: Point,
}

impl Frames {
    /// An allocator over the whole 4 KiB frames inside `[base, base + len_bytes)`, all free.
    /// `all_zero`: the machine handed this memory over zeroed and it has not been written to.
    /// `point` is called in every loop over chunks. `None` when there is no memory for its own tables.
    ///
    /// # Panics
    /// When `base + len_bytes` wraps.
    pub fn new(base: Phys, len_bytes: u64, all_zero: bool, point: Point) -> Option<Self> {
        let end = base
            .checked_add(len_bytes)
            .expect("a partition does not wrap")
            .align_down(PAGE_BYTES);
        let base = base.align_up(PAGE_BYTES).min(end);
        let origin = base.align_down(GIB_BYTES);
        let lead = ((base - origin) / CHUNK_BYTES) as usize;
        let last = (end - origin).div_ceil(CHUNK_BYTES) as usize;
        let zero = if all_zero { Zero::Yes } else { Zero::No };
        let mut frames = Self {
            base,
            end,
            origin,
            lead,
            chunks: Vec::new(),
            bits: Vec::new(),
            whole: Whole::new(last)?,
            partial: BitTree::new(last)?,
            waiting: BitTree::new(last)?,
            used_bytes: 0,
            retired_bytes: 0,
            peak_bytes: 0,
            point,
        };
        frames.chunks.try_reserve_exact(last).ok()?;
        frames
            .bits
            .try_reserve_exact(last.saturating_sub(lead))
            .ok()?;
        let chunk = |free: usize| Chunk {
            free: free as u16,
            retired: 0,
            zero,
        };
        frames.chunks.resize(lead, chunk(0));
        point(SET_UP_WORK);
        for c in lead..last {
            let (lo, hi) = frames.clip(c, base, end);
            frames.chunks.push(chunk(hi - lo));
            frames.bits.push(Bits::all_free(false));
            point(CHUNK_WORK);
            if hi - lo == FRAMES_PER_CHUNK {
                frames.whole.insert(c);
            } else if hi > lo {
                // A chunk that sticks out of the partition: what is outside stays in use for ever.
                frames.bits[c - lead] = Bits::ALL_USED;
                frames.bits[c - lead].release(lo, hi, all_zero);
                frames.partial.insert(c);
            }
        }
        Some(frames)
    }

    /// Allocates one page at the lowest suitable address; a 4 KiB page comes from a chunk already
    /// broken up while there is one. None: no memory, or too fragmented for this size.
    pub fn alloc(&mut self, size: PageSize) -> Option<Frame> {
        match size {
            PageSize::Size4K => {
                let run = self.alloc_run(1, None)?;
                Some(Frame {
                    addr: run.addr,
                    size,
                    zero: run.zero,
                })
            }
            PageSize::Size2M => {
                let c = self.whole.pop_first()?;
                Some(self.take_chunk(c))
            }
            PageSize::Size1G => {
                let gib = self.whole.first_gib()?;
                Some(self.take_gib(gib))
            }
        }
    }

    /// As [`Self::alloc`], but at exactly `addr` when that page is free and aligned: a mapping that
    /// grows stays physically contiguous.
    pub fn alloc_prefer(&mut self, size: PageSize, addr: Phys) -> Option<Frame> {
        if size == PageSize::Size4K {
            let run = self.alloc_run(1, Some(addr))?;
            return Some(Frame {
                addr: run.addr,
                size,
                zero: run.zero,
            });
        }
        if addr.is_aligned(size.bytes()) && addr >= self.base && addr < self.end {
            let c = self.chunk_of(addr);
            if size == PageSize::Size2M && self.whole.contains(c) {
                self.whole.remove(c);
                return Some(self.take_chunk(c));
            }
            if size == PageSize::Size1G && self.whole.contains_gib(c / CHUNKS_PER_GIB) {
                return Some(self.take_gib(c / CHUNKS_PER_GIB));
            }
        }
        self.alloc(size)
    }

    /// Allocates the 2 MiB at `addr`, a multiple of that, behind what was allocated just now, if they are free and hold zeros, or may
    /// not, as that does.
    pub fn alloc_next(&mut self, addr: Phys, zero: bool) -> bool {
        if addr >= self.end {
            return false;
        }
        let c = self.chunk_of(addr);
        let is_next = self.whole.contains(c) && (self.chunks[c].zero == Zero::Yes) == zero;
        if is_next {
            self.whole.remove(c);
            self.take_chunk(c);
        }
        is_next
    }

    /// Allocates between 1 and `max_frames` adjacent 4 KiB frames of one chunk, at `prefer` when
    /// that frame is free. One call costs about what one frame costs.
    pub fn alloc_run(&mut self, max_frames: usize, prefer: Option<Phys>) -> Option<Run> {
        if let Some(addr) = prefer
            && let Some(run) = self.run_at(addr, max_frames)
        {
            return Some(run);
        }
        let c = self.partial.first().or_else(|| self.whole.first())?;
        self.take_run(c, None, max_frames)
    }

    /// A run that begins at `addr`, if that is a free frame.
    fn run_at(&mut self, addr: Phys, max_frames: usize) -> Option<Run> {
        if !addr.is_aligned(PAGE_BYTES) || addr < self.base || addr >= self.end {
            return None;
        }
        self.take_run(self.chunk_of(addr), Some(frame_in_chunk(addr)), max_frames)
    }

    /// Whether `[addr, addr + len_bytes)` belongs to the partition.
    pub fn holds(&self, addr: Phys, len_bytes: u64) -> bool {
        addr >= self.base && addr < self.end && len_bytes <= self.end - addr
    }

    /// First byte of the partition.
    pub fn base(&self) -> Phys {
        self.base
    }

    /// End of the partition.
    pub fn end(&self) -> Phys {
        self.end
    }

    fn chunk_of(&self, addr: Phys) -> usize {
        ((addr - self.origin) / CHUNK_BYTES) as usize
    }

    /// The frames of a chunk that is used by parts.
    fn bits_of(&self, c: usize) -> Option<&Bits> {
        let is_partial = self.partial.contains(c);
        is_partial.then(|| &self.bits[c - self.lead])
    }

    fn chunk_addr(&self, c: usize) -> Phys {
        self.origin + c as u64 * CHUNK_BYTES
    }

    /// The frames of chunk `c` that lie in `[from, to)`.
    fn clip(&self, c: usize, from: Phys, to: Phys) -> (usize, usize) {
        let start = self.chunk_addr(c);
        let (from, to) = (from.max(start), to.min(start + CHUNK_BYTES));
        (
            ((from - start) / PAGE_BYTES) as usize,
            ((to - start) / PAGE_BYTES) as usize,
        )
    }

    /// Takes chunk `c`, wholly free until it left `whole`, as one page.
    fn take_chunk(&mut self, c: usize) -> Frame {
        self.chunks[c].free = 0;
        self.count_alloc(CHUNK_BYTES);
        let zero = self.chunks[c].zero == Zero::Yes;
        Frame {
            addr: self.chunk_addr(c),
            size: PageSize::Size2M,
            zero,
        }
    }

    fn take_gib(&mut self, gib: usize) -> Frame {
        let first = gib * CHUNKS_PER_GIB;
        let mut zero = true;
        for c in first..first + CHUNKS_PER_GIB {
            self.whole.remove(c);
            zero &= self.take_chunk(c).zero;
            (self.point)(CHUNK_WORK);
        }
        Frame {
            addr: self.chunk_addr(first),
            size: PageSize::Size1G,
            zero,
        }
    }

    /// Takes a run of frames of chunk `c`, breaking it up when it is whole.
    fn take_run(&mut self, c: usize, at: Option<usize>, max_frames: usize) -> Option<Run> {
        let Chunk { free, zero, .. } = self.chunks[c];
        if free == 0 {
            return None;
        }
        let bits = &mut self.bits[c - self.lead];
        let was_whole = usize::from(free) == FRAMES_PER_CHUNK;
        if was_whole && zero != Zero::Mixed {
            *bits = Bits::all_free(zero == Zero::Yes);
        }
        let (first, count, zero) = bits.take_run(at, max_frames)?;
        if was_whole {
            self.whole.remove(c);
            self.partial.insert(c);
        }
        self.chunks[c].free -= count as u16;
        if self.chunks[c].free == 0 {
            self.partial.remove(c);
        }
        let len_bytes = count as u64 * PAGE_BYTES;
        self.count_alloc(len_bytes);
        Some(Run {
            addr: self.chunk_addr(c) + first as u64 * PAGE_BYTES,
            len_bytes,
            zero,
        })
    }
}

fn frame_in_chunk(addr: Phys) -> usize {
    ((addr.0 % CHUNK_BYTES) / PAGE_BYTES) as usize
}
