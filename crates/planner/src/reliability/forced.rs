//! Histories in which losses are not rare, weighted so that their mean is true.
//!
//! The first failure is forced: it is drawn from those before the end, and the history is weighted by the probability
//! that there is one (Lewis and Bohm 1984; Nicola, Shahabuddin and Heidelberger 1993). From then on a history takes
//! its course. At each failure of a whole group a second world branches off, in which failures are more likely as
//! long as drives are missing (failure biasing). It ends when all are back, and its weight is the ratio of the
//! probabilities of its events. So weights never pile up over the cycles of a long history, as they do where the
//! history itself is biased. A branch and what its history went on with are independent given the moment when they
//! part, so that the sum of P(nothing lost before) * (what the branch lost) is P(loss) in the mean.
//!
//! Defects are not drawn at all: they arise without memory, so the probability that a drive has one is a function of the time
//! since it was known to have none.

use super::case::Case;
use super::defects::Defects;
use super::random::Chance;
use super::tally::Seen;
use super::world::{GroupState, bits};

/// In a branch the hazard of another failure before the next drive is back is this, at least.
const PUSH: f64 = 1.0;
/// In a branch another drive is pulled with this probability, at least, if that can happen at all.
const PULL: f64 = 0.5;

/// The simulator of histories.
pub(super) struct Forced<'a> {
    defects: &'a Defects,
    main: GroupState<'a>,
    branch: GroupState<'a>,
}

/// The next event.
enum HistoryEvent {
    End,
    Fail(usize),
    Pull(usize),
    Back(usize),
}

impl<'a> Forced<'a> {
    pub(super) fn new(case: &'a Case, defects: &'a Defects) -> Self {
        Self { defects, main: GroupState::new(case), branch: GroupState::new(case) }
    }

    /// A history of drives whose hazard is `factor` times what is published.
    pub(super) fn history(&mut self, factor: f64, chance: &mut Chance) -> Seen {
        let mut seen = Seen::default();
        let Some(weight) = self.force(factor, chance) else { return seen };
        // Probabilities that the group, and that no data, was lost before: of this history.
        let (mut whole, mut nothing) = (1.0, 1.0);
        loop {
            let cycle = self.cycle(chance);
            seen.any += weight * whole * nothing * cycle.any;
            seen.whole += weight * whole * cycle.whole;
            seen.wholes += weight * cycle.wholes;
            seen.sectors += weight * cycle.sectors;
            seen.defects += weight * cycle.defects;
            let (lost, kept) = self.go_on(chance);
            nothing *= kept;
            if lost {
                whole = 0.0;
            }
            if !self.next_failure(chance) {
                return seen;
            }
        }
    }

    /// Begins with the first failure: none if there can't be any.
    fn force(&mut self, factor: f64, chance: &mut Chance) -> Option<f64> {
        let world = &mut self.main;
        world.reset(factor);
        let drives = world.drives.len();
        let until = world.hazard(0, world.case.hours);
        let weight = -(-until * drives as f64).exp_m1();
        if weight <= 0.0 {
            return None;
        }
        let each = -(-chance.unit() * weight).ln_1p() / drives as f64;
        for drive in 0..drives {
            world.drives[drive].fails_at = world.at_hazard(drive, each + chance.exponential());
        }
        world.now = world.at_hazard(0, each).min(world.case.hours);
        let first = chance.below(drives);
        world.fail(first, chance);
        Some(weight)
    }

    /// The history itself, until all drives are back: whether the group was lost, and the probability that no sector was.
    fn go_on(&mut self, chance: &mut Chance) -> (bool, f64) {
        let world = &mut self.main;
        let mut kept = 1.0 - world.look(0, self.defects).first;
        let mut lost = world.lost();
        while world.failed != 0 {
            let before = world.failed;
            let (at, event) = next(world, |world, drive| world.drives[drive].fails_at);
            world.now = at;
            match event {
                HistoryEvent::End => return (lost, kept),
                HistoryEvent::Back(drive) => {
                    world.back(drive, chance);
                    continue;
                }
                HistoryEvent::Fail(drive) => world.fail(drive, chance),
                HistoryEvent::Pull(drive) => {
                    world.drives[drive].pull_at = f64::INFINITY;
                    if chance.unit() < world.case.wrong_pull
                        && let Some(other) = world.any_up(chance)
                    {
                        world.pull(other, chance);
                    }
                }
            }
            lost = lost || world.lost();
            if !lost {
                kept *= 1.0 - world.look(before, self.defects).first;
            }
        }
        (lost, kept)
    }

    /// On to the next failure of a drive while all are there, if there is one before the end.
    fn next_failure(&mut self, chance: &mut Chance) -> bool {
        let world = &mut self.main;
        let at = |drive: usize| (world.drives[drive].fails_at, drive);
        let soonest =
            (0..world.drives.len()).map(at).fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
        if world.failed != 0 || soonest.0 >= world.case.hours {
            return false;
        }
        world.now = soonest.0;
        world.fail(soonest.1, chance);
        true
    }

    /// The possible consequence of this failure: a branch in which more drives fail.
    fn cycle(&mut self, chance: &mut Chance) -> Seen {
        self.branch.copy_from(&self.main);
        for drive in &mut self.branch.drives {
            drive.left = chance.exponential();
        }
        let mut branch = Branch {
            world: &mut self.branch,
            defects: self.defects,
            log: 0.0,
            kept: 1.0,
            seen: Seen::default(),
        };
        branch.met(0);
        while branch.world.failed != 0 && !branch.world.lost() && branch.step(chance) {}
        branch.seen
    }
}

/// A branch on its way.
struct Branch<'w, 'a> {
    world: &'w mut GroupState<'a>,
    defects: &'w Defects,
    /// Logarithm of its weight.
    log: f64,
    /// Probability that no sector was lost in the history.
    kept: f64,
    seen: Seen,
}

impl Branch<'_, '_> {
    /// Records the losses of a failure.
    fn met(&mut self, before: u128) {
        let weight = self.log.exp();
        if self.world.lost() {
            self.seen.any += weight * self.kept;
            self.seen.whole += weight;
            self.seen.wholes += weight;
            return;
        }
        let look = self.world.look(before, self.defects);
        self.seen.any += weight * self.kept * look.first;
        self.seen.sectors += weight * look.any;
        self.seen.defects += weight * look.defects;
        self.kept *= 1.0 - look.first;
    }

    /// One event; false at the end of time.
    fn step(&mut self, chance: &mut Chance) -> bool {
        let push = self.push();
        let (at, event) = next(self.world, |world, drive| {
            let hazard = world.hazard(drive, world.now) + world.drives[drive].left / push.of(drive);
            world.at_hazard(drive, hazard)
        });
        self.pass(at, &push);
        let before = self.world.failed;
        match event {
            HistoryEvent::End => return false,
            HistoryEvent::Back(drive) => self.world.back(drive, chance),
            HistoryEvent::Fail(drive) => {
                self.log -= push.of(drive).ln();
                self.world.fail(drive, chance);
                self.met(before);
            }
            HistoryEvent::Pull(drive) => {
                self.world.drives[drive].pull_at = f64::INFINITY;
                if let Some(other) = self.pulled(chance) {
                    self.world.pull(other, chance);
                    self.met(before);
                }
            }
        }
        true
    }

    /// How much more likely failures are until the next drive is back: those on which everything depends, if there are such.
    fn push(&self) -> Push {
        let world = &self.world;
        let until = world.next_back().0.min(world.case.hours);
        let bare = world.bare();
        let boosted = if bare == 0 { world.up() } else { bare };
        let hazard: f64 =
            bits(boosted).map(|drive| world.hazard(drive, until) - world.hazard(drive, world.now)).sum();
        let factor = if hazard > 0.0 { (PUSH / hazard).clamp(1.0, 1e15) } else { 1.0 };
        Push { boosted, factor }
    }

    /// Advances time, and weights the history by the events that did not happen.
    fn pass(&mut self, at: f64, push: &Push) {
        for drive in bits(self.world.up()) {
            let hazard = self.world.hazard(drive, at) - self.world.hazard(drive, self.world.now);
            let factor = push.of(drive);
            self.log += (factor - 1.0) * hazard;
            let left = &mut self.world.drives[drive].left;
            *left = (*left - factor * hazard).max(0.0);
        }
        self.world.now = at;
    }

    /// The working drive that is pulled by mistake, if one is.
    fn pulled(&mut self, chance: &mut Chance) -> Option<usize> {
        let true_one = self.world.case.wrong_pull;
        let pushed = true_one.max(PULL);
        if chance.unit() < pushed {
            self.log += (true_one / pushed).ln();
            return self.world.any_up(chance);
        }
        self.log += ((1.0 - true_one) / (1.0 - pushed)).ln();
        None
    }
}

/// The factor by which the hazards of some drives are multiplied.
struct Push {
    boosted: u128,
    factor: f64,
}

impl Push {
    fn of(&self, drive: usize) -> f64 {
        if self.boosted >> drive & 1 == 1 { self.factor } else { 1.0 }
    }
}

/// The next event and its time, if drives fail at these times.
fn next(world: &GroupState<'_>, fails_at: impl Fn(&GroupState<'_>, usize) -> f64) -> (f64, HistoryEvent) {
    let mut found = (world.case.hours, HistoryEvent::End);
    let mut sooner = |at: f64, event: HistoryEvent| {
        if at < found.0 {
            found = (at, event);
        }
    };
    let (at, drive) = world.next_back();
    sooner(at, HistoryEvent::Back(drive));
    let (at, drive) = world.next_pull();
    sooner(at, HistoryEvent::Pull(drive));
    for drive in bits(world.up()) {
        sooner(fails_at(world, drive), HistoryEvent::Fail(drive));
    }
    found
}
