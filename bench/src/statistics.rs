//! Medians, and how sure one can be of their ratio.
//!
//! Wall time on shared machines has a long tail: hence medians, and intervals by the percentile bootstrap (B. Efron, "Bootstrap
//! Methods: Another Look at the Jackknife", 1979), which assumes nothing about the distribution.

/// Resamplings per interval: the ends of a 95 % interval then rest on 50 samples each.
const RESAMPLINGS: usize = 2000;

/// The median; of an even number of values, the mean of the middle two.
///
/// # Panics
/// Without values.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "median of nothing");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// The 95 % interval of the median.
pub fn median_interval(values: &[f64]) -> [f64; 2] {
    interval(|random| median(&resample(values, random)))
}

/// median(a) / median(b) with its 95 % interval.
pub fn ratio_of_medians(a: &[f64], b: &[f64]) -> (f64, [f64; 2]) {
    let interval = interval(|random| median(&resample(a, random)) / median(&resample(b, random)));
    (median(a) / median(b), interval)
}

fn interval(mut sample: impl FnMut(&mut Random) -> f64) -> [f64; 2] {
    let mut random = Random(1);
    let mut samples: Vec<f64> = (0..RESAMPLINGS).map(|_| sample(&mut random)).collect();
    samples.sort_by(f64::total_cmp);
    [
        samples[RESAMPLINGS / 40],
        samples[RESAMPLINGS - 1 - RESAMPLINGS / 40],
    ]
}

fn resample(values: &[f64], random: &mut Random) -> Vec<f64> {
    values
        .iter()
        .map(|_| values[random.below(values.len())])
        .collect()
}

/// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014): the same intervals each
/// time from the same values.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn one_outlier_does_not_matter() {
        let calm: Vec<f64> = (0..21).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
        let mut stormy = calm.clone();
        stormy[20] = 1000.0;
        assert_eq!(median(&calm), median(&stormy));
        let [low, high] = median_interval(&stormy);
        assert!(low >= 1.0 && high < 1.02, "{low} {high}");
    }

    #[test]
    fn without_spread_there_is_no_doubt() {
        assert_eq!(ratio_of_medians(&[2.0; 5], &[4.0; 7]), (0.5, [0.5, 0.5]));
    }

    proptest! {
        #[test]
        fn the_median_has_half_on_either_side(values in prop::collection::vec(-1e6f64..1e6, 1..50)) {
            let middle = median(&values);
            let below = values.iter().filter(|v| **v < middle).count();
            let above = values.iter().filter(|v| **v > middle).count();
            prop_assert!(below * 2 <= values.len() && above * 2 <= values.len());
        }

        #[test]
        fn intervals_lie_within_what_was_seen(values in prop::collection::vec(0.1f64..10.0, 1..20)) {
            let [low, high] = median_interval(&values);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= low && low <= high && high <= most);
            prop_assert_eq!(median_interval(&values), [low, high]);
        }

        #[test]
        fn random_numbers_are_in_range(seed: u64, bound in 1usize..1000) {
            prop_assert!(Random(seed).below(bound) < bound);
        }
    }
}
