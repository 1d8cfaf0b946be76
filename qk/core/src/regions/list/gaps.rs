//! The gaps between regions: each chunk knows its largest, so that a hole is found without a look at every region.

use super::{CHUNK, Chunk, LOOK, List, MOVE, Place, SKIP, STEP};
use abi::addr::{Va, VaRange};

impl List {
    /// The highest hole of at least `len_bytes` in `area` for which `fit(hole)` has an answer.
    pub fn hole(
        &self,
        len_bytes: u64,
        area: VaRange,
        fit: impl Fn(VaRange) -> Option<Va>,
    ) -> Option<Va> {
        let chunks = &self.chunks;
        (self.point)(LOOK + SKIP * chunks.len() as u32);
        let end = chunks.last().map_or(Va(0), Chunk::end);
        let topmost = fit(area.start.max(end).until(area.end));
        if topmost.is_some() {
            return topmost;
        }
        // Every other hole lies directly below a region.
        let mut until = chunks.len();
        loop {
            // BOUND: the chunks, all of which have counted at the point.
            until = chunks[..until]
                .iter()
                .rposition(|c| c.gap_bytes >= len_bytes)?;
            (self.point)(STEP * CHUNK as u32);
            // BOUND: CHUNK.
            let found = self
                .holes_of(until)
                .filter(|hole| hole.len_bytes() >= len_bytes)
                .find_map(|hole| fit(area.start.max(hole.start).until(area.end.min(hole.end))));
            if found.is_some() {
                return found;
            }
        }
    }

    /// What lies directly below the regions of a chunk, mapped or not, the highest first.
    fn holes_of(&self, chunk: usize) -> impl Iterator<Item = VaRange> + '_ {
        let slots = &self.chunks[chunk].slots;
        let below = chunk.checked_sub(1).map_or(Va(0), |c| self.chunks[c].end());
        let lowest = slots.first().map(|first| below.until(first.start));
        slots
            .windows(2)
            .rev()
            .map(|pair| pair[0].end.until(pair[1].start))
            .chain(lowest)
    }

    /// Bytes of the hole directly below the region at `at`; 0 at the end of the list.
    pub(super) fn gap_below(&self, at: Place) -> u64 {
        let end = self
            .before(at)
            .and_then(|b| self.get(b))
            .map_or(Va(0), |r| r.end);
        self.get(at).map_or(0, |r| r.start - end)
    }

    /// The hole below `at` may be larger than before.
    pub(super) fn gap_grew(&mut self, at: Place) {
        let gap_bytes = self.gap_below(at);
        if let Some(chunk) = self.chunks.get_mut(at.chunk) {
            chunk.gap_bytes = chunk.gap_bytes.max(gap_bytes);
        }
    }

    /// The hole below `at` is smaller than `was_bytes`, what it was.
    pub(super) fn gap_shrank(&mut self, at: Place, was_bytes: u64) {
        if self
            .chunks
            .get(at.chunk)
            .is_some_and(|c| c.gap_bytes <= was_bytes)
        {
            self.measure(at.chunk);
        }
    }

    pub(super) fn measure(&mut self, chunk: usize) {
        (self.point)(MOVE * CHUNK as u32);
        let below = chunk.checked_sub(1).and_then(|b| self.chunks.get(b));
        let mut end = below.map_or(Va(0), Chunk::end);
        let Some(chunk) = self.chunks.get_mut(chunk) else {
            return;
        };
        chunk.gap_bytes = 0;
        // BOUND: CHUNK.
        for region in &chunk.slots {
            chunk.gap_bytes = chunk.gap_bytes.max(region.start - end);
            end = region.end;
        }
    }
}
