//! What of a file lies in frames, for calls that go to both.

use wire::objects::Entry;

use super::part::Part;
use super::{File, Locked, Objects};

impl Locked<'_> {
    /// The parts of `from .. to` of the file that lie in frames: offset, address here, length; `filled`: only those that can be
    /// read.
    pub fn parts(&self, file: File, (from, to): (u64, u64), filled: bool) -> Vec<Part> {
        let clip = |entry: Entry| {
            let start = entry.offset.max(from);
            let end = entry.offset.checked_add(entry.len_bytes)?.min(to);
            let len_bytes = end.checked_sub(start).filter(|&len| len > 0)?;
            let gpa = entry.gpa.checked_add(start - entry.offset)?;
            Some(Part {
                offset: start,
                address: self.objects.frames(gpa, len_bytes)?,
                len_bytes,
            })
        };
        let entries = self.objects.entries(file).into_iter();
        entries
            .filter(|entry| entry.filled || !filled)
            .filter_map(clip)
            .collect()
    }
}

impl Objects {
    /// A file's entries in the directory, of one moment.
    pub fn entries(&self, file: File) -> Vec<Entry> {
        let directory = self.directory;
        loop {
            let before = directory.version();
            let entries = directory.entries(file).collect();
            if before.is_some() && directory.version() == before {
                return entries;
            }
            std::thread::yield_now();
        }
    }
}
