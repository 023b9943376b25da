//! The chain of failed drives that a mean time to data loss comes from: exponential failures and rebuilds, nothing else.
//!
//! That mean is what calculators print. It knows neither defects nor age, and says nothing of the years that an array is
//! used: Greenan, Plank and Wylie, "Mean time to meaningless" (HotStorage 2010). Here it stands beside the estimate as the
//! comparison that it is, and the chain's exact solution is what estimates are held against.

/// A group of drives that fail and are rebuilt at constant rates, each by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chain {
    /// How many drives.
    pub drives: u32,
    /// How many failures are borne.
    pub bears: u32,
    /// Failures of a drive in an hour.
    pub failures: f64,
    /// Rebuilds in an hour of each drive that is out.
    pub repairs: f64,
}

impl Chain {
    fn up(&self, failed: u32) -> f64 {
        f64::from(self.drives - failed) * self.failures
    }

    fn down(&self, failed: u32) -> f64 {
        f64::from(failed) * self.repairs
    }

    /// Mean hours from new to loss.
    #[must_use]
    pub fn mttdl(&self) -> f64 {
        // From `failed` to one more: what came before is passed through again after each rebuild.
        let step = |before: f64, failed: u32| (1.0 + self.down(failed) * before) / self.up(failed);
        let mut steps = (0..=self.bears).scan(0.0, |before, failed| {
            *before = step(*before, failed);
            Some(*before)
        });
        steps.by_ref().sum()
    }

    /// Probability of a loss by then, in hours: exact, by uniformisation (Jensen 1953). Every term is positive, so that
    /// 1e-12 is as exact as a half.
    #[must_use]
    pub fn lost_by(&self, hours: f64) -> f64 {
        let states = self.bears as usize + 1;
        let pace = (0..=self.bears).map(|failed| self.up(failed) + self.down(failed)).fold(0.0, f64::max);
        let mean = pace * hours;
        let last = (mean + 12.0 * mean.sqrt() + 60.0) as usize;
        let mut at = vec![0.0; states + 1];
        at[0] = 1.0;
        let mut lost = vec![0.0];
        for _ in 0..last {
            at = self.jump(&at, pace);
            lost.push(at[states]);
        }
        // Poisson probabilities relative to that of the likeliest number of jumps, and then to their sum (Fox and Glynn 1988).
        let top = mean as usize;
        let (mut sum, mut met) = (0.0, 0.0);
        let mut add = |jumps: usize, term: f64| {
            sum += term;
            met += term * lost[jumps];
        };
        let mut term = 1.0;
        for jumps in top..=last {
            add(jumps, term);
            term *= mean / (jumps + 1) as f64;
        }
        term = 1.0;
        for jumps in (1..=top).rev() {
            term *= jumps as f64 / mean;
            add(jumps - 1, term);
        }
        met / sum
    }

    fn jump(&self, at: &[f64], pace: f64) -> Vec<f64> {
        let mut next = at.to_vec();
        for failed in 0..=self.bears {
            let here = failed as usize;
            let (up, down) = (at[here] * self.up(failed) / pace, at[here] * self.down(failed) / pace);
            next[here + 1] += up;
            if failed > 0 {
                next[here - 1] += down;
            }
            next[here] += -up - down;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_the_figures_of_formulas() {
        let (a, b) = (1e-5, 1e-1);
        let mirror = Chain { drives: 2, bears: 1, failures: a, repairs: b };
        let formula = (3.0 * a + b) / (2.0 * a * a);
        assert!((mirror.mttdl() / formula - 1.0).abs() < 1e-12);
        let six = Chain { drives: 6, bears: 2, failures: a, repairs: b };
        assert!((six.mttdl() * 6.0 * 5.0 * 4.0 * a.powi(3) / (2.0 * b * b) - 1.0).abs() < 1e-2);
        // A loss comes at a constant rate where it is rare.
        assert!((mirror.lost_by(1e5) / (1e5 / formula) - 1.0).abs() < 1e-2);
        let stripe = Chain { drives: 4, bears: 0, ..mirror };
        assert!((stripe.lost_by(8760.0) / -(-4.0 * a * 8760.0).exp_m1() - 1.0).abs() < 1e-12);
        // Nothing is rebuilt: all of three by then.
        let none = Chain { drives: 3, bears: 2, failures: a, repairs: 0.0 };
        assert!((none.lost_by(8760.0) / (-(-a * 8760.0).exp_m1()).powi(3) - 1.0).abs() < 1e-9);
    }
}
