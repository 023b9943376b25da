//! Throughput and latency over time, in steps of one length.

use core::time::Duration;

/// The requests that completed within one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// The sum of the latencies, nanoseconds.
    pub latency: u64,
    /// The part of that time that submission took.
    pub submission: u64,
    /// The longest. Nanoseconds.
    pub worst: u64,
}

/// Steps from a beginning on.
#[derive(Clone, Debug)]
pub struct Series {
    step: Duration,
    bins: Vec<Bin>,
}

/// How samples spread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// How many.
    pub samples: u64,
}

/// Most steps: what comes later is counted in the last one.
const MOST: usize = 1 << 20;

impl Series {
    /// Nothing yet. A step of no time is one of half a second, as fio's samples are.
    pub fn new(step: Duration) -> Self {
        Self { step: if step.is_zero() { Duration::from_millis(500) } else { step }, bins: Vec::new() }
    }

    /// How long a step is.
    pub fn step(&self) -> Duration {
        self.step
    }

    /// The steps; the last one may not have ended.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Counts a request that completed so long after the beginning.
    pub fn record(&mut self, at: Duration, bytes: u64, latency: u64, submission: u64) {
        let place = ((at.as_nanos() / self.step.as_nanos()) as usize).min(MOST - 1);
        if place >= self.bins.len() {
            self.bins.resize(place + 1, Bin::default());
        }
        let bin = &mut self.bins[place];
        bin.ios += 1;
        bin.bytes += bytes;
        bin.latency = bin.latency.saturating_add(latency);
        bin.submission = bin.submission.saturating_add(submission);
        bin.worst = bin.worst.max(latency);
    }

    /// Counts what another counted at the same time; its steps must be as long.
    pub fn merge(&mut self, other: &Self) {
        if other.bins.len() > self.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        for (own, others) in self.bins.iter_mut().zip(&other.bins) {
            own.ios += others.ios;
            own.bytes += others.bytes;
            own.latency = own.latency.saturating_add(others.latency);
            own.submission = own.submission.saturating_add(others.submission);
            own.worst = own.worst.max(others.worst);
        }
    }

    /// How a count spreads over the steps that ended before `elapsed`, by the second.
    pub fn spread(&self, elapsed: Duration, count: fn(&Bin) -> u64) -> Spread {
        let whole = (elapsed.as_nanos() / self.step.as_nanos()) as usize;
        let seconds = self.step.as_secs_f64();
        let rates: Vec<f64> = self.bins.iter().take(whole).map(|bin| count(bin) as f64 / seconds).collect();
        Spread::of(&rates)
    }
}

impl Spread {
    /// The summary of these samples.
    pub fn of(samples: &[f64]) -> Self {
        let Some((&first, rest)) = samples.split_first() else { return Self::default() };
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = if samples.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
        let (min, max) = rest.iter().fold((first, first), |(min, max), s| (min.min(*s), max.max(*s)));
        Self { min, max, mean, deviation, samples: samples.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn requests_are_counted_in_their_steps() {
        let mut series = Series::new(ms(100));
        series.record(ms(10), 4096, 7, 1);
        series.record(ms(99), 4096, 9, 1);
        series.record(ms(310), 512, 1, 1);
        let ios: Vec<u64> = series.bins().iter().map(|bin| bin.ios).collect();
        assert_eq!(ios, [2, 0, 0, 1]);
        assert_eq!((series.bins()[0].bytes, series.bins()[0].latency, series.bins()[0].worst), (8192, 16, 9));
        let spread = series.spread(ms(350), |bin| bin.ios);
        assert_eq!(
            (spread.samples, spread.max, spread.min),
            (3, 20.0, 0.0),
            "whole steps only, by the second"
        );
        let mut twice = series.clone();
        twice.merge(&series);
        assert_eq!(twice.bins()[3].bytes, 1024);
    }

    #[test]
    fn samples_spread() {
        let spread = Spread::of(&[1.0, 2.0, 3.0]);
        assert_eq!((spread.min, spread.max, spread.mean, spread.deviation), (1.0, 3.0, 2.0, 1.0));
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[5.0]).deviation, 0.0);
    }
}
