//! The tests' only source of chance.

/// Random numbers from a seed: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Random {
    /// Each seed gives a sequence of its own.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A sequence of its own for one of several users of a seed.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.next();
        random
    }

    /// Any number.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator without end would only invite collecting it"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Fills all of `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

/// Bytes that differ from seed to seed and from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    Random::stream(seed, 1).bytes(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_own_numbers_again_and_all_of_a_range() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..200).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert!((0..10).all(|n| numbers(3).contains(&n)));
        assert_ne!(Random::stream(1, 1).next(), Random::stream(1, 2).next());
        assert_ne!(pattern(1, 64), pattern(2, 64));
    }
}
