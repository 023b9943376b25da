//! Random numbers of which some come more often than others.

use super::random::Chance;

/// Zipf's distribution over 1 to `count`, by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996): no table, any count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    count: f64,
    exponent: f64,
    low: f64,
    high: f64,
    sure: f64,
}

impl Zipf {
    pub(super) fn new(count: u64, exponent: f64) -> Self {
        let count = count as f64;
        let mut zipf = Self { count, exponent, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        (x.powf(power) - 1.0) / power
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.exponent;
        // Rounding may take it beyond what has a root.
        (1.0 + y * power).max(0.0).powf(1.0 / power)
    }

    /// From 0: the most frequent.
    pub(super) fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let y = self.high + chance.unit() * (self.low - self.high);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.sure || y >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// Pareto's: of a power `h`, the share `1 - h` of requests goes to the share `h` of the numbers; fio's meaning of its power.
pub(super) fn pareto(chance: &mut Chance, count: u64, power: f64) -> u64 {
    let exponent = power.ln() / (1.0 - power).ln();
    let at = (count.saturating_sub(1)) as f64 * chance.unit().powf(exponent);
    (at as u64).min(count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_draws_ranks_by_their_weights() {
        for exponent in [0.6, 1.2, 2.5] {
            let (zipf, mut chance) = (Zipf::new(50, exponent), Chance::new(3));
            let mut met = [0u32; 50];
            const DRAWS: u32 = 40_000;
            (0..DRAWS).for_each(|_| met[zipf.draw(&mut chance) as usize] += 1);
            let all: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1u32, 2, 5] {
                let expected = f64::from(DRAWS) * f64::from(rank).powf(-exponent) / all;
                let found = f64::from(met[rank as usize - 1]);
                // Five standard deviations.
                assert!(
                    (found - expected).abs() < 5.0 * expected.sqrt(),
                    "{exponent} {rank}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn zipf_of_one_or_very_many_numbers_stays_within() {
        let mut chance = Chance::new(1);
        assert!((0..100).all(|_| Zipf::new(1, 1.1).draw(&mut chance) == 0));
        let many = Zipf::new(1 << 40, 1.01);
        assert!((0..100).all(|_| many.draw(&mut chance) < 1 << 40));
    }

    #[test]
    fn pareto_gives_few_numbers_most_of_the_requests() {
        let mut chance = Chance::new(5);
        let hits = (0..20_000).filter(|_| pareto(&mut chance, 1000, 0.2) < 200).count();
        assert!((15_600..16_400).contains(&hits), "eight of ten: {hits}");
        assert!((0..100).all(|_| pareto(&mut chance, 1, 0.5) == 0));
    }
}
