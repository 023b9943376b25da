//! Pools: their names, how they are opened, and how they come to a server.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_host::opening::{Opening, Permission};
use brindle_host::status::LeftOut;
use brindle_host::{Content, HostedPool, ServedPool, Service, all_of};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::super::joining::{Intake, Joining, OpenedContent};
use super::{Gathering, Kind};
use crate::base::failure::Failure;
use crate::devices::pools::{Opened, PoolUse, label_of, or_done_without};
use crate::devices::scan::Findable;
use crate::devices::unserved::Unserved;
use crate::devices::world::World;

/// Names of pools, as their labels say.
pub(in crate::server::serve) fn names(pools: &[Vec<PathBuf>]) -> Vec<String> {
    pools.iter().filter_map(|members| Some(label_of(members.first()?)?.name)).collect()
}

/// Looks whether pools can be opened, and leaves them as they are. Gives those that can.
pub(in crate::server::serve) fn try_open(
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
pub(in crate::server::serve) fn called(members: &[PathBuf]) -> (String, String) {
    let label = members.first().and_then(|member| label_of(member));
    label.map_or_else(Default::default, |label| (label.name.clone(), label.pool.to_string()))
}

/// Opens pools in the world of the arrays.
pub(in crate::server::serve) fn open(
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
    let label = pool.pool.label();
    let name = &label.name;
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

/// The kind.
pub(super) struct Pools;

impl Kind for Pools {
    fn is_of(&self, found: &Findable) -> bool {
        found.is_pool()
    }

    /// Opens all members but those that a server has open already.
    fn gather(
        &self,
        look: &mut World,
        found: &Findable,
        by: &Gathering<'_>,
    ) -> Result<Box<dyn Joining>, Failure> {
        let access = if by.is_read_only { DeviceAccess::Read } else { DeviceAccess::Write };
        let (mut members, mut left_out) = (Vec::new(), Vec::new());
        let is_held = |path: &&PathBuf| by.waiting.is_some_and(|one| one.holds(path));
        for path in found.members.iter().filter(|path| !is_held(path)) {
            match look.open_other(path, access) {
                Ok(device) => members.push((path.clone(), device)),
                Err(failure) => left_out.push((path.display().to_string(), or_done_without(failure)?)),
            }
        }
        let (names, uuid) = (vec![found.name.clone()], found.uuid.clone());
        Ok(Box::new(JoiningPool { names, uuid, access, members, held: Vec::new(), left_out }))
    }
}

/// A pool that was found, with its members open.
struct JoiningPool {
    names: Vec<String>,
    uuid: String,
    access: DeviceAccess,
    members: Vec<(PathBuf, OpenDevice)>,
    /// Devices that the world has already.
    held: Vec<(String, MemberId)>,
    /// Devices that are done without, and why.
    left_out: Vec<(String, String)>,
}

impl Joining for JoiningPool {
    fn names(&self) -> &[String] {
        &self.names
    }

    /// That is the same pool, which waits for members. Its devices are locked, and stay so.
    fn takes_place(&mut self, service: &Service) -> Option<Rc<dyn Content>> {
        let is_it = |pool: &Rc<ServedPool>| pool.waits() && pool.uuid() == self.uuid;
        let waiting = all_of::<ServedPool>(service).into_iter().find(is_it)?;
        self.held = waiting.named_devices().to_vec();
        Some(waiting)
    }

    fn open<'a>(self: Box<Self>, name: String, at: &'a Intake, opening: &'a Opening) -> OpenedContent<'a> {
        Box::pin(async move {
            let Self { uuid, access, members, held: mut named, left_out, .. } = *self;
            let ids = |named: &[(String, MemberId)]| named.iter().map(|(_, id)| *id).collect::<Vec<_>>();
            for (path, device) in members {
                match at.world.add(&path, device) {
                    Ok(id) => named.push((path.display().to_string(), id)),
                    Err(why) => return Err(at.close(&ids(&named), why)),
                }
            }
            let ids = ids(&named);
            let lacking = opening.lacking_of(&name, &uuid);
            let how = PoolUse { access, lacking, take: opening.take, tuning: opening.tuning };
            let opened = Opened::of(&at.world.io, named, left_out, how, &|_| Ok(())).await;
            let opened = opened.map_err(|why| at.close(&ids, why))?;
            opened.warn();
            Ok(content(opened, at, opening))
        })
    }
}

/// A pool that runs, as content.
pub(in crate::server::serve) fn content(opened: Opened, at: &Intake, opening: &Opening) -> Rc<dyn Content> {
    let Opened { pool, members, devices, left_out, waits_for, .. } = opened;
    let (name, uuid) = (pool.label().name.clone(), pool.label().pool.to_string());
    let placed = at.placed(opening, (&name, &uuid), true);
    let left_out = left_out.into_iter().map(|(path, why)| LeftOut { path, why }).collect();
    let hosted = HostedPool { name, pool, members, left_out, devices, waits_for };
    ServedPool::new(&at.world.io, hosted, placed, &at.listener)
}
