//! The 4 KiB frames of one 2 MiB chunk.
//!
//! Most chunks live and die whole, so their bitmaps are written only when one is first broken up:
//! the bits mean something only while the chunk is partly used or partly retired (or wholly free or
//! retired with `Zero::Mixed`).

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
    /// Frames that are retired: not used any more, not free yet.
    pub retired: u16,
    /// Contents of a chunk that is wholly free or retired.
    pub zero: Zero,
}

impl Chunk {
    /// Whether nothing is free or retired: the bits mean nothing.
    pub const fn is_used_whole(self) -> bool {
        self.free == 0 && self.retired == 0
    }

    /// Whether it was retired as a whole: the bits mean nothing.
    pub fn is_retired_whole(self) -> bool {
        usize::from(self.retired) == FRAMES_PER_CHUNK && self.zero != Zero::Mixed
    }
}

/// Frame by frame state of a chunk in use by parts.
#[derive(Clone, Copy)]
pub struct Bits {
    /// In use, or retired.
    used: [u64; 8],
    zero: [u64; 8],
    retired: [u64; 8],
}

impl Bits {
    /// Nothing free.
    pub const ALL_USED: Self = Self {
        used: [u64::MAX; 8],
        zero: [0; 8],
        retired: [0; 8],
    };

    /// Everything free, with contents as `zero` says.
    pub const fn all_free(zero: bool) -> Self {
        Self {
            used: [0; 8],
            zero: [if zero { u64::MAX } else { 0 }; 8],
            retired: [0; 8],
        }
    }

    /// Whether every frame of `lo..hi` is in use.
    pub fn are_used(&self, lo: usize, hi: usize) -> bool {
        // BOUND: the words of a chunk.
        words(lo, hi).all(|(w, mask)| self.used[w] & !self.retired[w] & mask == mask)
    }

    /// Retires `lo..hi`, which must be in use.
    pub fn retire(&mut self, lo: usize, hi: usize, clean: bool) {
        // BOUND: the words of a chunk.
        for (w, mask) in words(lo, hi) {
            self.retired[w] |= mask;
            self.zero[w] = with(self.zero[w], mask, clean);
        }
    }

    /// Frees what is retired.
    pub fn release_retired(&mut self) {
        // BOUND: the words of a chunk.
        for (used, retired) in self.used.iter_mut().zip(&mut self.retired) {
            *used &= !core::mem::take(retired);
        }
    }

    /// Frees `lo..hi`, which must be in use.
    pub fn release(&mut self, lo: usize, hi: usize, clean: bool) {
        // BOUND: the words of a chunk.
        for (w, mask) in words(lo, hi) {
            self.used[w] &= !mask;
            self.zero[w] = with(self.zero[w], mask, clean);
        }
    }

    /// Takes up to `max` adjacent free frames of equal contents, beginning at `at`, or at the first
    /// free frame for None. Returns (first frame, count, zero).
    pub fn take_run(&mut self, at: Option<usize>, max: usize) -> Option<(usize, usize, bool)> {
        let first = match at {
            Some(i) => i,
            None => {
                // BOUND: the words of a chunk.
                let (w, used) = self
                    .used
                    .iter()
                    .enumerate()
                    .find(|(_, used)| **used != u64::MAX)?;
                w * 64 + used.trailing_ones() as usize
            }
        };
        let zero = self.zero[first / 64] >> (first % 64) & 1 != 0;
        let end = FRAMES_PER_CHUNK.min(first + max);
        let mut next = first;
        // BOUND: the words of a chunk.
        while next < end {
            let (w, shift) = (next / 64, next % 64);
            let unlike = if zero { !self.zero[w] } else { self.zero[w] };
            let run = ((self.used[w] | unlike) >> shift).trailing_zeros() as usize;
            let in_word = 64 - shift;
            let count = run.min(in_word).min(end - next);
            if count > 0 {
                self.used[w] |= (u64::MAX >> (64 - count)) << shift;
            }
            next += count;
            if count < in_word {
                break;
            }
        }
        (next > first).then_some((first, next - first, zero))
    }

    /// Whether a frame is free.
    pub fn is_free(&self, frame: usize) -> bool {
        self.used[frame / 64] >> (frame % 64) & 1 == 0
    }

    /// The longest run of words of free frames, 64 each: the first frame, and how many.
    pub fn longest_gap(&self) -> (usize, usize) {
        let (mut longest, mut start) = ((0, 0), 0);
        // BOUND: the words of a chunk.
        for (end, used) in self.used.iter().chain([&u64::MAX]).enumerate() {
            if *used != 0 {
                if end - start > longest.1 {
                    longest = (start, end - start);
                }
                start = end + 1;
            }
        }
        (longest.0 * 64, longest.1 * 64)
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

const fn with(word: u64, mask: u64, set: bool) -> u64 {
    if set { word | mask } else { word & !mask }
}

/// The (word, mask) pairs that cover frames `lo..hi` of a chunk.
fn words(lo: usize, hi: usize) -> impl Iterator<Item = (usize, u64)> {
    // BOUND: the words of a chunk.
    (lo / 64..hi.div_ceil(64)).map(move |w| {
        let from = lo.max(w * 64) - w * 64;
        let to = hi.min(w * 64 + 64) - w * 64;
        (w, (u64::MAX >> (64 - (to - from))) << from)
    })
}
