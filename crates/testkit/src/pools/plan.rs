//! The plan of a seed: a pool's shape, its load, and what may go wrong with it.

use core::fmt;

use super::house::Kind;
use crate::random::Random;

const KINDS: [Kind; 7] = [
    Kind::Raidz(1, 3),
    Kind::Raidz(2, 5),
    Kind::Mirror(2),
    Kind::Two,
    Kind::Raidz(3, 5),
    Kind::Plain(1),
    Kind::Mirror(3),
];

/// Shapes of vdevs that are not alike: one seed of two has one of these.
const UNLIKE: [Kind; 2] = [Kind::Mixed, Kind::Unlike];

/// The plan of a seed.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    pub(super) kind: Kind,
    /// The volume is all that the pool sells, and is written all over, so that the pool is cleaned all the time.
    pub(super) full: bool,
    /// Members hold other bytes than they were given, and say nothing.
    pub(super) silent: bool,
    /// Many changes stay in memory: segments are used again between checkpoints, which are rare.
    pub(super) large: bool,
    /// It is run with the usual settings.
    pub(super) usual: bool,
    /// The pool is of a release that knew neither dense leaves, nor leaves of runs, nor that.
    pub(super) old: bool,
    /// Members take long to flush: much is written while a checkpoint is.
    pub(super) slow: bool,
    /// A client changes the memory that it writes from.
    pub(super) restless: bool,
    /// Members that die, hang, refuse or come back, of those in `victims`.
    pub(super) faults: bool,
    /// Members have several times as many units: most pages of the table of segments stay where they are at a checkpoint.
    pub(super) many: bool,
    /// Scrubs go over it beside the load.
    pub(super) scrubs: bool,
    /// Some of the victims are taken out, come back and are replaced beside the load.
    pub(super) turns: bool,
    /// The pool gets more devices beside the load.
    pub(super) grows: bool,
    /// Members that something may happen to: as many of each vdev as it can do without.
    pub(super) victims: Vec<usize>,
}

impl PoolPlan {
    /// The plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::stream(seed, 0x0070_6c61_6e73);
        let (kind, mut unlike) = (*random.pick(&KINDS), Random::stream(seed, 0x756e_6c69_6b65));
        let kind = if unlike.one_in(2) { *unlike.pick(&UNLIKE) } else { kind };
        let vdevs: Vec<(usize, usize)> = match kind {
            Kind::Raidz(parity, count) => vec![(usize::from(parity), count)],
            Kind::Mirror(count) => vec![(count - 1, count)],
            Kind::Plain(count) => vec![(0, 1); count],
            Kind::Two => vec![(1, 3); 2],
            Kind::Unlike => vec![(1, 3), (0, 1)],
            Kind::Mixed => vec![(2, 4), (1, 2)],
        };
        let (mut victims, mut first) = (Vec::new(), 0);
        for (parity, count) in vdevs {
            let mut left: Vec<usize> = (first..first + count).collect();
            for _ in 0..parity {
                victims.push(left.swap_remove(random.below(left.len() as u64) as usize));
            }
            first += count;
        }
        let faults = !random.one_in(4) && !victims.is_empty();
        let mut plan = Self {
            kind,
            full: random.one_in(2),
            silent: random.one_in(3) && !victims.is_empty(),
            restless: random.one_in(4),
            faults,
            victims,
            slow: random.one_in(3),
            large: random.one_in(2),
            old: random.one_in(8),
            usual: random.one_in(4),
            many: false,
            scrubs: false,
            turns: false,
            grows: Random::stream(seed, 0x0067_726f_7773).one_in(4),
        };
        // To fill these would take long.
        plan.many = !plan.full && random.one_in(2);
        plan.scrubs = random.one_in(2);
        plan.turns = !plan.victims.is_empty() && random.one_in(2);
        plan
    }

    /// All that anybody finds wrong is a fault of the engine.
    pub(super) fn is_sound(&self) -> bool {
        !self.silent && !self.faults
    }
}

impl fmt::Display for PoolPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = [
            (self.full, "full"),
            (self.silent, "silent faults"),
            (self.faults, "faults"),
            (self.slow, "slow flushes"),
            (self.large, "many changes"),
            (self.old, "old features"),
            (self.usual, "usual settings"),
            (self.restless, "restless client"),
            (self.many, "many segments"),
            (self.scrubs, "scrubs"),
            (self.turns, "turns of members"),
            (self.grows, "growth"),
        ];
        let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| format!(", {}", mark.1)).collect();
        write!(f, "pools of {:?}{marks}", self.kind)
    }
}
