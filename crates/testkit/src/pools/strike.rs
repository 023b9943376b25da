//! Faults of a pool's members: which, when, and how much of them is left at the next start.

use brindle_io::MemberId;
use brindle_io::sim::{BadRange, Faults, Sim, When};

use super::plan::PoolPlan;
use crate::random::Random;

/// Where units begin, and so what may be spoilt without harm to labels.
const DATA: u64 = 1 << 20;

/// A fault of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// The member is gone for good.
    Dies,
    /// The member is gone until the next start.
    Leaves,
    /// The member does not answer until the next start.
    Hangs,
    /// The member is many times slower until the next start.
    Crawls,
    /// A place can't be read until it is written.
    BadPlace(u64),
    /// A place can't be written.
    Refuses(u64),
    /// No write is taken any more, though all can be read.
    RefusesAll,
    /// Some of the next writes are lost, land elsewhere, or are torn.
    Loses(u32),
    Misdirects(u32, u64),
    Tears(u32),
    /// Bits of a range flip.
    Rots(u64, u64),
}

impl Strike {
    /// One that the plan allows.
    pub(super) fn any(plan: &PoolPlan, size: u64, random: &mut Random) -> Self {
        let place = |random: &mut Random| DATA + random.below((size - 2 * DATA) >> 12) * 4096;
        let loud = plan.faults && (!plan.silent || random.one_in(2));
        if loud {
            return match random.below(11) {
                0..=2 => Self::Dies,
                3..=5 => Self::Leaves,
                6 => Self::Hangs,
                7 => Self::Crawls,
                8 => Self::BadPlace(place(random)),
                9 => Self::RefusesAll,
                _ => Self::Refuses(place(random)),
            };
        }
        match random.below(4) {
            0 => Self::Loses(1 + random.below(6) as u32),
            1 => Self::Misdirects(1 + random.below(4) as u32, (1 + random.below(size >> 12)) * 4096),
            2 => Self::Tears(1 + random.below(6) as u32),
            _ => Self::Rots(place(random), 4096 << random.below(6)),
        }
    }

    /// True if nothing on the member can be trusted afterwards.
    pub(super) fn is_death(self) -> bool {
        self == Self::Dies
    }

    /// Whether the fault makes a place bad.
    pub(super) fn spoils(self) -> bool {
        matches!(self, Self::BadPlace(_) | Self::Refuses(_) | Self::RefusesAll)
    }

    /// Schedules the fault.
    pub(super) fn plan(self, sim: &Sim, member: MemberId, when: When) {
        if let Self::Rots(at, len) = self {
            sim.rot(member, at..at + len);
            return;
        }
        sim.schedule(when, member, move |faults: &mut Faults| match self {
            Self::Dies => faults.gone = true,
            Self::Leaves => (faults.gone, faults.pulled) = (true, true),
            Self::Hangs => faults.hangs = true,
            Self::Crawls => faults.slowness = 30,
            Self::BadPlace(at) => faults.unreadable.push(BadRange::until_written(at..at + 4096)),
            Self::Refuses(at) => faults.unwritable.push(BadRange::forever(at..at + 4096)),
            Self::RefusesAll => faults.unwritable.push(BadRange::forever(0..u64::MAX)),
            Self::Loses(writes) => faults.losing_writes += writes,
            Self::Misdirects(writes, by) => {
                (faults.misdirected_writes, faults.misdirection) = (writes, by);
            }
            Self::Tears(writes) => faults.tearing_writes += writes,
            Self::Rots(..) => {}
        });
    }
}

/// Keeps the faults that outlast a new start: places stay bad, and the dead stay dead.
pub(super) fn after_start(sim: &Sim, member: MemberId, is_dead: bool) {
    sim.afflict(member, |faults| {
        let unreadable = core::mem::take(&mut faults.unreadable);
        let unwritable = core::mem::take(&mut faults.unwritable);
        let silent = core::mem::take(&mut faults.silent);
        *faults = Faults { gone: is_dead, unreadable, unwritable, silent, ..Faults::default() };
    });
}
