//! Pools: how they are opened, and how they come to a server.

mod start;

use std::path::PathBuf;
use std::rc::Rc;

use brindle_host::opening::{Opening, Permission};
use brindle_host::status::LeftOut;
use brindle_host::{Content, HostedPool, ServedPool, Service, all_of};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::super::groups;
use super::super::joining::{Intake, Joining, OpenedContent};
use super::{FoundContents, Gathering, Kind, Looking};
use crate::base::failure::Failure;
use crate::base::machine;
use crate::devices::pools::{Opened, PoolUse, or_done_without};
use crate::devices::scan::Findable;
use crate::devices::world::World;

/// How the settings have a pool opened.
fn pool_use(opening: &Opening, (name, uuid): (&str, &str), pools: usize) -> PoolUse {
    let said = if uuid.is_empty() { opening.access } else { opening.access_of(name, uuid) };
    PoolUse {
        access: if said == Permission::ReadOnly { DeviceAccess::Read } else { DeviceAccess::Write },
        lacking: opening.lacking_of(name, uuid),
        take: opening.take,
        takes_over: opening.force,
        tuning: opening.tuning,
        pools,
    }
}

/// The kind.
pub(super) struct Pools;

impl Kind for Pools {
    fn one(&self) -> &'static str {
        "a pool"
    }

    fn find(&self, looking: &mut Looking<'_>) -> Result<Box<dyn FoundContents>, Failure> {
        Ok(Box::new(start::find(looking)?))
    }

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
        self.held = waiting.named_devices();
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
            // Those that are here give it a part of what they have once it is served.
            let pools = all_of::<ServedPool>(&*at.service).len() + 1;
            let (take, takes_over) = (opening.take, opening.force);
            let how = PoolUse { access, lacking, take, takes_over, tuning: opening.tuning, pools };
            let opened = Opened::of(&at.world.io, named, left_out, how, &|_| Ok(())).await;
            let opened = opened.map_err(|why| at.close(&ids, why))?;
            opened.warn();
            Ok(content(opened, at, opening))
        })
    }
}

/// A pool that runs, as content.
fn content(opened: Opened, at: &Intake, opening: &Opening) -> Rc<dyn Content> {
    let Opened { pool, members, devices, left_out, waits_for, .. } = opened;
    let (name, uuid) = (pool.label().name.clone(), pool.label().pool.to_string());
    let placed = at.placed(opening, (&name, &uuid), true);
    let left_out = left_out.into_iter().map(|(path, why)| LeftOut { path, why }).collect();
    let map_memory = opening.tuning.map_memory(machine::memory());
    let spare_group = groups::of(&opening.policies.spare_groups, &name).map(str::to_owned);
    let hosted = HostedPool { name, pool, members, left_out, devices, waits_for, map_memory, spare_group };
    ServedPool::new(&at.world.io, hosted, placed, &at.listener)
}
