//! Giving frames back.

use super::chunk::{Bits, Chunk, FRAMES_PER_CHUNK, Zero};
use super::{CHUNK_WORK, Frames, FreeError};
use crate::page::{PAGE_BYTES, PageSize};
use abi::addr::Phys;

impl Frames {
    /// Frees one page, or any aligned part of a larger one. `clean`: it holds zeros.
    ///
    /// # Errors
    /// As [`Self::free_range`].
    pub fn free(&mut self, addr: Phys, size: PageSize, clean: bool) -> Result<(), FreeError> {
        self.free_range(addr, size.bytes(), clean)
    }

    /// Frees `[addr, addr + len_bytes)`, however it was allocated. `clean`: it holds zeros.
    ///
    /// # Errors
    /// [`FreeError`]; nothing is freed then. Debug builds panic instead.
    pub fn free_range(&mut self, addr: Phys, len_bytes: u64, clean: bool) -> Result<(), FreeError> {
        let checked = self.check_free(addr, len_bytes);
        debug_assert!(
            checked.is_ok(),
            "free of {addr:?}+{len_bytes:#x}: {checked:?}"
        );
        let end = checked?;
        for c in self.chunk_of(addr)..=self.chunk_of(end.before(1)) {
            let (lo, hi) = self.clip(c, addr, end);
            self.release(c, lo, hi, clean);
            (self.point)(CHUNK_WORK);
        }
        self.used_bytes -= len_bytes;
        Ok(())
    }

    /// Whether `[addr, addr + len_bytes)` is wholly in use, hence may be freed. Returns its end.
    ///
    /// # Errors
    /// What [`Self::free_range`] would report.
    pub fn check_free(&self, addr: Phys, len_bytes: u64) -> Result<Phys, FreeError> {
        if len_bytes == 0 || (addr.0 | len_bytes) & (PAGE_BYTES - 1) != 0 {
            return Err(FreeError::Misaligned);
        }
        let end = addr
            .checked_add(len_bytes)
            .filter(|end| addr >= self.base && *end <= self.end);
        let end = end.ok_or(FreeError::OutsidePartition)?;
        let in_use = (self.chunk_of(addr)..=self.chunk_of(end.before(1))).all(|c| {
            let (lo, hi) = self.clip(c, addr, end);
            (self.point)(CHUNK_WORK);
            let chunk = self.chunks[c];
            let free_whole = usize::from(chunk.free) == FRAMES_PER_CHUNK;
            chunk.is_used_whole()
                || !free_whole
                    && !chunk.is_retired_whole()
                    && self.bits[c - self.lead].are_used(lo, hi)
        });
        if in_use {
            Ok(end)
        } else {
            Err(FreeError::DoubleFree)
        }
    }

    /// Frees frames `lo..hi` of chunk `c`, known to be in use.
    pub(super) fn release(&mut self, c: usize, lo: usize, hi: usize, clean: bool) {
        if hi - lo == FRAMES_PER_CHUNK {
            self.chunks[c] = Chunk {
                free: FRAMES_PER_CHUNK as u16,
                retired: 0,
                zero: if clean { Zero::Yes } else { Zero::No },
            };
            self.whole.insert(c);
            return;
        }
        let bits = &mut self.bits[c - self.lead];
        if self.chunks[c].is_used_whole() {
            *bits = Bits::ALL_USED;
        }
        bits.release(lo, hi, clean);
        self.add_free(c, (hi - lo) as u16);
    }

    /// Notes that `count` more frames of chunk `c` are free; the bits say so already.
    pub(super) fn add_free(&mut self, c: usize, count: u16) {
        let chunk = &mut self.chunks[c];
        if chunk.free == 0 {
            self.partial.insert(c);
        }
        chunk.free += count;
        if usize::from(chunk.free) == FRAMES_PER_CHUNK {
            chunk.zero = self.bits[c - self.lead].summary();
            self.partial.remove(c);
            self.whole.insert(c);
        }
    }
}
