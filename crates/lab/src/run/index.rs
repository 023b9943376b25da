//! One number over the outcomes of several traces.

use super::Outcome;

/// The weighted geometric means of mean latencies (microseconds) and of rates (MiB/s); none unless each trace has both.
pub fn index(outcomes: &[Outcome], weights: &[f64]) -> Option<(f64, f64)> {
    let sum: f64 = weights.iter().sum();
    let mean = |figure: &dyn Fn(&Outcome) -> f64| {
        let logs = outcomes.iter().zip(weights).map(|(outcome, weight)| figure(outcome).ln() * weight);
        let mean = (logs.sum::<f64>() / sum).exp();
        (mean.is_finite() && mean > 0.0).then_some(mean)
    };
    let whole = outcomes.len() == weights.len() && !weights.is_empty();
    let micros = mean(&|outcome| outcome.mixed().total.mean() / 1000.0)?;
    let rate = mean(&|outcome| outcome.mixed().bandwidth() / 1_048_576.0)?;
    whole.then_some((micros, rate))
}
