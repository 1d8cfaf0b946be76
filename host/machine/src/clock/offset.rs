//! How far the guest's TSC is from the host's, by who read which of them first.

/// Guest TSC minus host TSC, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset {
    least: Option<i64>,
    most: Option<i64>,
}

impl Offset {
    /// The guest's TSC was `guest_tsc` before the host's was `host_tsc`.
    pub fn guest_first(&mut self, guest_tsc: u64, host_tsc: u64) {
        let least = guest_tsc.wrapping_sub(host_tsc) as i64;
        self.least = Some(self.least.map_or(least, |known| known.max(least)));
    }

    /// The host's TSC was `host_tsc` before the guest's was `guest_tsc`.
    pub fn host_first(&mut self, host_tsc: u64, guest_tsc: u64) {
        let most = guest_tsc.wrapping_sub(host_tsc) as i64;
        self.most = Some(self.most.map_or(most, |known| known.min(most)));
    }

    /// The best guess, if both were read at all; as a wrapping difference.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        let ticks = match (self.least, self.most) {
            (Some(least), Some(most)) => least.midpoint(most),
            (one, other) => one.or(other)?,
        };
        Some(ticks as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn an_offset_is_what_all_rounds_allow() {
        let mut offset = Offset::default();
        assert_eq!(offset.get(), None);
        offset.guest_first(100, 1000);
        assert_eq!(offset.get(), Some(900u64.wrapping_neg()));
        offset.host_first(1000, 140);
        assert_eq!(offset.get(), Some(880u64.wrapping_neg()));
        offset.guest_first(90, 1000); // Adds nothing.
        offset.host_first(2000, 1104);
        assert_eq!(offset.get(), Some(898u64.wrapping_neg()));
    }

    proptest! {
        #[test]
        fn an_offset_is_as_good_as_the_quickest_round(
            offset: u64,
            start in 0..SECOND,
            rounds in prop::collection::vec((0..SECOND, 0..SECOND, 0..SECOND), 1..9),
        ) {
            let (mut found, mut host_tsc, mut quickest) = (Offset::default(), start, u64::MAX);
            for (sent, seen, pause) in rounds {
                let sent_tsc = host_tsc.wrapping_add(offset);
                host_tsc += sent;
                found.guest_first(sent_tsc, host_tsc);
                found.host_first(host_tsc, (host_tsc + seen).wrapping_add(offset));
                host_tsc += seen + pause;
                quickest = quickest.min(sent + seen);
            }
            let error = found.get().expect("rounds").wrapping_sub(offset) as i64;
            prop_assert!(error.unsigned_abs() <= quickest / 2 + 1);
        }
    }
}
