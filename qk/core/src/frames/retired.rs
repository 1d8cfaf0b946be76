//! Frames that were unmapped and may still be mapped by others: no longer in use, not free yet. They do not count as used: to the
//! program they are given back, and an allocation that needs them waits until they are free.

use super::chunk::{Bits, FRAMES_PER_CHUNK, Zero};
use abi::addr::Phys;

use super::{CHUNK_WORK, Chunk, Frames, FreeError};

impl Frames {
    /// Retires `[addr, addr + len_bytes)`, which is in use. `clean`: it holds zeros, and is not written to any more.
    ///
    /// # Errors
    /// As [`Self::free_range`].
    pub fn retire(&mut self, addr: Phys, len_bytes: u64, clean: bool) -> Result<(), FreeError> {
        let checked = self.check_free(addr, len_bytes);
        debug_assert!(
            checked.is_ok(),
            "retirement of {addr:?}+{len_bytes:#x}: {checked:?}"
        );
        let end = checked?;
        self.used_bytes -= len_bytes;
        self.retired_bytes += len_bytes;
        for c in self.chunk_of(addr)..=self.chunk_of(end.before(1)) {
            let (lo, hi) = self.clip(c, addr, end);
            self.retire_in_chunk(c, lo, hi, clean);
            (self.point)(CHUNK_WORK);
        }
        Ok(())
    }

    /// Frees all that is retired.
    pub fn release_retired(&mut self) {
        while let Some(c) = self.waiting.pop_first() {
            (self.point)(CHUNK_WORK);
            let Chunk { retired, zero, .. } = self.chunks[c];
            if self.chunks[c].is_retired_whole() {
                self.chunks[c].retired = 0;
                self.release(c, 0, FRAMES_PER_CHUNK, zero == Zero::Yes);
            } else {
                self.bits[c - self.lead].release_retired();
                self.chunks[c].retired = 0;
                self.add_free(c, retired);
            }
        }
        self.retired_bytes = 0;
    }

    /// Retires frames `lo..hi` of chunk `c`, known to be in use.
    fn retire_in_chunk(&mut self, c: usize, lo: usize, hi: usize, clean: bool) {
        self.waiting.insert(c);
        let chunk = &mut self.chunks[c];
        let used_whole = chunk.is_used_whole();
        chunk.retired += (hi - lo) as u16;
        if hi - lo == FRAMES_PER_CHUNK {
            chunk.zero = if clean { Zero::Yes } else { Zero::No };
            return;
        }
        chunk.zero = Zero::Mixed;
        let bits = &mut self.bits[c - self.lead];
        if used_whole {
            *bits = Bits::ALL_USED;
        }
        bits.retire(lo, hi, clean);
    }
}
