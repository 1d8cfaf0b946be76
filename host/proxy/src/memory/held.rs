//! What a file of guest RAM holds, as far as it was found out.
//!
//! Linux examines each page to find where a run of them ends (lseek(2), SEEK_HOLE). No holes are made in guest RAM, so what was once there is
//! not searched for again. Where one was made, a copy would read zeros, as it should.

use std::collections::BTreeMap;
use std::ops::Range;

use abi::Errno;
use rustix::fs::{SeekFrom, seek};
use rustix::io;

use crate::errno::linux;

/// A part of a region that guest RAM holds something for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// First byte.
    pub addr: u64,
    /// Length.
    pub len_bytes: u64,
    /// Offset in the RAM's file.
    pub offset: u64,
}

/// Ranges of a file that are no holes; they neither overlap nor touch.
#[derive(Default, Debug)]
pub struct Found(BTreeMap<u64, u64>);

impl Found {
    /// The parts of `range` that `file` holds, in their order.
    ///
    /// # Errors
    /// What lseek(2) says.
    pub fn find(
        &mut self,
        file: impl std::os::fd::AsFd,
        range: Range<u64>,
    ) -> Result<Vec<Range<u64>>, Errno> {
        // Others move the file's position as well; what counts is what is returned.
        let data = |at| match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => Ok(data),
            Err(io::Errno::NXIO) => Ok(u64::MAX),
            Err(errno) => Err(linux(errno)),
        };
        let hole = |at| seek(&file, SeekFrom::Hole(at)).map_err(linux);
        self.find_by(range, data, hole)
    }

    /// `data` and `hole` say where the next data, the next hole begins from an offset on.
    fn find_by(
        &mut self,
        range: Range<u64>,
        data: impl Fn(u64) -> Result<u64, Errno>,
        hole: impl Fn(u64) -> Result<u64, Errno>,
    ) -> Result<Vec<Range<u64>>, Errno> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let part = match self.known_from(at) {
                Some(end) => at..end,
                None => {
                    let next = self.next_known(at);
                    let start = data(at)?.min(next);
                    let end = match start {
                        start if start == next || start >= range.end => start,
                        start => hole(start)?.min(next).min(range.end),
                    };
                    self.add(start..end);
                    start..end
                }
            };
            at = part.end;
            let part = part.start..part.end.min(range.end);
            match parts.last_mut() {
                Some(last) if last.end == part.start && !part.is_empty() => last.end = part.end,
                _ if part.is_empty() => {}
                _ => parts.push(part),
            }
        }
        Ok(parts)
    }

    /// End of the known range that `at` is in.
    fn known_from(&self, at: u64) -> Option<u64> {
        let (_, &end) = self.0.range(..=at).next_back()?;
        (at < end).then_some(end)
    }

    /// Start of the first known range behind `at`.
    fn next_known(&self, at: u64) -> u64 {
        let next = self.0.range(at..).next();
        next.map_or(u64::MAX, |(&start, _)| start)
    }

    /// Enters a range that overlaps with none.
    fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let before = self.0.range(..range.start).next_back();
        let start = match before {
            Some((&start, &end)) if end == range.start => start,
            _ => range.start,
        };
        let end = self.0.remove(&range.end).unwrap_or(range.end);
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: u64 = 40;

    proptest! {
        /// Pages come, and ranges are requested in between: what is found is what is there, each time, and nothing is searched
        /// for twice.
        #[test]
        fn what_is_found_is_what_is_held(
            steps in proptest::collection::vec((0..PAGES, 0..PAGES, 1..12u64), 1..24)
        ) {
            let mut pages = [false; PAGES as usize];
            let mut found_before = Found::default();
            for (page, start, len) in steps {
                pages[page as usize] = true;
                let range = start..(start + len).min(PAGES);
                let next = |at: u64, wanted| (at..PAGES).find(|&at| pages[at as usize] == wanted);
                let data = |at| Ok(next(at, true).unwrap_or(u64::MAX));
                let hole = |at| Ok(next(at, false).unwrap_or(PAGES));
                let found = found_before.find_by(range.clone(), data, hole).unwrap();
                let all: Vec<u64> = found.iter().cloned().flatten().collect();
                let want: Vec<u64> = range.clone().filter(|&at| pages[at as usize]).collect();
                prop_assert_eq!(&all, &want);
                prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
                let nowhere = |_| -> Result<u64, Errno> { Err(Errno::EIO) };
                for part in found {
                    let again = found_before.find_by(part.clone(), nowhere, nowhere);
                    prop_assert_eq!(again, Ok(vec![part]));
                }
            }
        }
    }
}
