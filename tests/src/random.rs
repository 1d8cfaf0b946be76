//! Random numbers that a seed repeats: what a test printed is enough to run it again.

/// A generator (xorshift64*, Marsaglia 2003 and Vigna 2016).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Another seed gives other numbers; 0 is as good as any.
    #[must_use]
    pub const fn new(seed: u64) -> Random {
        // Zero would stay zero; an odd constant spreads small seeds.
        Random {
            state: seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// A seed from the environment, or one that was never used before; printed, so that it can be.
    #[must_use]
    pub fn from_environment(variable: &str) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let fresh = now.map_or(0, |since| since.as_nanos() as u64 % 1_000_000_000);
        let seed = crate::tree::number(variable, fresh);
        println!("{variable}={seed}");
        seed
    }

    /// Any number.
    pub const fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below a limit, which is not 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    /// True once in so many times.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these; there is at least one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_repeat_and_differ() {
        let some = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(some(7), some(7));
        assert_ne!(some(0), some(1));
    }

    #[test]
    fn all_values_below_a_limit_come() {
        let mut random = Random::new(1);
        let seen: std::collections::BTreeSet<_> = (0..200).map(|_| random.below(7)).collect();
        assert_eq!(seen.len(), 7);
    }
}
