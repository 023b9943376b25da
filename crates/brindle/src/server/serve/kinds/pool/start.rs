//! Pools at the start of a server. Their devices are opened with them, which writes to members: until then they are looked at alone.

use brindle_host::opening::Opening;
use brindle_pool::PoolOpenError;

use super::super::{AtStart, ClaimedContents, FoundContents, Looking, StartedContent};
use super::{content, pool_use};
use crate::base::failure::Failure;
use crate::devices::pools::{self, Opened, SortedPool};
use crate::devices::unserved::Unserved;
use crate::devices::world::World;

/// Takes members of pools from the devices that are named.
pub(super) fn find(looking: &mut Looking<'_>) -> Result<FoundPools, Failure> {
    let mut sorted = pools::sort(&looking.devices, &looking.opening.tuning);
    sorted.give_lost_devices();
    (looking.devices, looking.silent) = (sorted.others, sorted.silent);
    for (path, error) in sorted.refused {
        let device = path.display().to_string();
        let why = PoolOpenError::OtherVersion { device: device.clone(), error };
        looking.unserved.leave(&device, &device, why.into())?;
        looking.may_be_empty = true;
    }
    Ok(FoundPools(sorted.pools))
}

/// Pools that were found.
pub(super) struct FoundPools(Vec<SortedPool>);

impl FoundContents for FoundPools {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|pool| pool.label.name.clone()).collect()
    }

    fn claim(
        self: Box<Self>,
        _world: &mut World,
        _unserved: &Unserved,
    ) -> Result<Box<dyn ClaimedContents>, Failure> {
        Ok(Box::new(ClaimedPools(self.0)))
    }
}

/// Pools that are to be opened.
struct ClaimedPools(Vec<SortedPool>);

impl ClaimedContents for ClaimedPools {
    fn uuids(&self) -> Vec<String> {
        self.0.iter().map(SortedPool::uuid).collect()
    }

    fn try_open(&mut self, at: &AtStart<'_>) -> Result<(), Failure> {
        let pools = std::mem::take(&mut self.0);
        let count = pools.len();
        for pool in pools {
            let (name, uuid) = (&pool.label.name, pool.uuid());
            match Opened::try_open(at.world, &pool.members, pool_use(at.opening, (name, &uuid), count)) {
                Ok(()) => self.0.push(pool),
                Err(failure) => at.unserved.leave(name, &uuid, failure)?,
            }
        }
        Ok(())
    }

    fn open(self: Box<Self>, at: &AtStart<'_>) -> Result<Vec<StartedContent>, Failure> {
        let mut opened: Vec<Opened> = Vec::new();
        for pool in &self.0 {
            let before = at.world.devices();
            match one(at, pool, &opened, self.0.len()) {
                Ok(pool) => {
                    pool.warn();
                    opened.push(pool);
                }
                Err(failure) => {
                    at.world.let_go_of_all_but(&before);
                    at.unserved.leave(&pool.label.name, &pool.uuid(), failure)?;
                }
            }
        }
        let started = |opened: Opened| -> StartedContent {
            Box::new(move |intake, opening: &Opening| content(opened, intake, opening))
        };
        Ok(opened.into_iter().map(started).collect())
    }
}

fn one(at: &AtStart<'_>, pool: &SortedPool, before: &[Opened], all: usize) -> Result<Opened, Failure> {
    let how = pool_use(at.opening, (&pool.label.name, &pool.uuid()), all);
    let pool = Opened::open(at.world, &pool.members, how, &|_| Ok(()))?;
    let label = pool.pool.label();
    let name = &label.name;
    if before.iter().any(|other| other.pool.label().name == *name) {
        return Err(Failure::Refused(format!("two pools are called '{name}': serve each by itself")));
    }
    Ok(pool)
}
