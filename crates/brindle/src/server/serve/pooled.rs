//! Pools beside arrays: their names, and how they are opened.

use std::path::PathBuf;

use brindle_host::opening::{Opening, Permission};
use brindle_io::device::DeviceAccess;

use crate::base::failure::Failure;
use crate::devices::pools::{Opened, PoolUse, label_of};
use crate::devices::unserved::Unserved;
use crate::devices::world::World;

/// Names of pools, as their labels say.
pub(super) fn names(pools: &[Vec<PathBuf>]) -> Vec<String> {
    pools.iter().filter_map(|members| Some(label_of(members.first()?)?.name)).collect()
}

/// Looks whether pools can be opened, and leaves them as they are. Gives those that can.
pub(super) fn try_open(
    opening: &Opening,
    world: &World,
    pools: &[Vec<PathBuf>],
    unserved: &Unserved,
) -> Result<Vec<Vec<PathBuf>>, Failure> {
    let mut can = Vec::new();
    for members in pools {
        let (name, uuid) = called(members);
        match Opened::try_open(world, members, pool_use(opening, (&name, &uuid))) {
            Ok(()) => can.push(members.clone()),
            Err(failure) => unserved.leave(&name, &uuid, failure)?,
        }
    }
    Ok(can)
}

/// The name of a pool and its UUID.
pub(super) fn called(members: &[PathBuf]) -> (String, String) {
    let label = members.first().and_then(|member| label_of(member));
    label.map_or_else(Default::default, |label| (label.name.clone(), label.pool.to_string()))
}

/// Opens pools in the world of the arrays.
pub(super) fn open(
    opening: &Opening,
    world: &World,
    pools: &[Vec<PathBuf>],
    unserved: &Unserved,
) -> Result<Vec<Opened>, Failure> {
    let mut opened: Vec<Opened> = Vec::new();
    for members in pools {
        let (name, uuid) = called(members);
        let before = world.devices();
        match one(opening, world, members, (&name, &uuid), &opened) {
            Ok(pool) => {
                pool.warn();
                opened.push(pool);
            }
            Err(failure) => {
                world.let_go_of_all_but(&before);
                unserved.leave(&name, &uuid, failure)?;
            }
        }
    }
    Ok(opened)
}

fn one(
    opening: &Opening,
    world: &World,
    members: &[PathBuf],
    (name, uuid): (&str, &str),
    before: &[Opened],
) -> Result<Opened, Failure> {
    let pool = Opened::open(world, members, pool_use(opening, (name, uuid)), &|_| Ok(()))?;
    let name = &pool.pool.label().name;
    if before.iter().any(|other| other.pool.label().name == *name) {
        return Err(Failure::Refused(format!("two pools are called '{name}': serve each by itself")));
    }
    Ok(pool)
}

/// How the settings have a pool opened.
fn pool_use(opening: &Opening, (name, uuid): (&str, &str)) -> PoolUse {
    let said = if uuid.is_empty() { opening.access } else { opening.access_of(name, uuid) };
    PoolUse {
        access: if said == Permission::ReadOnly { DeviceAccess::Read } else { DeviceAccess::Write },
        lacking: opening.lacking_of(name, uuid),
        take: opening.take,
        tuning: opening.tuning,
    }
}
