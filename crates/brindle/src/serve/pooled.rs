//! Pools beside arrays: their names, and how they are opened.

use std::path::PathBuf;

use brindle_host::opening::{Opening, Permission};
use brindle_io::device::DeviceAccess;

use crate::failure::Failure;
use crate::pools::{Opened, label_of};
use crate::world::World;

/// Names of pools, as their labels say.
pub(super) fn names(pools: &[Vec<PathBuf>]) -> Vec<String> {
    pools.iter().filter_map(|members| Some(label_of(members.first()?)?.name)).collect()
}

/// Opens pools in the world of the arrays.
pub(super) fn open(opening: &Opening, world: &World, pools: &[Vec<PathBuf>]) -> Result<Vec<Opened>, Failure> {
    let mut opened: Vec<Opened> = Vec::new();
    for members in pools {
        let label = members.first().and_then(|member| label_of(member));
        let said =
            label.map_or(opening.access, |label| opening.access_of(&label.name, &label.pool.to_string()));
        let read_only = said == Permission::ReadOnly;
        let access = if read_only { DeviceAccess::Read } else { DeviceAccess::Write };
        let pool = Opened::open(world, members, access, opening.take, opening.tuning)?;
        let name = &pool.pool.label().name;
        if opened.iter().any(|other| other.pool.label().name == *name) {
            return Err(Failure::Refused(format!("two pools are called '{name}': serve each by itself")));
        }
        pool.warn();
        opened.push(pool);
    }
    Ok(opened)
}
