//! Pools beside arrays: their names, and how they are opened.

use std::path::PathBuf;

use brindle_host::opening::{Opening, Permission};
use brindle_io::device::DeviceAccess;

use crate::failure::Failure;
use crate::pools::{Opened, PoolUse, label_of};
use crate::world::World;

/// Names of pools, as their labels say.
pub(super) fn names(pools: &[Vec<PathBuf>]) -> Vec<String> {
    pools.iter().filter_map(|members| Some(label_of(members.first()?)?.name)).collect()
}

/// Opens pools in the world of the arrays; `is_alone` if there are none of these.
pub(super) fn open(
    opening: &Opening,
    world: &World,
    pools: &[Vec<PathBuf>],
    is_alone: bool,
) -> Result<Vec<Opened>, Failure> {
    let (mut opened, mut refused): (Vec<Opened>, _) = (Vec::new(), None);
    for members in pools {
        let label = members.first().and_then(|member| label_of(member));
        let (name, uuid) = label.map(|label| (label.name, label.pool.to_string())).unwrap_or_default();
        let read_only = opening.access_of(&name, &uuid) == Permission::ReadOnly;
        let access = if read_only { DeviceAccess::Read } else { DeviceAccess::Write };
        let how = PoolUse {
            access,
            lacking: opening.lacking_of(&name, &uuid),
            take: opening.take,
            tuning: opening.tuning,
        };
        let pool = match Opened::open(world, members, how, &|_| Ok(())) {
            Ok(pool) => pool,
            // One of several: a daemon serves the others.
            Err(why) if opening.own_names => {
                eprintln!("brindle: {} is not served: {why}", name.escape_debug());
                refused = Some(why);
                continue;
            }
            Err(why) => return Err(why),
        };
        let name = &pool.pool.label().name;
        if opened.iter().any(|other| other.pool.label().name == *name) {
            return Err(Failure::Refused(format!("two pools are called '{name}': serve each by itself")));
        }
        pool.warn();
        opened.push(pool);
    }
    match refused {
        Some(why) if opened.is_empty() && is_alone => Err(why),
        _ => Ok(opened),
    }
}
