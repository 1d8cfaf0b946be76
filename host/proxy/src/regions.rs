//! What the rank has mapped where: the proxy's own copy, made from the region log.
//!
//! It says whether a copy into or out of the rank's memory can fault before it is made, and feeds the crash report. Shipped
//! calls read and write; what may be executed is kept for /proc/self/maps.

use std::collections::BTreeMap;
use std::fmt;

/// A region that something is mapped in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Guest-physical address behind `start`.
    pub gpa: u64,
    /// May the program read it?
    pub read: bool,
    /// May the program write it?
    pub write: bool,
    /// May the program execute it?
    pub exec: bool,
    /// Does it show memory that ranks share?
    pub shared: bool,
    /// Are these pages of a file?
    pub laid: bool,
}

impl Region {
    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Its access as mmap(2) has it.
    pub fn protection(&self) -> u64 {
        let bits = [libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC];
        let set = self.access().into_iter().zip(bits).filter(|(set, _)| *set);
        set.fold(0, |prot, (_, bit)| prot | bit as u64)
    }

    /// Whether it may be read, written, executed.
    pub fn access(&self) -> [bool; 3] {
        [self.read, self.write, self.exec]
    }

    /// Whether it begins where one with the same access ends: a program sees no border between them.
    pub fn adjoins(&self, before: &Region) -> bool {
        before.end == self.start && before.is_like(self)
    }

    fn continues(&self, before: &Region) -> bool {
        self.adjoins(before) && before.gpa + (before.end - before.start) == self.gpa
    }

    /// Whether both have the same access to memory of the same kind.
    fn is_like(&self, other: &Region) -> bool {
        self.access() == other.access() && self.shared == other.shared && self.laid == other.laid
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |set, name| if set { name } else { '-' };
        let (read, write) = (flag(self.read, 'r'), flag(self.write, 'w'));
        let exec = flag(self.exec, 'x');
        let kib = (self.end - self.start) / 1024;
        write!(
            f,
            "{:012x}-{:012x} {read}{write}{exec} {kib} KiB",
            self.start, self.end
        )
    }
}

/// All regions of a rank; they do not overlap.
#[derive(Default, Debug)]
pub struct Regions {
    by_start: BTreeMap<u64, Region>,
    mapped_bytes: u64,
    peak_bytes: u64,
}

impl Regions {
    /// Enters a region in place of whatever was there.
    pub fn map(&mut self, new: Region) {
        self.cut(new.start, new.end);
        self.mapped_bytes += new.end - new.start;
        self.peak_bytes = self.peak_bytes.max(self.mapped_bytes);
        let mut merged = new;
        if let Some(before) = self
            .by_start
            .range(..new.start)
            .next_back()
            .map(|(_, r)| *r)
            && merged.continues(&before)
        {
            self.by_start.remove(&before.start);
            merged = Region {
                end: merged.end,
                ..before
            };
        }
        if let Some(after) = self.by_start.get(&new.end).copied()
            && after.continues(&merged)
        {
            self.by_start.remove(&after.start);
            merged.end = after.end;
        }
        self.by_start.insert(merged.start, merged);
    }

    /// Removes everything in `start..end`, cutting what reaches beyond.
    pub fn unmap(&mut self, start: u64, end: u64) {
        self.cut(start, end);
        // No program runs without memory: what is mapped next is another's.
        if self.mapped_bytes == 0 {
            self.peak_bytes = 0;
        }
    }

    fn cut(&mut self, start: u64, end: u64) {
        while let Some(old) = self.by_start.range(..end).next_back().map(|(_, r)| *r) {
            if old.end <= start {
                break;
            }
            self.by_start.remove(&old.start);
            self.mapped_bytes -= old.end.min(end) - old.start.max(start);
            if old.end > end {
                let gpa = old.gpa + (end - old.start);
                self.by_start.insert(
                    end,
                    Region {
                        start: end,
                        gpa,
                        ..old
                    },
                );
            }
            if old.start < start {
                self.by_start
                    .insert(old.start, Region { end: start, ..old });
                break;
            }
        }
    }

    /// The region that holds an address.
    #[must_use]
    pub fn at(&self, addr: u64) -> Option<&Region> {
        let (_, region) = self.by_start.range(..=addr).next_back()?;
        (addr < region.end).then_some(region)
    }

    /// Whether all of `addr .. addr + len_bytes` can be read, or written. As on any x86, what can be written can be read.
    #[must_use]
    pub fn allow(&self, addr: u64, len_bytes: u64, write: bool) -> bool {
        let Some(end) = addr.checked_add(len_bytes) else {
            return false;
        };
        let mut at = addr;
        while at < end {
            match self.at(at) {
                Some(region) if region.write || (!write && region.read) => {
                    at = region.end;
                }
                _ => return false,
            }
        }
        true
    }

    /// Whether any of `addr .. addr + len_bytes` are pages of a file.
    #[must_use]
    pub fn are_laid(&self, addr: u64, len_bytes: u64) -> bool {
        let end = addr.saturating_add(len_bytes);
        let from_the_end = self.by_start.range(..end).rev();
        let touched = from_the_end.map(|(_, region)| region);
        let mut touched = touched.take_while(|region| region.end > addr);
        len_bytes != 0 && touched.any(|region| region.laid)
    }

    /// Whether all of a region that shows pages of files is there already, with whatever access.
    #[must_use]
    pub fn show_laid(&self, region: &Region) -> bool {
        let mut at = region.start;
        while at < region.end {
            let gpa = region.gpa + (at - region.start);
            match self.at(at) {
                Some(old) if old.laid && old.gpa + (at - old.start) == gpa => at = old.end,
                _ => return false,
            }
        }
        true
    }

    /// End of what lies without a gap from `addr` on and has one access, whatever frames are behind it; `addr` itself where
    /// nothing is mapped.
    #[must_use]
    pub fn alike_until(&self, addr: u64) -> u64 {
        let mut end = addr;
        let first = self.at(addr);
        while let (Some(region), Some(first)) = (self.at(end), first)
            && region.is_like(first)
        {
            end = region.end;
        }
        end
    }

    /// Bytes of all.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    /// The most bytes that were mapped at once by the present program.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The regions in the order of their addresses.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Region> {
        self.by_start.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: usize = 32;

    #[derive(Clone, Debug)]
    enum Op {
        Map(u64, u64, u64, [bool; 5]),
        Unmap(u64, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let range = (0..PAGES as u64 - 1).prop_flat_map(|s| (Just(s), s + 1..PAGES as u64));
        prop_oneof![
            (range.clone(), 0..64u64, any::<[bool; 5]>())
                // Every other one continues its neighbours where these have the same access.
                .prop_map(|((s, e), g, access)| Op::Map(s, e, if g < 32 { s } else { g }, access)),
            range.prop_map(|(s, e)| Op::Unmap(s, e)),
        ]
    }

    proptest! {
        /// Against a model of every page by itself.
        #[test]
        fn regions_are_what_was_mapped_last(ops in proptest::collection::vec(op(), 0..24)) {
            let mut regions = Regions::default();
            let mut model = [None; PAGES];
            let mut peak = 0;
            for op in ops {
                match op {
                    Op::Map(start, end, gpa, access) => {
                        let [read, write, exec, shared, laid] = access;
                        regions.map(Region { start, end, gpa, read, write, exec, shared, laid });
                        for page in start..end {
                            model[page as usize] = Some((gpa + page - start, access));
                        }
                    }
                    Op::Unmap(start, end) => {
                        regions.unmap(start, end);
                        model[start as usize..end as usize].fill(None);
                    }
                }
                let mapped = model.iter().flatten().count() as u64;
                peak = if mapped == 0 { 0 } else { mapped.max(peak) };
                prop_assert_eq!((regions.mapped_bytes(), regions.peak_bytes()), (mapped, peak));
            }
            for (page, want) in model.iter().enumerate() {
                let access = |r: &Region| [r.read, r.write, r.exec, r.shared, r.laid];
                let have = regions.at(page as u64).map(|r| (r.gpa + page as u64 - r.start, access(r)));
                prop_assert_eq!(have, *want);
            }
            for start in 0..PAGES {
                for end in start..PAGES {
                    let all = model[start..end].iter().all(|p| p.is_some_and(|(_, [read, write, ..])| read || write));
                    let len = (end - start) as u64;
                    prop_assert_eq!(regions.allow(start as u64, len, false), all);
                    let laid = |page: &Option<(u64, [bool; 5])>| page.is_some_and(|(_, access)| access[4]);
                    let any = model[start..end].iter().any(laid);
                    prop_assert_eq!(regions.are_laid(start as u64, len), any);
                    let shown = Region { start: start as u64, end: end as u64, gpa: 7, read: true, write: true, exec: false, shared: true, laid: true };
                    let there = (start..end).all(|page| laid(&model[page]) && model[page].is_some_and(|(gpa, _)| gpa == 7 + (page - start) as u64));
                    prop_assert_eq!(regions.show_laid(&shown), there);
                }
            }
            let list: Vec<_> = regions.iter().collect();
            for pair in list.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start && !pair[1].continues(pair[0]));
            }
        }
    }
}
