//! Pools beside arrays: opened, and offered volume by volume.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_export::Gate;
use brindle_host::opening::{Opening, Permission};
use brindle_host::status::LeftOut;
use brindle_host::{HostedPool, Pooled, Service, VolumeTargets};
use brindle_io::device::DeviceAccess;

use super::access::AccessFile;
use super::places::Address;
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

/// Offers the volumes of pools to clients.
pub(super) fn serve(
    opening: &Opening,
    service: &Rc<Service>,
    opened: Vec<Opened>,
    addresses: &Rc<[Address]>,
    access: Option<&AccessFile>,
    listener: &brindle_host::Listener,
    (gate, targets): (&dyn Fn() -> Gate, Option<VolumeTargets>),
) -> Result<(), Failure> {
    for Opened { pool, members, left_out, .. } in opened {
        let name = pool.label().name.clone();
        let gate = Rc::new(gate().for_those(access.map(|access| access.of(&name))));
        let limits = opening.limits_of(&name, &pool.label().pool.to_string());
        gate.set_rates(pool.io(), limits.map(Into::into).unwrap_or_default());
        gate.withdraw(opening.withdraws(&name, &pool.label().pool.to_string()));
        let status = pool.status();
        let addresses = Rc::clone(addresses);
        let hosted = HostedPool {
            name,
            devices: status.members.iter().filter_map(|member| member.device).collect(),
            members,
            left_out: left_out.into_iter().map(|(path, why)| LeftOut { path, why }).collect(),
            addresses: Rc::new(move |export| {
                addresses.iter().map(|address| address.uri(Some(export))).collect()
            }),
            gate,
            targets: targets.clone(),
            server: service.name().to_owned(),
            folder: std::env::current_dir().ok(),
            pool,
        };
        let pooled = Pooled::new(&hosted.pool.io().clone(), hosted, listener);
        service.serve_pool(pooled).map_err(|why| Failure::Refused(why.to_string()))?;
    }
    Ok(())
}
