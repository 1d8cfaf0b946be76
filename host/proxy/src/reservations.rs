//! Where the rank has mapped memory without access, as the region log says: for /proc/self/maps alone.

use std::collections::BTreeMap;

/// Addresses that are mapped without access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Mapped with MAP_SHARED.
    pub shared: bool,
}

/// All of a rank; they do not overlap.
#[derive(Default, Debug)]
pub struct Reservations {
    by_start: BTreeMap<u64, Reservation>,
    bytes: u64,
}

impl Reservations {
    /// Enters one, where none is.
    pub fn add(&mut self, new: Reservation) {
        self.bytes += new.end - new.start;
        let mut merged = new;
        let before = self.by_start.range(..new.start).next_back();
        if let Some((_, before)) = before
            && before.end == new.start
            && before.shared == new.shared
        {
            merged.start = before.start;
        }
        if let Some(after) = self.by_start.get(&new.end)
            && after.shared == new.shared
        {
            merged.end = after.end;
            self.by_start.remove(&new.end);
        }
        self.by_start.insert(merged.start, merged);
    }

    /// Removes what is in `start..end`, cutting what reaches beyond.
    pub fn remove(&mut self, start: u64, end: u64) {
        while let Some((_, &old)) = self.by_start.range(..end).next_back()
            && old.end > start
        {
            self.by_start.remove(&old.start);
            self.bytes -= old.end.min(end) - old.start.max(start);
            if old.end > end {
                self.by_start.insert(end, Reservation { start: end, ..old });
            }
            if old.start < start {
                self.by_start
                    .insert(old.start, Reservation { end: start, ..old });
            }
        }
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// In the order of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.by_start.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGES: usize = 32;

    proptest! {
        /// Against a model of every page by itself.
        #[test]
        fn reservations_are_what_was_entered_last(
            ops in proptest::collection::vec((0..PAGES - 1, 1..PAGES, any::<Option<bool>>()), 0..24),
        ) {
            let mut all = Reservations::default();
            let mut model = [None; PAGES];
            for (start, len, entered) in ops {
                let end = (start + len).min(PAGES);
                all.remove(start as u64, end as u64);
                if let Some(shared) = entered {
                    all.add(Reservation { start: start as u64, end: end as u64, shared });
                }
                model[start..end].fill(entered);
            }
            let mut found = [None; PAGES];
            let mut last: Option<Reservation> = None;
            for one in all.iter() {
                found[one.start as usize..one.end as usize].fill(Some(one.shared));
                // Those that are alike are one.
                prop_assert!(last.is_none_or(|last| last.end < one.start || last.shared != one.shared));
                last = Some(*one);
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(all.bytes(), model.iter().flatten().count() as u64);
        }
    }
}
