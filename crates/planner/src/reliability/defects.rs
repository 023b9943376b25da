//! The probability that a drive has a latent defect.

use super::weibull::Weibull;

/// Points of the curve.
const POINTS: usize = 4096;

/// Defects of a drive: they arise without memory, at most one is there at a time, and each waits for a scrub.
pub(super) struct Defects {
    rate: f64,
    curve: Option<Curve>,
}

/// Probability of a defect by time since the drive was known to have none.
struct Curve {
    step: f64,
    by_time: Vec<f64>,
}

impl Defects {
    pub(super) fn new(rate: f64, scrub: Option<Weibull>, hours: f64) -> Self {
        let curve = scrub.filter(|_| rate > 0.0).map(|scrub| Curve::new(rate, &scrub, hours));
        Self { rate, curve }
    }

    /// Probability of a defect this many hours after there was none.
    pub(super) fn after(&self, hours: f64) -> f64 {
        match &self.curve {
            None => -(-self.rate * hours).exp_m1(),
            Some(curve) => curve.at(hours),
        }
    }
}

impl Curve {
    /// A defect is there at t if it arose at some s before, while there was none, and no scrub has come since. So
    /// q(t) = rate * integral of (1 - q(s)) S(t - s), solved step by step by the rule of trapezoids.
    fn new(rate: f64, scrub: &Weibull, hours: f64) -> Self {
        // One in a million waits for longer.
        let longest = scrub.age_at(1e6_f64.ln());
        let step = (2.0 * longest).min(hours).max(1e-6) / (POINTS - 1) as f64;
        let waits: Vec<f64> = (0..POINTS).map(|i| scrub.survival(i as f64 * step)).collect();
        let mut by_time = vec![0.0];
        for j in 1..POINTS {
            let inner: f64 = (1..j).map(|i| (1.0 - by_time[i]) * waits[j - i]).sum();
            // The last term holds q(t) itself.
            by_time.push(rate * step * (0.5 * waits[j] + inner + 0.5) / (1.0 + 0.5 * rate * step));
        }
        Self { step, by_time }
    }

    fn at(&self, hours: f64) -> f64 {
        let at = hours / self.step;
        let (before, part) = (at as usize, at.fract());
        match self.by_time.get(before..before + 2) {
            Some(&[low, high]) => low + (high - low) * part,
            _ => self.by_time[POINTS - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_that_of_a_markov_chain_where_scrubs_have_no_memory() {
        let (rate, mean) = (1e-3, 200.0);
        let defects = Defects::new(rate, Some(Weibull::exponential(mean)), 87_600.0);
        let sum = rate + 1.0 / mean;
        for hours in [1.0, 50.0, 400.0, 3000.0, 80_000.0] {
            let exact = rate / sum * (1.0 - (-sum * hours).exp());
            assert!(
                (defects.after(hours) / exact - 1.0).abs() < 2e-3,
                "{hours}: {} {exact}",
                defects.after(hours)
            );
        }
    }

    #[test]
    fn rare_defects_keep_their_digits() {
        let scrub = "3/168+6".parse::<Weibull>().unwrap();
        let rare = Defects::new(1e-12, Some(scrub), 87_600.0).after(50_000.0);
        assert!((rare / (1e-12 * scrub.mean()) - 1.0).abs() < 2e-3, "{rare}");
        assert!((Defects::new(1e-15, None, 1.0).after(1.0) / 1e-15 - 1.0).abs() < 1e-9);
        assert_eq!(Defects::new(0.0, Some(scrub), 1.0).after(1.0), 0.0);
    }
}
