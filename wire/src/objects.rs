//! The directory of the node pool: which bytes of which file lie in which of its frames.
//!
//! The QK writes it, all proxies of the node read it: a call on a file that some rank has mapped goes to the file and to the
//! frames (docs/shared-memory.md). A reader that finds the version as it was before has seen
//! entries of one moment. A proxy holds the file's lock from before it looks until it has used what it found; the QK takes an
//! entry out first, then has a proxy take and release that lock, and only then gives the frames to another use.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::{Word, full_fence};

/// Entries: runs of adjacent frames that the pool can consist of.
pub const ENTRIES: usize = 512;

/// Bytes of a file that lie in adjacent frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Device and inode of the file, as stat(2) has them.
    pub file: [u64; 2],
    /// Offset in the file of the first byte, in bytes.
    pub offset: u64,
    /// Length in bytes; 0: the entry is not in use.
    pub len_bytes: u64,
    /// Guest-physical address of the first byte.
    pub gpa: u64,
    /// The frames hold what the file holds, or what ranks have written since. Before, they are written to and not read.
    pub filled: bool,
}

/// An [`Entry`] in shared memory.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct EntryWords {
    file: [Word; 2],
    offset: Word,
    len_bytes: Word,
    gpa: Word,
    filled: Word,
}

/// The directory in shared memory.
#[derive(FromBytes, KnownLayout, Debug)]
#[repr(C)]
pub struct Directory {
    /// Odd while an entry is being written.
    version: Word,
    /// Entries from this one on are not in use.
    used: Word,
    /// Guest-physical base and bytes of the pool; written once, before the first rank starts.
    pool: [Word; 2],
    _pad: [Word; 4],
    entries: [EntryWords; ENTRIES],
}

impl Directory {
    /// Says where the pool is (QK only).
    pub fn set_pool(&self, base: u64, len_bytes: u64) {
        self.pool[0].put(base);
        self.pool[1].store(len_bytes);
    }

    /// Base and length of the pool in bytes.
    #[must_use]
    pub fn pool(&self) -> (u64, u64) {
        let len_bytes = self.pool[1].load();
        (self.pool[0].load(), len_bytes)
    }

    /// Replaces entry `index` (QK only, one at a time). Panics when there is no such entry.
    pub fn put(&self, index: usize, entry: &Entry) {
        let odd = self.version.peek().wrapping_add(1) | 1;
        self.version.store(odd);
        full_fence();
        let words = &self.entries[index];
        for (word, value) in words.file.iter().zip(entry.file) {
            word.put(value);
        }
        words.offset.put(entry.offset);
        words.len_bytes.put(entry.len_bytes);
        words.gpa.put(entry.gpa);
        words.filled.put(entry.filled.into());
        let in_use = |index: &usize| self.entries[*index].len_bytes.peek() != 0;
        let last = (0..ENTRIES.min(self.most_used().max(index + 1)))
            .rev()
            .find(in_use);
        self.used.put(last.map_or(0, |last| last as u64 + 1));
        self.version.store(odd.wrapping_add(1));
    }

    /// Empties entry `index` (QK only).
    pub fn remove(&self, index: usize) {
        self.put(index, &Entry::default());
    }

    /// Whether no file is mapped.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used.load() == 0
    }

    /// What shows whether entries have changed; `None` while one is being written.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        Some(self.version.load()).filter(|version| version % 2 == 0)
    }

    /// The entries of a file, if [`Self::version`] is the same before and after.
    pub fn entries(&self, file: [u64; 2]) -> impl Iterator<Item = Entry> + '_ {
        let entry = |words: &EntryWords| Entry {
            file: [words.file[0].load(), words.file[1].load()],
            offset: words.offset.load(),
            len_bytes: words.len_bytes.load(),
            gpa: words.gpa.load(),
            filled: words.filled.load() != 0,
        };
        let all = self.entries[..self.most_used()].iter().map(entry);
        all.filter(move |entry| entry.file == file && entry.len_bytes != 0)
    }

    fn most_used(&self) -> usize {
        self.used.load().min(ENTRIES as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use zerocopy::FromZeros;

    use super::*;

    fn entry(inode: u64, offset: u64) -> Entry {
        Entry {
            file: [7, inode],
            offset,
            len_bytes: 0x2000,
            gpa: 0x20_0000 + offset,
            filled: true,
        }
    }

    #[test]
    fn entries_are_found_by_file_and_disappear() {
        let directory = Directory::new_zeroed();
        assert!(directory.is_empty());
        directory.put(3, &entry(1, 0));
        directory.put(0, &entry(2, 0));
        directory.put(1, &entry(1, 0x4000));
        let of = |inode| -> Vec<u64> {
            let found = directory.entries([7, inode]);
            found.map(|entry| entry.offset).collect()
        };
        assert_eq!(
            (of(1), of(2), of(3)),
            ([0x4000, 0].into(), [0].into(), Vec::new())
        );
        let before = directory.version();
        directory.remove(3);
        assert_ne!(directory.version(), before);
        assert_eq!(of(1), [0x4000]);
        directory.remove(1);
        directory.remove(0);
        assert!(directory.is_empty() && of(2).is_empty());
    }

    #[test]
    fn the_last_entry_can_be_used() {
        let directory = Directory::new_zeroed();
        directory.put(ENTRIES - 1, &entry(1, 0));
        assert_eq!(directory.entries([7, 1]).count(), 1);
        directory.remove(ENTRIES - 1);
        assert!(directory.is_empty());
    }

    /// Whatever the words say, nothing is read from beyond the table.
    #[test]
    fn a_count_that_cannot_be_is_cut() {
        let directory = Directory::new_zeroed();
        directory.used.store(u64::MAX);
        assert_eq!(directory.entries([0, 0]).count(), 0);
    }
}
