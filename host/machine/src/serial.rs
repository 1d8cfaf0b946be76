//! The kernel log as it comes out of the serial line: the last of it is kept, for readers at their own pace.

/// Bytes that are kept.
pub const KEPT_BYTES: usize = 64 << 10;

/// The end of the log.
#[derive(Debug, Default)]
pub struct Log {
    kept: Vec<u8>,
    /// Bytes that were dropped before `kept`.
    dropped: u64,
}

/// A reader's place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor(u64);

impl Log {
    /// Appends what came.
    pub fn append(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        // In large steps, so that not every byte moves all the others.
        if self.kept.len() > 2 * KEPT_BYTES {
            let surplus = self.kept.len() - KEPT_BYTES;
            self.kept.drain(..surplus);
            self.dropped += surplus as u64;
        }
    }

    /// All that is kept, cut to [`KEPT_BYTES`].
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.kept[self.kept.len().saturating_sub(KEPT_BYTES)..]
    }

    /// What a reader has not seen yet, at most `most` bytes. A reader who is too slow misses what was dropped.
    #[must_use]
    pub fn next(&self, cursor: Cursor, most: usize) -> &[u8] {
        let from = usize::try_from(cursor.0.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        let rest = self.kept.get(from..).unwrap_or_default();
        &rest[..rest.len().min(most)]
    }

    /// The reader's place after it took `bytes` of [`Self::next`].
    #[must_use]
    pub fn advance(&self, cursor: Cursor, bytes: usize) -> Cursor {
        Cursor(cursor.0.max(self.dropped) + bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_go_at_their_own_pace() {
        let mut log = Log::default();
        log.append(b"hello ");
        let mut a = Cursor::default();
        assert_eq!(log.next(a, 4), b"hell");
        a = log.advance(a, 4);
        log.append(b"world");
        assert_eq!(log.next(a, 100), b"o world");
        a = log.advance(a, 7);
        assert_eq!(log.next(a, 100), b"");
        assert_eq!(log.next(Cursor::default(), 100), b"hello world");
    }

    #[test]
    fn the_end_is_kept() {
        let mut log = Log::default();
        for i in 0..3000 {
            log.append(format!("{i:0100}").as_bytes());
        }
        assert_eq!(log.tail().len(), KEPT_BYTES);
        assert!(log.tail().ends_with(b"02999"));
        assert!(log.kept.len() <= 2 * KEPT_BYTES);
        // Who has read nothing starts with what is left.
        let cursor = log.advance(Cursor::default(), 0);
        assert_eq!(log.next(cursor, 10), &log.kept[..10]);
        let cursor = log.advance(Cursor::default(), 50);
        assert_eq!(log.next(cursor, 100), &log.kept[50..150]);
    }
}
