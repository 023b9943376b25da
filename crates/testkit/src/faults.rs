//! Faults of drives, and an atlas that keeps them within the limits that an array can bear.

use core::fmt;

use brindle_io::sim::{BadRange, Faults, Sim};
use brindle_io::{Duration, MemberId};
use brindle_layout::Geometry;

use crate::random::Random;

/// A fault of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The drive is gone, for good or until the power comes back.
    Dies,
    /// The drive is pulled, for good or until the power comes back: its size is 0, and writes find no space.
    Pulled,
    /// The drive takes no write any more, but reads.
    RefusesWrites,
    /// A flush fails, and what it should have made stable is forgotten. Flushes after it succeed.
    FailsFlush,
    /// A place can't be read until it is written.
    BadSector,
    /// A place can't be read once or twice.
    PassingError,
    /// The drive does not answer for a while.
    Pauses,
    /// The drive does not answer for so long that reads are given up. The answers come after that.
    Stalls,
    /// The drive never answers again.
    Hangs,
    /// The drive is many times slower.
    Crawls,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 10] = [
        Self::Dies,
        Self::Pulled,
        Self::RefusesWrites,
        Self::FailsFlush,
        Self::BadSector,
        Self::PassingError,
        Self::Pauses,
        Self::Stalls,
        Self::Hangs,
        Self::Crawls,
    ];

    /// The most that it can cost an array.
    fn cost(self) -> Cost {
        match self {
            Self::Dies | Self::Pulled | Self::RefusesWrites | Self::FailsFlush | Self::Hangs => Cost::Member,
            // The data of a member that stalls are read from the others.
            Self::BadSector | Self::PassingError | Self::Stalls => Cost::Places,
            Self::Pauses | Self::Crawls => Cost::Nothing,
        }
    }

    /// Whether it takes anything from an array: a member, or places of one.
    pub fn harms(self) -> bool {
        self.cost() != Cost::Nothing
    }

    /// Adds this fault to those that a drive has already. `place` is where, for faults that have a place.
    pub fn strike(self, faults: &mut Faults, place: core::ops::Range<u64>) {
        match self {
            Self::Dies => faults.gone = true,
            Self::Pulled => (faults.gone, faults.pulled) = (true, true),
            Self::RefusesWrites => faults.unwritable.push(BadRange::forever(0..u64::MAX)),
            Self::FailsFlush => faults.failing_flushes += 1,
            Self::BadSector => faults.unreadable.push(BadRange::until_written(place)),
            Self::PassingError => faults.unreadable.push(BadRange::times(place, 2)),
            Self::Pauses | Self::Stalls | Self::Hangs => faults.hangs = true,
            Self::Crawls => faults.slowness = 50,
        }
    }

    /// The time after which the fault ends by itself.
    pub fn lasts(self) -> Option<Duration> {
        match self {
            Self::Pauses => Some(Duration::from_millis(40)),
            Self::Stalls => Some(Duration::from_secs(2)),
            _ => None,
        }
    }

    /// Sets the drive's faults after a power cycle: it may be as new, or still be gone.
    pub fn after_power_cycle(sim: &Sim, drive: MemberId, dead_stay_dead: bool) {
        sim.afflict(drive, |faults| {
            let gone = faults.gone && dead_stay_dead;
            let unreadable = core::mem::take(&mut faults.unreadable);
            *faults = Faults { gone, unreadable, ..Faults::default() };
        });
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dies => "dies",
            Self::Pulled => "is pulled",
            Self::RefusesWrites => "refuses writes",
            Self::FailsFlush => "fails a flush",
            Self::BadSector => "bad sector",
            Self::PassingError => "passing error",
            Self::Pauses => "pauses",
            Self::Stalls => "stalls",
            Self::Hangs => "hangs",
            Self::Crawls => "crawls",
        })
    }
}

/// The loss that a fault may cause to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Nothing,
    /// Some places of a member can't be read.
    Places,
    /// The member is failed.
    Member,
}

/// The roles that may be struck, and by what, so that never more is lost than the geometry can bear.
#[derive(Clone, Debug)]
pub struct Atlas {
    geometry: Geometry,
    /// Roles that are lost, or will be.
    lost: Vec<u16>,
    /// Roles with places that can't be read.
    spotted: Vec<u16>,
}

impl Atlas {
    /// The faults that an array can bear which has lost these roles already.
    pub fn new(geometry: &Geometry, lost: &[u16]) -> Self {
        Self { geometry: geometry.clone(), lost: lost.to_vec(), spotted: Vec::new() }
    }

    /// Notes that a fault strikes a role, if the array can bear it beside all that was noted before.
    pub fn admit(&mut self, fault: Fault, role: u16) -> bool {
        if self.lost.contains(&role) {
            return false;
        }
        let mut all: Vec<u16> = self.lost.iter().chain(&self.spotted).copied().collect();
        all.push(role);
        all.sort_unstable();
        all.dedup();
        let bearable = self.geometry.level().is_redundant() && self.geometry.can_lose(&all);
        match fault.cost() {
            Cost::Nothing => return true,
            _ if !bearable => return false,
            Cost::Places => self.spotted.push(role),
            Cost::Member => self.lost.push(role),
        }
        true
    }

    /// A fault of one of these kinds that the array can bear, and the role it strikes; `None` if it can bear none.
    pub fn choose(&mut self, kinds: &[Fault], random: &mut Random) -> Option<(Fault, u16)> {
        let members = u64::from(self.geometry.members());
        (0..8).find_map(|_| {
            let (fault, role) = (*random.pick(kinds), random.below(members) as u16);
            self.admit(fault, role).then_some((fault, role))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_layout::{Layout, Level};

    fn geometry(level: Level, members: usize) -> Geometry {
        Geometry::new(level, Layout::default_for(level), 4096, &vec![64 << 10; members]).unwrap()
    }

    #[test]
    fn never_more_is_struck_than_can_be_borne() {
        for (level, members) in [(Level::Raid1, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)]
        {
            let geometry = geometry(level, members);
            for seed in 0..50 {
                let (mut atlas, mut random) = (Atlas::new(&geometry, &[]), Random::new(seed));
                while atlas.choose(&[Fault::Dies, Fault::BadSector], &mut random).is_some() {
                    let struck = [&atlas.lost[..], &atlas.spotted].concat();
                    assert!(!struck.is_empty() && atlas.geometry.can_lose(&atlas.lost));
                    if atlas.spotted.len() > 20 {
                        break;
                    }
                }
                assert!(!atlas.lost.is_empty() || !atlas.spotted.is_empty(), "{level}");
            }
        }
    }

    #[test]
    fn what_has_no_redundancy_bears_only_slowness() {
        let mut atlas = Atlas::new(&geometry(Level::Raid0, 3), &[]);
        assert!(!atlas.admit(Fault::Dies, 0) && !atlas.admit(Fault::BadSector, 0));
        assert!(atlas.admit(Fault::Crawls, 0) && atlas.admit(Fault::Pauses, 1));
    }

    #[test]
    fn a_lost_role_is_not_struck_again() {
        let mut atlas = Atlas::new(&geometry(Level::Raid6, 5), &[2]);
        assert!(!atlas.admit(Fault::Crawls, 2));
        assert!(atlas.admit(Fault::Dies, 1));
        assert!(!atlas.admit(Fault::PassingError, 0), "two are lost");
    }
}
