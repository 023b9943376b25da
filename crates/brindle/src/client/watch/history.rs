//! The last rates of each array and pool, as small bars.

use std::collections::{HashMap, VecDeque};

use brindle_host::status::Report;

/// Looks that are remembered.
const MOST: usize = 200;

/// Bytes read and written a second at the last looks, by process and name.
#[derive(Debug, Default)]
pub(super) struct History(HashMap<(u32, String), VecDeque<[f64; 2]>>);

impl History {
    fn key(report: &Report) -> (u32, String) {
        (report.pid(), report.name().to_owned())
    }

    pub(super) fn add(&mut self, report: &Report, rates: [f64; 2]) {
        let last = self.0.entry(Self::key(report)).or_default();
        if last.len() == MOST {
            last.pop_front();
        }
        last.push_back(rates);
    }

    /// Forgets arrays that are no longer served.
    pub(super) fn keep(&mut self, reports: &[Report]) {
        let keys: Vec<_> = reports.iter().map(Self::key).collect();
        self.0.retain(|key, _| keys.contains(key));
    }

    /// The last looks, at most so many: bytes read (0) or written (1).
    pub(super) fn of(&self, report: &Report, which: usize, most: usize) -> Vec<f64> {
        let Some(all) = self.0.get(&Self::key(report)) else { return Vec::new() };
        all.iter().skip(all.len().saturating_sub(most)).map(|rates| rates[which]).collect()
    }
}

/// A bar for each rate, relative to the most of them; `ascii` where a terminal knows no others.
pub(super) fn bars(rates: &[f64], ascii: bool) -> String {
    let steps: &[char] = if ascii {
        &[' ', '.', ':', '-', '=', '+', '*', '#', '@']
    } else {
        &[' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}']
    };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let bar = |rate: &f64| {
        // A rate above zero is visible.
        let step = if most > 0.0 { (rate / most * 8.0).ceil() as usize } else { 0 };
        steps[step.min(8)]
    };
    rates.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_host::status::PoolStatus;

    #[test]
    fn bars_are_relative_to_the_most_and_nothing_is_none() {
        assert_eq!(bars(&[0.0, 1.0, 400.0, 800.0], false), " \u{2581}\u{2584}\u{2588}");
        assert_eq!(bars(&[0.0, 1.0, 400.0, 800.0], true), " .=@");
        assert_eq!(bars(&[0.0], true), " ");
    }

    #[test]
    fn the_last_looks_are_remembered_of_what_is_still_served() {
        let of = |name: &str| {
            Report::Pool(Box::new(PoolStatus { pid: 1, name: name.into(), ..PoolStatus::default() }))
        };
        let (a, b) = (of("a"), of("b"));
        let mut history = History::default();
        (0..MOST + 5).for_each(|n| history.add(&a, [n as f64, 0.0]));
        history.add(&b, [1.0, 2.0]);
        assert_eq!(history.of(&a, 0, 2), [(MOST + 3) as f64, (MOST + 4) as f64]);
        assert_eq!(history.of(&a, 0, usize::MAX).len(), MOST);
        history.keep(std::slice::from_ref(&b));
        assert!(history.of(&a, 0, 2).is_empty() && history.of(&b, 1, 9) == [2.0]);
    }
}
