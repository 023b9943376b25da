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

/// Opens pools in the world of the arrays.
pub(super) fn open(
    opening: &Opening,
    world: &World,
    pools: &[Vec<PathBuf>],
    unserved: &Unserved,
) -> Result<Vec<Opened>, Failure> {
    let mut opened: Vec<Opened> = Vec::new();
    for members in pools {
        let label = members.first().and_then(|member| label_of(member));
        let (name, uuid) =
            label.map_or_else(Default::default, |label| (label.name.clone(), label.pool.to_string()));
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
    let said = if uuid.is_empty() { opening.access } else { opening.access_of(name, uuid) };
    let access = if said == Permission::ReadOnly { DeviceAccess::Read } else { DeviceAccess::Write };
    let how = PoolUse {
        access,
        lacking: opening.lacking_of(name, uuid),
        take: opening.take,
        tuning: opening.tuning,
    };
    let pool = Opened::open(world, members, how, &|_| Ok(()))?;
    let name = &pool.pool.label().name;
    if before.iter().any(|other| other.pool.label().name == *name) {
        return Err(Failure::Refused(format!("two pools are called '{name}': serve each by itself")));
    }
    Ok(pool)
}
