//! Addresses that peers may still see as they were: a core that used a window on this rank keeps translations of it after
//! the rank has unmapped the memory, for no flush is requested (docs/adr/0018).
//!
//! Most of that is harmless: what is behind such a translation is memory of this same rank. One use is not, and waits until
//! those cores have dropped what they hold: showing another frame at such an address, which a peer would not see. (Page tables
//! have memory of their own: a frame that was data never becomes one.)

/// Ranges that are told apart; more are merged.
const RANGES: usize = 4;

/// A set of addresses: what was put in, and perhaps more. Empty again when the peers' cores have been flushed.
#[derive(Default)]
pub(super) struct Stale {
    /// The first `len` are in use: start and end.
    ranges: [(u64, u64); RANGES],
    len: usize,
}

impl Stale {
    /// Whether an address of `start .. end` is in the set.
    pub fn meets(&self, start: u64, end: u64) -> bool {
        let mut ranges = self.ranges[..self.len].iter();
        // BOUND: RANGES.
        ranges.any(|&(from, to)| start < to && from < end)
    }

    /// Puts `start .. end` in.
    pub fn add(&mut self, start: u64, end: u64) {
        let joins = |&(from, to): &(u64, u64)| start <= to && from <= end;
        // BOUND: RANGES.
        let found = self.ranges[..self.len].iter().position(joins);
        let at = match found {
            None if self.len < RANGES => {
                self.ranges[self.len] = (start, end);
                self.len += 1;
                return;
            }
            None => self.nearest(start, end),
            Some(at) => at,
        };
        let (from, to) = &mut self.ranges[at];
        *from = start.min(*from);
        *to = end.max(*to);
    }

    /// Takes everything out.
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The range that grows least when it takes in `start .. end`.
    fn nearest(&self, start: u64, end: u64) -> usize {
        let growth = |at: &usize| {
            let (from, to) = self.ranges[*at];
            (to.max(end) - from.min(start)) - (to - from)
        };
        // BOUND: RANGES.
        (0..self.len).min_by_key(growth).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn nothing_that_was_put_in_is_missing(ranges in proptest::collection::vec((0..1000u64, 1..50u64), 1..20)) {
            let mut stale = Stale::default();
            let mut put: Vec<(u64, u64)> = Vec::new();
            for (start, len) in ranges {
                stale.add(start, start + len);
                put.push((start, start + len));
                for &(from, to) in &put {
                    prop_assert!((from..to).all(|at| stale.meets(at, at + 1)));
                }
                let (low, high) = (put.iter().map(|r| r.0).min(), put.iter().map(|r| r.1).max());
                prop_assert!(!stale.meets(0, low.unwrap()) && !stale.meets(high.unwrap(), 2000));
            }
            stale.clear();
            prop_assert!(!stale.meets(0, 2000));
        }
    }

    #[test]
    fn few_ranges_are_told_apart() {
        let mut stale = Stale::default();
        (0..RANGES as u64).for_each(|i| stale.add(100 * i, 100 * i + 10));
        assert!((0..RANGES as u64).all(|i| !stale.meets(100 * i + 10, 100 * i + 100)));
    }
}
