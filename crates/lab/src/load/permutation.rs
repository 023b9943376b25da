//! An order of all numbers below a count, from a seed, without a table.

use super::random::mix;

/// Four rounds of a Feistel network over the next even number of bits; what falls beyond the count is permuted again until it
/// does not ("cycle walking"; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
#[derive(Clone, Copy, Debug)]
pub(super) struct Permutation {
    count: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    pub(super) fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half: bits.div_ceil(2).max(1), seed }
    }

    /// The number at a place below the count.
    pub(super) fn at(&self, place: u64) -> u64 {
        let mut at = place;
        loop {
            at = self.once(at);
            if at < self.count {
                return at;
            }
        }
    }

    fn once(&self, at: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (at >> self.half, at & mask);
        for round in 0..4u64 {
            let word = mix(right ^ self.seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            (left, right) = (right, left ^ (word & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_once(count in 1u64..3000, seed: u64) {
            let order = Permutation::new(count, seed);
            let mut seen: Vec<u64> = (0..count).map(|place| order.at(place)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..count));
        }

        #[test]
        fn large_counts_stay_below(count in 1u64..=u64::MAX >> 1, place: u64, seed: u64) {
            prop_assert!(Permutation::new(count, seed).at(place % count) < count);
        }
    }

    #[test]
    fn seeds_give_other_orders() {
        let order = |seed| (0..100).map(|at| Permutation::new(100, seed).at(at)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), (0..100).collect::<Vec<_>>());
    }
}
