//! Chance from a seed, the same in every release: reports name seeds.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a counter, mixed.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    /// The random draws of a batch of histories: the same on any thread, at any time.
    pub(super) fn of_batch(seed: u64, stratum: u64, batch: u64) -> Self {
        Self(mix(mix(mix(seed ^ 0x7265_6c69_6162_6c65) ^ stratum) ^ batch))
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// From 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential, of mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(-self.unit()).ln_1p()
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.number()) * bound as u128) >> 64) as usize
    }
}

/// A number that has nothing to do with its neighbours'.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
