//! The clock page: how the TSC becomes CLOCK_MONOTONIC and CLOCK_REALTIME, for the vDSO and the QK.
//!
//! One writer: the host, or the QK itself when the node's clock is its own (`flag::OWN_CLOCK`). lib/vdso reads this layout in C.
//!
//! `ns = mono_ns + (((tsc - tsc_base) * mult) >> shift)`, with a 128-bit product.

use zerocopy::{FromBytes, KnownLayout};

use crate::word::{Word, full_fence};

/// The page; offsets in bytes: seq 0, tsc_base 8, mono_ns 16, real_ns 24, mult 32, shift 40.
#[derive(FromBytes, KnownLayout, Default, Debug)]
#[repr(C)]
pub struct ClockPage {
    /// Seqlock: odd while being written; 0: never written.
    pub seq: Word,
    /// The guest's TSC at the base.
    pub tsc_base: Word,
    /// CLOCK_MONOTONIC at the base, in ns.
    pub mono_ns: Word,
    /// CLOCK_REALTIME at the base, in ns since the epoch.
    pub real_ns: Word,
    /// ns per TSC tick, times 2^shift.
    pub mult: Word,
    /// See `mult`; 0..=63.
    pub shift: Word,
}

/// A consistent copy of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockParams {
    /// See [`ClockPage`].
    pub tsc_base: u64,
    /// See [`ClockPage`].
    pub mono_ns: u64,
    /// See [`ClockPage`].
    pub real_ns: u64,
    /// See [`ClockPage`].
    pub mult: u64,
    /// See [`ClockPage`].
    pub shift: u32,
}

impl ClockParams {
    /// Nanoseconds since the base at a TSC value; 0 for values before the base.
    #[must_use]
    pub const fn since_base_ns(&self, tsc: u64) -> u64 {
        let ticks = tsc.saturating_sub(self.tsc_base);
        ((ticks as u128 * self.mult as u128) >> self.shift) as u64
    }

    /// The first TSC value at which `since_base_ns` reaches `ns` (saturating).
    #[must_use]
    pub const fn tsc_at(&self, ns: u64) -> u64 {
        if self.mult == 0 {
            return u64::MAX;
        }
        let ticks = ((ns as u128) << self.shift).div_ceil(self.mult as u128);
        if ticks > (u64::MAX - self.tsc_base) as u128 {
            u64::MAX
        } else {
            self.tsc_base + ticks as u64
        }
    }
}

impl ClockPage {
    /// Replaces the parameters. Only the page's writer may call this.
    pub fn write(&self, p: &ClockParams) {
        let odd = self.seq.peek().wrapping_add(1) | 1;
        self.seq.store(odd);
        full_fence();
        self.tsc_base.put(p.tsc_base);
        self.mono_ns.put(p.mono_ns);
        self.real_ns.put(p.real_ns);
        self.mult.put(p.mult);
        self.shift.put(u64::from(p.shift));
        // A count that wraps leaves out the 0 of a page never written.
        self.seq.store(odd.wrapping_add(1).max(2));
    }

    /// A consistent copy, or `None` while it is being written or when it never was.
    #[must_use]
    pub fn read(&self) -> Option<ClockParams> {
        let seq = self.seq.load();
        if seq == 0 || seq & 1 != 0 {
            return None;
        }
        let params = self.read_unfinished();
        (self.seq.load() == seq).then_some(params)
    }

    /// A consistent copy, as soon as there is one. A writer that has not ended when `is_over` says so is not waited for: then it is what
    /// the page holds, which may be of two moments.
    pub fn read_until(&self, mut is_over: impl FnMut() -> bool) -> ClockParams {
        loop {
            if let Some(params) = self.read() {
                return params;
            }
            if is_over() {
                return self.read_unfinished();
            }
        }
    }

    /// What it holds now, which may be of two moments.
    fn read_unfinished(&self) -> ClockParams {
        ClockParams {
            tsc_base: self.tsc_base.load(),
            mono_ns: self.mono_ns.load(),
            real_ns: self.real_ns.load(),
            mult: self.mult.load(),
            shift: (self.shift.load() & 63) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_never_written_is_not_read() {
        assert_eq!(ClockPage::default().read(), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let page = ClockPage::default();
        let params = ClockParams {
            tsc_base: 5,
            mono_ns: 7,
            real_ns: 9,
            mult: 1 << 20,
            shift: 21,
        };
        page.write(&params);
        assert_eq!(page.read(), Some(params));
        page.write(&params);
        assert_eq!(page.read(), Some(params));
    }

    /// A writer that never ends kept the kernel waiting for ever.
    #[test]
    fn a_writer_that_never_ends_is_not_waited_for() {
        let page = ClockPage::default();
        page.seq.store(3);
        page.shift.store(u64::MAX);
        assert_eq!(page.read(), None);
        let mut turns = 0;
        let read = page.read_until(|| {
            turns += 1;
            turns == 3
        });
        assert_eq!((read.shift, turns), (63, 3));
    }

    #[test]
    fn a_writer_that_ends_is_waited_for() {
        let page = ClockPage::default();
        page.seq.store(3);
        let params = ClockParams {
            mult: 5,
            ..ClockParams::default()
        };
        let read = page.read_until(|| {
            page.write(&params);
            false
        });
        assert_eq!(read, params);
    }

    #[test]
    fn a_count_that_wraps_is_not_that_of_a_page_never_written() {
        let page = ClockPage::default();
        page.seq.store(u64::MAX - 1);
        page.write(&ClockParams::default());
        assert_eq!(page.read(), Some(ClockParams::default()));
    }

    #[test]
    fn tsc_at_is_the_inverse_of_since_base() {
        let p = ClockParams {
            tsc_base: 1000,
            mult: 7_000_000_001,
            shift: 34,
            ..Default::default()
        };
        for ns in [0, 1, 2, 3, 999, 1_000_000, 3_600_000_000_000] {
            let tsc = p.tsc_at(ns);
            assert!(p.since_base_ns(tsc) >= ns);
            assert!(tsc == p.tsc_base || p.since_base_ns(tsc - 1) < ns);
        }
    }
}
