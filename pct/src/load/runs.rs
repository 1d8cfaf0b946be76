//! Which pages of a program have which access, from its segments.

use abi::image::{MAX_SEGMENTS, Segment};
use abi::map;

use crate::qk::Range;

/// Consecutive pages with one protection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it is.
    pub place: Range,
    /// Bits of PROT_*.
    pub prot: u64,
    /// Its frames are other ranks', too.
    pub shared: bool,
}

/// The pages of all segments. A page that two segments share is a run of its own, with the rights of both.
pub struct Runs {
    runs: [Run; 2 * MAX_SEGMENTS],
    count: usize,
}

impl Runs {
    /// Those of `segments`, which ascend without overlap, as [`abi::image::Image::segments`] has them.
    pub fn of(segments: &[Segment]) -> Runs {
        let mut runs = Runs {
            runs: [Run::default(); 2 * MAX_SEGMENTS],
            count: 0,
        };
        let mut end = 0; // of the pages so far
        for segment in segments {
            if segment.first_page() < end {
                runs.share_last_page(segment.prot);
            }
            let start = segment.first_page().max(end);
            end = end.max(segment.end_page());
            runs.push(start, end - start, segment.prot);
        }
        runs
    }

    fn push(&mut self, base: u64, len_bytes: u64, prot: u64) {
        if len_bytes != 0 {
            self.runs[self.count] = Run {
                place: Range { base, len_bytes },
                prot,
                shared: false,
            };
            self.count += 1;
        }
    }

    /// Adds rights to the last page.
    fn share_last_page(&mut self, prot: u64) {
        let Some(index) = self.count.checked_sub(1) else {
            return;
        };
        let last = &mut self.runs[index];
        if last.place.len_bytes == map::PAGE {
            last.prot |= prot;
            return;
        }
        last.place.len_bytes -= map::PAGE;
        let page = last.place.base + last.place.len_bytes;
        let both = last.prot | prot;
        self.push(page, map::PAGE, both);
    }

    /// All, by address.
    pub fn as_slice(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    /// The same, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [Run] {
        &mut self.runs[..self.count]
    }
}
