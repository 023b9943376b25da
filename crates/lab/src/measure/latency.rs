//! Latencies: exact extremes and moments, and a histogram of three digits (HDR, Tene) for everything between. They merge.

use hdrhistogram::Histogram;

/// Digits of a latency that its histogram keeps.
const DIGITS: u8 = 3;

/// Latencies of many requests. Nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// `None` before the first sample: most directions of most jobs have no samples.
    histogram: Option<Box<Histogram<u64>>>,
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    spread: f64,
}

impl Latency {
    /// Counts one.
    pub fn record(&mut self, nanos: u64) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new(DIGITS).ok().map(Box::new);
        }
        if let Some(histogram) = &mut self.histogram {
            // The histogram grows as needed, so that recording can't fail.
            let _ = histogram.record(nanos);
        }
        self.min = if self.count == 0 { nanos } else { self.min.min(nanos) };
        self.max = self.max.max(nanos);
        self.count += 1;
        // Welford's way, which loses no digits.
        let from = nanos as f64 - self.mean;
        self.mean += from / self.count as f64;
        self.spread += from * (nanos as f64 - self.mean);
    }

    /// Counts all of another's.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        if let (Some(own), Some(others)) = (&mut self.histogram, &other.histogram) {
            // A histogram that grows takes whatever another of as many digits holds.
            let _ = own.add(others.as_ref());
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let between = other.mean - self.mean;
        self.spread += other.spread + between * between * own * others / (own + others);
        self.mean += between * others / (own + others);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest latency; 0 without samples.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The most.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation of the sample.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.spread / (self.count - 1) as f64).sqrt() }
    }

    /// The latency that this per cent of requests did not exceed, to three digits.
    pub fn percentile(&self, percent: f64) -> u64 {
        let value = self.histogram.as_ref().map_or(0, |histogram| histogram.value_at_percentile(percent));
        value.clamp(self.min, self.max)
    }

    /// The middles of the stretches in which latencies fell, and how many did.
    pub fn bins(&self) -> Vec<(u64, u64)> {
        let of = |histogram: &Histogram<u64>| {
            let each = histogram.iter_recorded();
            each.map(|bin| (histogram.median_equivalent(bin.value_iterated_to()), bin.count_at_value()))
                .collect()
        };
        self.histogram.as_ref().map_or_else(Vec::new, |histogram| of(histogram))
    }

    /// How many took at least `from` and less than `to`, to three digits.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        let within = |(value, _): &&(u64, u64)| (from..to).contains(value);
        self.bins().iter().filter(within).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Latency {
        let mut latency = Latency::default();
        values.iter().for_each(|value| latency.record(*value));
        latency
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(a in prop::collection::vec(0u64..1 << 40, 0..60), b in prop::collection::vec(0u64..1 << 40, 0..60)) {
            let whole = of(&[a.clone(), b.clone()].concat());
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!((merged.count(), merged.min(), merged.max()), (whole.count(), whole.min(), whole.max()));
            prop_assert!(near(merged.mean(), whole.mean()) && near(merged.deviation(), whole.deviation()));
            prop_assert_eq!(merged.bins(), whole.bins());
            prop_assert_eq!(merged.percentile(90.0), whole.percentile(90.0));
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_list(mut values in prop::collection::vec(1u64..1 << 40, 1..200), percent in 1.0f64..100.0) {
            let found = of(&values).percentile(percent) as f64;
            values.sort_unstable();
            let at = (percent / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[at.clamp(1, values.len()) - 1] as f64;
            prop_assert!((found - exact).abs() <= exact * 0.002 + 1.0, "{found} {exact}");
        }
    }

    #[test]
    fn moments_are_exact() {
        let latency = of(&[2, 4, 4, 4, 5, 5, 7, 9]);
        assert!(near(latency.mean(), 5.0) && near(latency.deviation(), (32.0f64 / 7.0).sqrt()));
        assert_eq!((latency.min(), latency.max(), latency.between(4, 6)), (2, 9, 5));
        assert_eq!(Latency::default().percentile(99.0), 0);
    }
}
