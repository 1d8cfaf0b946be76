//! Shared words: a `u64` that one side writes and the other reads.

use core::sync::atomic::Ordering;
#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, fence};

#[cfg(loom)]
use crate::model::{AtomicU64, fence};

use zerocopy::{FromBytes, KnownLayout};

/// A 64-bit word in shared memory with one writer.
///
/// Loads acquire and stores release, so that whatever was written before a store is seen after the load that sees it.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// A word for tests and for memory that is not shared yet.
    #[must_use]
    pub const fn new(value: u64) -> Word {
        Word(AtomicU64::new(value))
    }

    /// The current value.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The writer's own last value, or data that a later acquiring load guards: no ordering.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Publishes a value. Only the word's writer may call this.
    #[inline]
    pub fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Writes data that a later publishing store guards: no ordering. Only the word's writer may call this.
    #[inline]
    pub fn put(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Counts up by `n`. Not atomic against a second writer, of which there is none.
    #[inline]
    pub fn add(&self, n: u64) {
        self.put(self.peek().wrapping_add(n));
    }

    /// The atomic itself, for code that increments it in assembly.
    #[must_use]
    pub fn as_atomic(&self) -> &AtomicU64 {
        &self.0
    }
}

/// Orders an earlier store before a later load (store buffers!): between "I am going to block" and the last look.
///
/// Under single-threaded TCG QEMU drops the guest's fences; see [`crate::ship`] for what the guest does instead.
#[inline]
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Text of at most `8 * N` bytes in shared memory; shorter text ends at the first zero byte.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(transparent)]
pub struct Text<const N: usize>([Word; N]);

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([const { Word::new(0) }; N])
    }
}

impl<const N: usize> Text<N> {
    /// Writes `text`, cut to what fits. Publish it by a later [`Word::store`].
    pub fn put(&self, text: &[u8]) {
        for (i, word) in self.0.iter().enumerate() {
            let mut bytes = [0u8; 8];
            for (to, from) in bytes.iter_mut().zip(text.iter().skip(i * 8)) {
                *to = *from;
            }
            word.put(u64::from_le_bytes(bytes));
        }
    }

    /// Copies the text into `out` and returns the part before the first zero byte.
    pub fn get<'a>(&self, out: &'a mut [u8]) -> &'a [u8] {
        let room = out.len().min(8 * N);
        for (chunk, word) in out[..room].chunks_mut(8).zip(&self.0) {
            let bytes = word.peek().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        let len = out[..room].iter().position(|&b| b == 0).unwrap_or(room);
        &out[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_what_fits_and_ends_at_zero() {
        let text = Text::<2>::default();
        let mut out = [0u8; 32];
        text.put(b"0123456789abcdefXYZ");
        assert_eq!(text.get(&mut out), b"0123456789abcdef");
        text.put(b"short");
        assert_eq!(text.get(&mut out), b"short");
        assert_eq!(text.get(&mut out[..3]), b"sho");
    }
}
