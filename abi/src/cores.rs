//! Which cores of the node a rank gets: one rule, which the PCT applies, the QK expects and yod shows.
//!
//! With as many cores as ranks or more, each rank has consecutive cores of its own; what is left over goes to the first
//! ranks, one each: a core more does no harm. With fewer cores, ranks share them evenly, neighbours the same one.

use core::fmt;

use crate::control::CoreWords;

/// Most cores of a node: what is kept for each core has places for so many. A multiple of 64. Machines may give fewer.
pub const MAX_CPUS: usize = 256;

/// Consecutive cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores {
    /// The lowest.
    pub first: u64,
    /// How many, at least one.
    pub count: u64,
}

impl Cores {
    /// The cores of rank `rank` of `ranks` on a node of `cpus` cores; `None` without ranks or cores.
    #[must_use]
    pub const fn of(rank: u64, ranks: u64, cpus: u64) -> Option<Cores> {
        if ranks == 0 || cpus == 0 {
            return None;
        }
        if cpus < ranks {
            let first = rank.saturating_mul(cpus) / ranks;
            return Some(Cores { first, count: 1 });
        }
        let (each, left_over) = (cpus / ranks, cpus % ranks);
        let gets_more = rank < left_over;
        let more_before = if gets_more { rank } else { left_over };
        Some(Cores {
            first: rank.saturating_mul(each).saturating_add(more_before),
            count: each + gets_more as u64,
        })
    }

    /// The set as it crosses [`crate::control::Control::RankStart`]; cores beyond its end are left out.
    #[must_use]
    pub fn words(&self) -> CoreWords {
        let mut words = CoreWords::default();
        for (start, word) in (0..).step_by(64).zip(&mut words) {
            let below = |end: u64| (1u128 << end.saturating_sub(start).min(64)) - 1;
            *word = (below(self.first.saturating_add(self.count)) & !below(self.first)) as u64;
        }
        words
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Cores { first, count: 1 } => write!(f, "core {first}"),
            Cores { first, count } => write!(f, "cores {first}-{}", first + count - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;
    use crate::map::MAX_RANKS;

    fn all(ranks: u64, cpus: u64) -> Vec<Cores> {
        let of = |rank| Cores::of(rank, ranks, cpus).expect("ranks and cores");
        (0..ranks).map(of).collect()
    }

    #[test]
    fn cores_are_divided_evenly_and_what_is_left_over_goes_to_the_first() {
        let text =
            |ranks, cpus| -> Vec<_> { all(ranks, cpus).iter().map(Cores::to_string).collect() };
        assert_eq!(text(2, 4), ["cores 0-1", "cores 2-3"]);
        assert_eq!(text(3, 11), ["cores 0-3", "cores 4-7", "cores 8-10"]);
        assert_eq!(text(3, 4), ["cores 0-1", "core 2", "core 3"]);
        assert_eq!(text(4, 2), ["core 0", "core 0", "core 1", "core 1"]);
        assert_eq!(Cores::of(0, 0, 2), None);
        assert_eq!(Cores::of(0, 2, 0), None);
    }

    /// Cores of their own where there are enough, else one each, and as many ranks on every core, but for one.
    #[test]
    fn every_core_has_its_part_of_the_ranks() {
        for (ranks, cpus) in (1..=MAX_RANKS as u64)
            .flat_map(|ranks| (1..=MAX_CPUS as u64).map(move |cpus| (ranks, cpus)))
        {
            let mut tenants = std::vec![0; cpus as usize];
            let mut before = Cores { first: 0, count: 0 };
            for cores in all(ranks, cpus) {
                let shared = cores.first == before.first;
                assert!(shared || cores.first == before.first + before.count);
                let many = [(cpus / ranks).max(1), cpus.div_ceil(ranks)];
                assert!(many.contains(&cores.count), "{cores} of {ranks} on {cpus}");
                let words = cores.words();
                for core in cores.first..cores.first + cores.count {
                    tenants[core as usize] += 1;
                    assert_ne!(words[core as usize / 64] & 1 << (core % 64), 0);
                }
                assert_eq!(
                    u64::from(words.map(u64::count_ones).iter().sum::<u32>()),
                    cores.count
                );
                before = cores;
            }
            let many = [(ranks / cpus).max(1), ranks.div_ceil(cpus)];
            assert!(tenants.iter().all(|tenants| many.contains(tenants)));
        }
    }

    #[test]
    fn a_set_of_cores_crosses_words() {
        let words = |first, count| Cores { first, count }.words();
        assert_eq!(words(3, 2), [0b11000, 0, 0, 0]);
        assert_eq!(words(62, 4), [3 << 62, 3, 0, 0]);
        assert_eq!(words(0, MAX_CPUS as u64), [u64::MAX; _]);
        assert_eq!(words(255, 1), [0, 0, 0, 1 << 63]);
        assert_eq!(words(255, u64::MAX), [0, 0, 0, 1 << 63]);
    }
}
