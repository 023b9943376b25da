//! Chance from a seed, the same in every release: reports name seeds.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The index of one of several weights, drawn by weight.
    pub(super) fn weighted(&mut self, weights: impl Iterator<Item = u64> + Clone) -> usize {
        let mut at = self.below(weights.clone().sum());
        weights
            .take_while(|weight| {
                let beyond = at >= *weight;
                at = at.saturating_sub(*weight);
                beyond
            })
            .count()
    }
}

/// A number that has nothing to do with its neighbours'.
pub(super) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_met_in_proportion() {
        let mut chance = Chance::new(1);
        let mut met = [0u32; 3];
        (0..10_000).for_each(|_| met[chance.weighted([10, 0, 30].into_iter())] += 1);
        assert_eq!(met[1], 0);
        assert!((2300..2700).contains(&met[0]), "{met:?}");
    }
}
