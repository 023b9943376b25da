//! Figures with their confidence intervals.

/// A figure, and between which two it lies with the confidence that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// A value that is exactly known.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Whether a figure lies in it.
    #[must_use]
    pub fn holds(&self, figure: f64) -> bool {
        (self.low..=self.high).contains(&figure)
    }

    /// Half its width, relative to the estimate.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        if self.high <= self.low { 0.0 } else { (self.high - self.low) / 2.0 / self.value }
    }

    /// All three by a function that grows.
    pub(super) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        Self { value: of(self.value), low: of(self.low), high: of(self.high) }
    }

    /// The interval of a probability with its standard error: normal in the logarithm of the odds, which stays within
    /// 0 and 1.
    pub(super) fn of_probability(value: f64, error: f64, z: f64) -> Self {
        if error <= 0.0 || value <= 0.0 {
            return Self::exact(value.min(1.0));
        }
        if value + z * error >= 1.0 {
            return Self { value: value.min(1.0), low: (value - z * error).clamp(0.0, 1.0), high: 1.0 };
        }
        let (odds, shift) = (value / (1.0 - value), (z * error / (value * (1.0 - value))).min(700.0));
        let of = |odds: f64| if odds.is_finite() { odds / (1.0 + odds) } else { 1.0 };
        Self { value, low: of(odds * (-shift).exp()), high: of(odds * shift.exp()) }
    }

    /// The interval of a mean above 0 with its standard error: normal in the logarithm.
    pub(super) fn of_mean(value: f64, error: f64, z: f64) -> Self {
        if error <= 0.0 || value <= 0.0 {
            return Self::exact(value);
        }
        let shift = (z * error / value).min(700.0).exp();
        Self { value, low: value / shift, high: value * shift }
    }

    /// The interval of a share, `met` of `count` (Wilson 1927).
    pub(super) fn of_share(met: u64, count: u64, z: f64) -> Self {
        let (n, p) = (count.max(1) as f64, met as f64 / count.max(1) as f64);
        let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        let low = if met == 0 { 0.0 } else { (middle - half).max(0.0) };
        let high = if met == count { 1.0 } else { (middle + half).min(1.0) };
        Self { value: p, low, high }
    }

    /// The interval of a rate, `met` events in `time` (Garwood 1936: exact for Poisson counts).
    #[must_use]
    pub fn of_rate(met: u64, time: f64, confidence: f64) -> Self {
        let tail = (1.0 - confidence) / 2.0;
        let count = met as f64;
        let low = if met == 0 { 0.0 } else { root(count, |mean| at_least(met, mean) < tail) };
        let high = root(count + 1.0, |mean| 1.0 - at_least(met + 1, mean) > tail);
        Self { value: count / time, low: low / time, high: high / time }
    }
}

/// The mean up to which something holds, found by halving.
fn root(near: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, near + 10.0 * near.sqrt() + 50.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// Probability of `count` events or more where `mean` are expected; `count` is not 0.
fn at_least(count: u64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    // Terms of the Poisson distribution from the one beside `count`, towards the smaller side.
    let start = count as f64;
    let log_factorial = log_factorial(count);
    let first = (start * mean.ln() - mean - log_factorial).exp();
    let sum = |mut term: f64, next: &dyn Fn(f64) -> f64, mut k: f64, step: f64| {
        let mut sum = 0.0;
        while term > sum * 1e-17 && k >= 0.0 {
            sum += term;
            term *= next(k);
            k += step;
        }
        sum
    };
    if mean < start {
        sum(first, &|k| mean / (k + 1.0), start, 1.0)
    } else {
        1.0 - sum(first * start / mean, &|k| k / mean, start - 1.0, -1.0)
    }
}

/// Logarithm of a factorial: Stirling's series above 20.
fn log_factorial(count: u64) -> f64 {
    if count <= 20 {
        return (1..=count).map(|i| (i as f64).ln()).sum();
    }
    let n = count as f64;
    n * n.ln() - n + 0.5 * (2.0 * core::f64::consts::PI * n).ln() + 1.0 / (12.0 * n)
        - 1.0 / (360.0 * n.powi(3))
}

/// How many standard errors the middle `confidence` of a normal distribution takes to each side: the tail's integral
/// (Abramowitz and Stegun 26.2.17 has none as short as this: a sum of trapezoids), undone by halving.
#[must_use]
pub(super) fn deviations(confidence: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle) < confidence { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The share of a normal distribution within `z` standard errors: Simpson's rule.
fn within(z: f64) -> f64 {
    const STEPS: u32 = 400;
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * core::f64::consts::PI).sqrt();
    let step = z / f64::from(STEPS);
    let weight = |i: u32| if i == 0 || i == STEPS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    let sum: f64 = (0..=STEPS).map(|i| weight(i) * density(f64::from(i) * step)).sum();
    2.0 * sum * step / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a / b - 1.0).abs() < tolerance, "{a} {b}");
    }

    #[test]
    fn figures_are_those_of_tables() {
        near(deviations(0.95), 1.959_963_985, 1e-8);
        near(deviations(0.99), 2.575_829_304, 1e-8);
        // Garwood's limits of 0, 1, 10 and 4307 events.
        let rate = |met| Interval::of_rate(met, 1.0, 0.95);
        near(rate(0).high, 3.688_879, 1e-6);
        near(rate(1).low, 0.025_317_8, 1e-5);
        near(rate(1).high, 5.571_643, 1e-6);
        near(rate(10).low, 4.795_389, 1e-6);
        near(rate(10).high, 18.390_36, 1e-6);
        near(rate(10_000).high, 10_197.9, 1e-4);
        assert_eq!(rate(0).low, 0.0);
        // Wilson's of 0 and 5 of 10.
        near(Interval::of_share(0, 10, 1.959_964).high, 0.277_533, 1e-5);
        near(Interval::of_share(5, 10, 1.959_964).low, 0.236_593, 1e-5);
    }

    #[test]
    fn intervals_stay_where_figures_can_be() {
        for value in [1e-12, 0.3, 0.999] {
            for error in [0.0, 1e-13, 0.2, 50.0] {
                let of = Interval::of_probability(value, error, 2.0);
                assert!((of.low < of.high) == (error > 0.0), "{of:?}");
                assert!(0.0 <= of.low && of.low <= value && value <= of.high && of.high <= 1.0, "{of:?}");
                let of = Interval::of_mean(value, error, 2.0);
                assert!(0.0 <= of.low && of.low <= value && value <= of.high, "{of:?}");
            }
        }
        assert_eq!(Interval::of_probability(0.0, 0.0, 2.0), Interval::exact(0.0));
    }
}
