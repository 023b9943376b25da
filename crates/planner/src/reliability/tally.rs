//! Sums of the results of histories.

use super::case::Group;

/// The weighted result of one history.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Whether data was lost at all.
    pub(super) any: f64,
    /// Whether the group was lost.
    pub(super) whole: f64,
    /// How often the group was lost.
    pub(super) wholes: f64,
    /// How often data of sectors was lost, and nothing else.
    pub(super) sectors: f64,
    /// Defects that took data with them.
    pub(super) defects: f64,
}

/// Sums of a quantity over histories.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    total: f64,
    squares: f64,
    /// Histories in which the figure was not 0.
    pub(super) met: u64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.total += value;
        self.squares += value * value;
        self.met += u64::from(value > 0.0);
    }

    fn merge(&mut self, other: &Self) {
        self.total += other.total;
        self.squares += other.squares;
        self.met += other.met;
    }

    /// Mean, and its standard error.
    pub(super) fn mean(&self, histories: u64) -> (f64, f64) {
        let count = histories.max(1) as f64;
        let mean = self.total / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (mean, (variance / (count - 1.0).max(1.0)).sqrt())
    }
}

/// Sums of all quantities.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) histories: u64,
    pub(super) any: Sum,
    pub(super) whole: Sum,
    pub(super) wholes: Sum,
    pub(super) sectors: Sum,
    pub(super) losses: Sum,
    pub(super) bytes: Sum,
}

impl Sums {
    pub(super) fn add(&mut self, seen: &Seen, group: &Group) {
        self.histories += 1;
        self.any.add(seen.any);
        self.whole.add(seen.whole);
        self.wholes.add(seen.wholes);
        self.sectors.add(seen.sectors);
        self.losses.add(seen.wholes + seen.sectors);
        self.bytes.add(seen.wholes * group.capacity as f64 + seen.defects * group.bytes_per_defect);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.histories += other.histories;
        self.any.merge(&other.any);
        self.whole.merge(&other.whole);
        self.wholes.merge(&other.wholes);
        self.sectors.merge(&other.sectors);
        self.losses.merge(&other.losses);
        self.bytes.merge(&other.bytes);
    }
}
