//! The drives of one group at a moment.

use super::case::{Case, all};
use super::defects::Defects;
use super::random::Chance;

/// A drive, and its future events. Times are hours since the array was new.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drive {
    /// The drive's hazard relative to the published one.
    pub(super) factor: f64,
    /// When the drive was new.
    pub(super) born: f64,
    /// When it was known to have no defect, whatever came of it since.
    clean: f64,
    /// The probability given that no data was lost so far.
    known: f64,
    /// When the drive fails, where that has been drawn.
    pub(super) fails_at: f64,
    /// Hazard until it fails, where hazards are changed on the way.
    pub(super) left: f64,
    /// When another drive may be pulled by mistake in its place.
    pub(super) pull_at: f64,
    /// When the drive is rebuilt.
    pub(super) back_at: f64,
    /// Whether it is another drive then.
    replaced: bool,
}

/// Defects on the drives that have just lost their redundancy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Probability that one of them has a defect, given that no data was lost so far.
    pub(super) first: f64,
    /// The probability whatever was lost so far.
    pub(super) any: f64,
    /// Expected defects.
    pub(super) defects: f64,
}

/// A group.
#[derive(Clone, Debug)]
pub(super) struct GroupState<'a> {
    pub(super) case: &'a Case,
    pub(super) now: f64,
    pub(super) drives: Vec<Drive>,
    pub(super) failed: u128,
}

impl<'a> GroupState<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        let drives = vec![Drive::default(); case.group.drives as usize];
        Self { case, now: 0.0, drives, failed: 0 }
    }

    /// All drives are new.
    pub(super) fn reset(&mut self, factor: f64) {
        (self.now, self.failed) = (0.0, 0);
        self.drives.fill(Drive { factor, ..Drive::default() });
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        (self.now, self.failed) = (other.now, other.failed);
        self.drives.copy_from_slice(&other.drives);
    }

    /// The drives that work.
    pub(super) fn up(&self) -> u128 {
        all(self.case.group.drives) & !self.failed
    }

    pub(super) fn lost(&self) -> bool {
        self.case.group.redundancy.lost(self.failed)
    }

    pub(super) fn bare(&self) -> u128 {
        self.case.group.redundancy.bare(self.failed, self.case.group.drives)
    }

    /// Integrated hazard of a drive at a time.
    pub(super) fn hazard(&self, drive: usize, at: f64) -> f64 {
        let Drive { factor, born, .. } = self.drives[drive];
        factor * self.case.failures.hazard(at - born)
    }

    /// When a drive's integrated hazard is this.
    pub(super) fn at_hazard(&self, drive: usize, hazard: f64) -> f64 {
        let Drive { factor, born, .. } = self.drives[drive];
        born + self.case.failures.age_at(hazard / factor)
    }

    /// A drive is out from now on.
    pub(super) fn fail(&mut self, drive: usize, chance: &mut Chance) {
        let ready = self.now + self.case.delay.sample(chance);
        let back_at = ready + self.case.repairs.sample(chance);
        let pull_at = if self.case.wrong_pull > 0.0 { ready } else { f64::INFINITY };
        self.out(drive, Drive { pull_at, back_at, replaced: true, ..self.drives[drive] });
    }

    /// A drive that works was pulled: it is put back, and rebuilt.
    pub(super) fn pull(&mut self, drive: usize, chance: &mut Chance) {
        let back_at = self.now + self.case.repairs.sample(chance);
        self.out(drive, Drive { pull_at: f64::INFINITY, back_at, replaced: false, ..self.drives[drive] });
    }

    fn out(&mut self, drive: usize, state: Drive) {
        self.failed |= 1 << drive;
        self.drives[drive] = state;
    }

    /// A drive is rebuilt: all that is on it was written now.
    pub(super) fn back(&mut self, drive: usize, chance: &mut Chance) {
        let now = self.now;
        self.failed &= !(1 << drive);
        let state = &mut self.drives[drive];
        (state.clean, state.known) = (now, now);
        if state.replaced {
            (state.born, state.factor) = (now, 1.0);
        }
        let left = chance.exponential();
        self.drives[drive].left = left;
        self.drives[drive].fails_at = self.at_hazard(drive, self.hazard(drive, now) + left);
    }

    /// Looks at the drives on which everything depends now and did not when `before` had failed.
    pub(super) fn look(&mut self, before: u128, defects: &Defects) -> Look {
        let case = self.case;
        let newly = self.bare() & !case.group.redundancy.bare(before, case.group.drives);
        // Logarithms of the probability that there is no defect.
        let (mut first, mut any, mut expected) = (0.0, 0.0, 0.0);
        for drive in bits(newly) {
            let state = &mut self.drives[drive];
            let there = defects.after(self.now - state.clean);
            expected += there;
            any += (-there).ln_1p();
            first += (-defects.after(self.now - state.known)).ln_1p();
            // Histories that go on from here have lost no data on this drive.
            state.known = self.now;
        }
        Look { first: -first.exp_m1(), any: -any.exp_m1(), defects: expected }
    }

    /// The drive that is rebuilt next, and when.
    pub(super) fn next_back(&self) -> (f64, usize) {
        self.soonest(|drive| drive.back_at)
    }

    /// The drive that is pulled next, and when.
    pub(super) fn next_pull(&self) -> (f64, usize) {
        self.soonest(|drive| drive.pull_at)
    }

    fn soonest(&self, at: impl Fn(&Drive) -> f64) -> (f64, usize) {
        let of = |drive: usize| (at(&self.drives[drive]), drive);
        bits(self.failed).map(of).fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a })
    }

    /// One of the drives that work.
    pub(super) fn any_up(&self, chance: &mut Chance) -> Option<usize> {
        let up = self.up();
        let count = up.count_ones() as usize;
        (count > 0).then(|| bits(up).nth(chance.below(count))).flatten()
    }
}

/// The drives of a set.
pub(super) fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let drive = set.trailing_zeros() as usize;
            set &= set - 1;
            drive
        })
    })
}
