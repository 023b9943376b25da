//! Histories as they come: every defect is drawn, nothing is weighted. Slow where losses are rare. The weighted
//! histories are checked against these.

use super::case::Case;
use super::random::Chance;
use super::tally::Seen;
use super::world::{GroupState, bits};

/// A drive's latest defect.
#[derive(Clone, Copy, Debug)]
struct Defect {
    from: f64,
    until: f64,
}

/// The simulator of histories.
pub(super) struct Plain<'a> {
    world: GroupState<'a>,
    defects: Vec<Defect>,
    /// Whether the group has been lost since all drives were there.
    down: bool,
    seen: Seen,
}

impl<'a> Plain<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        let none = Defect { from: f64::INFINITY, until: f64::INFINITY };
        let defects = vec![none; case.group.drives as usize];
        Self { world: GroupState::new(case), defects, down: false, seen: Seen::default() }
    }

    /// A history of drives whose hazard is `factor` times what is published.
    pub(super) fn history(&mut self, factor: f64, chance: &mut Chance) -> Seen {
        (self.down, self.seen) = (false, Seen::default());
        self.world.reset(factor);
        for drive in 0..self.world.drives.len() {
            self.world.drives[drive].fails_at = self.world.at_hazard(drive, chance.exponential());
            self.defects[drive] = self.arise(0.0, chance);
        }
        while self.step(chance) {}
        self.seen
    }

    /// A history of groups that bear no failure in which one comes before the end: it counts for the probability that one does. Defects
    /// are left out.
    pub(super) fn first_forced(&mut self, factor: f64, chance: &mut Chance) -> Seen {
        (self.down, self.seen) = (false, Seen::default());
        self.world.reset(factor);
        let drives = self.world.drives.len();
        let weight = -(-self.world.hazard(0, self.world.case.hours) * drives as f64).exp_m1();
        if weight <= 0.0 {
            return Seen::default();
        }
        // All drives are new: the hazard of each at the time of the first failure, which is any one's.
        let hazard = -(-chance.unit() * weight).ln_1p() / drives as f64;
        let first = chance.below(drives);
        for drive in 0..drives {
            let more = if drive == first { 0.0 } else { chance.exponential() };
            self.world.drives[drive].fails_at = self.world.at_hazard(drive, hazard + more);
            self.defects[drive] = Defect { from: f64::INFINITY, until: f64::INFINITY };
        }
        while self.step(chance) {}
        Seen { any: weight, whole: weight, wholes: self.seen.wholes * weight, ..Seen::default() }
    }

    fn arise(&self, clean: f64, chance: &mut Chance) -> Defect {
        let case = self.world.case;
        let from =
            if case.defects > 0.0 { clean + chance.exponential() / case.defects } else { f64::INFINITY };
        let until = case.scrub.map_or(f64::INFINITY, |scrub| from + scrub.sample(chance));
        Defect { from, until }
    }

    fn defective(&mut self, drive: usize, chance: &mut Chance) -> bool {
        while self.defects[drive].until <= self.world.now {
            self.defects[drive] = self.arise(self.defects[drive].until, chance);
        }
        self.defects[drive].from <= self.world.now
    }

    fn step(&mut self, chance: &mut Chance) -> bool {
        let world = &self.world;
        let (back, returned) = world.next_back();
        let (pull, replaced) = world.next_pull();
        let at = |drive: usize| (world.drives[drive].fails_at, drive);
        let (fail, failing) =
            bits(world.up()).map(at).fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
        let now = back.min(pull).min(fail);
        if now >= world.case.hours {
            return false;
        }
        let before = world.failed;
        self.world.now = now;
        if fail == now {
            self.world.fail(failing, chance);
            self.met(before, chance);
        } else if pull == now {
            self.world.drives[replaced].pull_at = f64::INFINITY;
            if chance.unit() < self.world.case.wrong_pull
                && let Some(other) = self.world.any_up(chance)
            {
                self.world.pull(other, chance);
                self.met(before, chance);
            }
        } else {
            self.world.back(returned, chance);
            self.defects[returned] = self.arise(now, chance);
            self.down = self.down && self.world.failed != 0;
        }
        true
    }

    /// Counts the losses that a failure has caused.
    fn met(&mut self, before: u128, chance: &mut Chance) {
        if self.down {
            return;
        }
        if self.world.lost() {
            self.down = true;
            (self.seen.any, self.seen.whole) = (1.0, 1.0);
            self.seen.wholes += 1.0;
            return;
        }
        let case = self.world.case;
        let newly = self.world.bare() & !case.group.redundancy.bare(before, case.group.drives);
        let found = bits(newly).filter(|drive| self.defective(*drive, chance)).count();
        if found > 0 {
            self.seen.any = 1.0;
            self.seen.sectors += 1.0;
            self.seen.defects += found as f64;
        }
    }
}
