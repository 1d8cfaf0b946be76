//! Addresses that peers may still see as they were: a core that used a window on this rank keeps translations of it after
//! the rank has unmapped the memory, for no flush is requested (docs/adr/0018).
//!
//! Most of that is harmless: what is behind such a translation is memory of this same rank. One use is not, and waits until
//! those cores have dropped what they hold: showing another frame at such an address, which a peer would not see. (Page tables
//! have memory of their own: a frame that was data never becomes one.)

use abi::addr::VaRange;

/// Ranges that are told apart; more are merged.
const RANGES: usize = 4;

/// A set of addresses: what was put in, and perhaps more. Empty again when the peers' cores have been flushed.
#[derive(Default)]
pub(super) struct Stale {
    /// The first `len` are in use.
    ranges: [VaRange; RANGES],
    len: usize,
}

impl Stale {
    /// Whether an address of `range` is in the set.
    pub fn meets(&self, range: VaRange) -> bool {
        let mut ranges = self.ranges[..self.len].iter();
        // BOUND: RANGES.
        ranges.any(|known| range.overlaps(*known))
    }

    /// Puts `range` in.
    pub fn add(&mut self, range: VaRange) {
        let joins = |known: &VaRange| range.start <= known.end && known.start <= range.end;
        // BOUND: RANGES.
        let found = self.ranges[..self.len].iter().position(joins);
        let at = match found {
            None if self.len < RANGES => {
                self.ranges[self.len] = range;
                self.len += 1;
                return;
            }
            None => self.nearest(range),
            Some(at) => at,
        };
        self.ranges[at] = union(self.ranges[at], range);
    }

    /// Takes everything out.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The range that grows least when it takes in `range`.
    fn nearest(&self, range: VaRange) -> usize {
        let growth = |at: &usize| {
            let known = self.ranges[*at];
            union(known, range).len_bytes() - known.len_bytes()
        };
        // BOUND: RANGES.
        (0..self.len).min_by_key(growth).unwrap_or(0)
    }
}

/// Both, and what lies between them.
fn union(a: VaRange, b: VaRange) -> VaRange {
    a.start.min(b.start).until(a.end.max(b.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::addr::Va;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn nothing_that_was_put_in_is_missing(ranges in proptest::collection::vec((0..1000u64, 1..50u64), 1..20)) {
            let mut stale = Stale::default();
            let mut put: Vec<VaRange> = Vec::new();
            for (start, len) in ranges {
                let range = VaRange::new(Va(start), len);
                stale.add(range);
                put.push(range);
                for range in &put {
                    let mut each = (0..range.len_bytes()).map(|at| VaRange::new(range.start + at, 1));
                    prop_assert!(each.all(|byte| stale.meets(byte)));
                }
                let (low, high) = (put.iter().map(|r| r.start).min(), put.iter().map(|r| r.end).max());
                prop_assert!(!stale.meets(Va(0).until(low.unwrap())) && !stale.meets(high.unwrap().until(Va(2000))));
            }
            stale.clear();
            prop_assert!(!stale.meets(VaRange::new(Va(0), 2000)));
        }
    }

    #[test]
    fn few_ranges_are_told_apart() {
        let mut stale = Stale::default();
        (0..RANGES as u64).for_each(|i| stale.add(VaRange::new(Va(100 * i), 10)));
        assert!((0..RANGES as u64).all(|i| !stale.meets(VaRange::new(Va(100 * i + 10), 90))));
    }
}
