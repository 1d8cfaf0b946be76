//! The 4 KiB frames of one 2 MiB chunk.
//!
//! Most chunks live and die whole, so their bitmaps are written only when one is first broken up:
//! the bits mean something only while the chunk is partly used (or wholly free with `Zero::Mixed`).

/// Frames in a chunk.
pub const FRAMES_PER_CHUNK: usize = 512;

/// What is known of the contents of a wholly free chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// Nothing: treat it as dirty.
    No,
    /// Every byte is zero.
    Yes,
    /// Frame by frame, as the bitmap says.
    Mixed,
}

/// Summary of a chunk; `free` is 0 (used whole), 512 (free whole) or between.
#[derive(Clone, Copy)]
pub struct Chunk {
    /// Free frames.
    pub free: u16,
    /// Contents of a free chunk.
    pub zero: Zero,
}

/// Frame by frame state of a chunk in use by parts.
#[derive(Clone, Copy)]
pub struct Bits {
    used: [u64; 8],
    zero: [u64; 8],
}

impl Bits {
    /// Nothing free.
    pub const ALL_USED: Self = Self {
        used: [u64::MAX; 8],
        zero: [0; 8],
    };

    /// Everything free, with contents as `zero` says.
    pub const fn all_free(zero: bool) -> Self {
        Self {
            used: [0; 8],
            zero: [if zero { u64::MAX } else { 0 }; 8],
        }
    }

    /// Whether every frame of `lo..hi` is in use.
    pub fn are_used(&self, lo: usize, hi: usize) -> bool {
        words(lo, hi).all(|(w, mask)| self.used[w] & mask == mask)
    }

    /// Frees `lo..hi`, which must be in use.
    pub fn release(&mut self, lo: usize, hi: usize, clean: bool) {
        for (w, mask) in words(lo, hi) {
            self.used[w] &= !mask;
            self.zero[w] = if clean {
                self.zero[w] | mask
            } else {
                self.zero[w] & !mask
            };
        }
    }

    /// Takes up to `max` adjacent free frames of equal contents, beginning at `at`, or at the first
    /// free frame for None. A run never crosses a multiple of 64 frames: one word decides it.
    /// Returns (first frame, count, zero).
    pub fn take_run(&mut self, at: Option<usize>, max: usize) -> Option<(usize, usize, bool)> {
        let first = match at {
            Some(i) => i,
            None => {
                let (w, used) = self
                    .used
                    .iter()
                    .enumerate()
                    .find(|(_, used)| **used != u64::MAX)?;
                w * 64 + used.trailing_ones() as usize
            }
        };
        let (w, shift) = (first / 64, first % 64);
        let free = (self.used[w] >> shift).trailing_zeros() as usize;
        let zeros = self.zero[w] >> shift;
        let zero = zeros & 1 != 0;
        let alike = if zero {
            zeros.trailing_ones()
        } else {
            zeros.trailing_zeros()
        } as usize;
        let count = free.min(alike).min(max).min(64 - shift);
        if count == 0 {
            return None;
        }
        self.used[w] |= (u64::MAX >> (64 - count)) << shift;
        Some((first, count, zero))
    }

    /// What a chunk whose frames have all become free again holds.
    pub fn summary(&self) -> Zero {
        if self.zero == [u64::MAX; 8] {
            Zero::Yes
        } else if self.zero == [0; 8] {
            Zero::No
        } else {
            Zero::Mixed
        }
    }
}

/// The (word, mask) pairs that cover frames `lo..hi` of a chunk.
fn words(lo: usize, hi: usize) -> impl Iterator<Item = (usize, u64)> {
    (lo / 64..hi.div_ceil(64)).map(move |w| {
        let from = lo.max(w * 64) - w * 64;
        let to = hi.min(w * 64 + 64) - w * 64;
        (w, (u64::MAX >> (64 - (to - from))) << from)
    })
}
