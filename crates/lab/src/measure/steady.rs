//! Steady state as SNIA's Solid State Storage Performance Test Specification 2.0.2 defines it, over the last five
//! rounds. No value is further from another than a fifth of their mean. The line through them (least squares) rises
//! or falls by no more than a tenth of it.

/// The value measured in one round.
pub type Round = f64;

/// Rounds that are looked at.
const WINDOW: usize = 5;
/// A share of the mean.
const EXCURSION: f64 = 0.20;
const SLOPE: f64 = 0.10;

/// How far the last five rounds are from steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steadiness {
    /// Their mean.
    pub mean: f64,
    /// From the least to the most, as a share of the mean.
    pub excursion: f64,
    /// From the line's beginning to its end, as a share of the mean.
    pub slope: f64,
}

impl Steadiness {
    /// Steady by the definition.
    pub fn is_reached(&self) -> bool {
        // Shares of round numbers are not exact.
        self.excursion <= EXCURSION + 1e-9 && self.slope <= SLOPE + 1e-9
    }
}

/// The steady state of the last five rounds; `None` where there are fewer, or where nothing was done.
pub fn steadiness(rounds: &[Round]) -> Option<Steadiness> {
    let last = &rounds[rounds.len().checked_sub(WINDOW)?..];
    let mean = last.iter().sum::<f64>() / WINDOW as f64;
    if mean <= 0.0 {
        return None;
    }
    let (min, max) = last.iter().fold((f64::MAX, f64::MIN), |(min, max), y| (min.min(*y), max.max(*y)));
    let middle = (WINDOW - 1) as f64 / 2.0;
    let from_middle = |x: usize| x as f64 - middle;
    let rise: f64 = last.iter().enumerate().map(|(x, y)| from_middle(x) * (y - mean)).sum();
    let squares: f64 = (0..WINDOW).map(|x| from_middle(x).powi(2)).sum();
    let slope = (rise / squares * (WINDOW - 1) as f64).abs();
    Some(Steadiness { mean, excursion: (max - min) / mean, slope: slope / mean })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(rounds: &[f64]) -> bool {
        steadiness(rounds).is_some_and(|steadiness| steadiness.is_reached())
    }

    #[test]
    fn both_limits_count() {
        assert!(reached(&[100.0; 5]));
        assert!(!reached(&[100.0; 4]), "five rounds");
        assert!(!reached(&[0.0; 5]));
        assert!(reached(&[100.0, 110.0, 90.0, 110.0, 90.0]), "a fifth from least to most, and nearly level");
        assert!(!reached(&[100.0, 112.0, 90.0, 112.0, 90.0]), "more than a fifth");
        assert!(reached(&[95.0, 97.5, 100.0, 102.5, 105.0]), "a tenth from end to end");
        assert!(!reached(&[94.0, 97.0, 100.0, 103.0, 106.0]), "more than a tenth");
        assert!(!reached(&[106.0, 103.0, 100.0, 97.0, 94.0]), "downwards, too");
        assert!(reached(&[500.0, 1.0, 100.0, 100.0, 100.0, 100.0, 100.0]), "the last five");
    }
}
