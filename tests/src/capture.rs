//! What came out of a descriptor: all of it as a digest, so that a gibibyte can be compared, and its beginning as bytes.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};

/// Bytes kept.
const KEPT_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 1 << 16;

/// Bytes that were written or lie in a file. Equal when the bytes are.
#[derive(Clone, PartialEq, Eq)]
pub struct Captured {
    /// How many.
    pub len_bytes: u64,
    digest: u64,
    head: Vec<u8>,
}

impl Captured {
    /// Reads to the end.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(from: &mut impl Read) -> io::Result<Captured> {
        let mut all = Captured {
            len_bytes: 0,
            digest: 0,
            head: Vec::new(),
        };
        let mut hasher = DefaultHasher::new();
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read = match from.read(&mut block) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let bytes = &block[..read];
            all.len_bytes += read as u64;
            hasher.write(bytes);
            let room = KEPT_BYTES - all.head.len();
            all.head.extend_from_slice(&bytes[..read.min(room)]);
        }
        all.digest = hasher.finish();
        Ok(all)
    }

    /// Bytes that are already here.
    #[must_use]
    pub fn of(mut bytes: &[u8]) -> Captured {
        Captured::read(&mut bytes).expect("memory can be read")
    }

    /// The first bytes: all of them unless there are more than a mebibyte.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The first bytes as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }
}

impl std::fmt::Debug for Captured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes ({:016x})", self.len_bytes, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_differ_in_their_last_byte() {
        let mut bytes = vec![7; KEPT_BYTES + 5];
        let first = Captured::of(&bytes);
        assert_eq!(first.head().len(), KEPT_BYTES);
        bytes[KEPT_BYTES + 4] = 8;
        assert_ne!(first, Captured::of(&bytes));
    }

    #[test]
    fn how_bytes_arrive_does_not_matter() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let mut pieces = bytes[..3].chain(&bytes[3..17]).chain(&bytes[17..]);
        assert_eq!(
            Captured::read(&mut pieces).expect("memory"),
            Captured::of(&bytes)
        );
    }
}
