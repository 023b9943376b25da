//! Containers of Intel's firmware RAID: each of their volumes is served, to be read.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_array::Array;
use brindle_host::opening::{Opening, Permission};
use brindle_host::status::LeftOut;
use brindle_host::{ContainerOptions, ServedArray, VolumePlan};
use brindle_io::device::DeviceAccess;

use super::{AtStart, ClaimedContents, FoundContents, Gathering, Kind, Looking, StartedContent};
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::devices::containers::{self, LoneContainer, OpenContainer};
use crate::devices::scan::Findable;
use crate::devices::unserved::Unserved;
use crate::devices::world::{World, WorldOptions};
use crate::server::serve::joining::Joining;

/// The kind.
pub(super) struct Containers;

impl Kind for Containers {
    fn one(&self) -> &'static str {
        "a volume of Intel's RAID"
    }

    fn find(&self, looking: &mut Looking<'_>) -> Result<Box<dyn FoundContents>, Failure> {
        let devices = std::mem::take(&mut looking.devices);
        let is_own = |name: &PathBuf| {
            !looking.silent.contains(&name.display().to_string()) && containers::is_disk(name)
        };
        let (disks, others): (Vec<_>, Vec<_>) = devices.into_iter().partition(is_own);
        looking.devices = others;
        let force = looking.opening.force;
        let mut found = FoundVolumes { disks, force, volumes: Vec::new() };
        if !found.disks.is_empty() {
            found.volumes = volumes(looking.opening, &found.disks, looking.unserved)?;
        }
        Ok(Box::new(found))
    }

    fn is_of(&self, _found: &Findable) -> bool {
        false
    }

    fn gather(
        &self,
        _: &mut World,
        found: &Findable,
        _: &Gathering<'_>,
    ) -> Result<Box<dyn Joining>, Failure> {
        Err(Failure::Refused(format!(
            "'{}' is of Intel's RAID, which only comes to a server at its start: name its disks there",
            found.name.escape_debug()
        )))
    }
}

/// A volume that is to be served.
struct WantedVolume {
    name: String,
    plan: VolumePlan,
    uuid: String,
}

/// Looks at disks in a world that ends here; volumes that can't be served are left.
fn volumes(opening: &Opening, disks: &[PathBuf], unserved: &Unserved) -> Result<Vec<WantedVolume>, Failure> {
    let look = WorldOptions { force: opening.force, ..WorldOptions::LOOK };
    let lone = LoneContainer::open(disks, None, look)?;
    let set = &lone.opened.set;
    if opening.access == Permission::ReadWrite {
        let why = "Intel's containers are only read by this release: serve them with --read-only";
        return Err(Failure::Refused(why.to_owned()));
    }
    let mut wanted: Vec<WantedVolume> = Vec::new();
    for number in 0..set.newest.volumes.len() {
        let uuid = set.newest.volume_uuid(number).map(|uuid| uuid.to_string()).unwrap_or_default();
        match lone.opened.plan(number, ContainerOptions { force: opening.force, partial: false }) {
            Ok(plan) => {
                let own = runtime::name_or_uuid(&plan.name, &uuid);
                let is_taken = wanted.iter().any(|other| other.name == own);
                let name = if is_taken { runtime::uuid_name(&uuid) } else { own };
                wanted.push(WantedVolume { name, plan, uuid });
            }
            Err(why) => unserved.leave(&number.to_string(), &uuid, why)?,
        }
    }
    if let (Some(name), [only]) = (&opening.name, &mut wanted[..])
        && !opening.own_names
    {
        only.name.clone_from(name);
    }
    for WantedVolume { name, plan, .. } in &wanted {
        for limit in plan.limits.iter().filter(|_| opening.access != Permission::ReadOnly) {
            eprintln!("brindle: {name}: serving read-only: {limit}");
        }
    }
    Ok(wanted)
}

/// Volumes that were found.
struct FoundVolumes {
    disks: Vec<PathBuf>,
    force: bool,
    volumes: Vec<WantedVolume>,
}

impl FoundContents for FoundVolumes {
    fn names(&self) -> Vec<String> {
        self.volumes.iter().map(|volume| volume.name.clone()).collect()
    }

    fn shares(&self) -> u64 {
        self.volumes.len() as u64
    }

    /// Opens the volumes, too: that writes to no disk.
    fn claim(
        self: Box<Self>,
        world: &mut World,
        _unserved: &Unserved,
    ) -> Result<Box<dyn ClaimedContents>, Failure> {
        let Self { disks, force, volumes } = *self;
        if volumes.is_empty() {
            return Ok(Box::new(ClaimedVolumes { opened: None, volumes: Vec::new() }));
        }
        world.set_access(DeviceAccess::Read);
        let opened = OpenContainer::open(world, &disks, None, (DeviceAccess::Read, force))?;
        let start = |volume: WantedVolume| {
            let array = opened.start(world, &volume.plan);
            (volume, array)
        };
        let volumes = volumes.into_iter().map(start).collect();
        Ok(Box::new(ClaimedVolumes { opened: Some(opened), volumes }))
    }
}

/// Volumes that are open.
struct ClaimedVolumes {
    opened: Option<OpenContainer>,
    volumes: Vec<(WantedVolume, Array)>,
}

impl ClaimedContents for ClaimedVolumes {
    fn uuids(&self) -> Vec<String> {
        self.volumes.iter().map(|(volume, _)| volume.uuid.clone()).collect()
    }

    fn open(self: Box<Self>, _at: &AtStart<'_>) -> Result<Vec<StartedContent>, Failure> {
        let Self { opened, volumes } = *self;
        let Some(opened) = opened.map(Rc::new) else { return Ok(Vec::new()) };
        let started = |(volume, array): (WantedVolume, Array)| -> StartedContent {
            let opened = Rc::clone(&opened);
            Box::new(move |intake, opening| {
                let set = &opened.set;
                let file = |label: &String| Some((label.clone(), std::fs::canonicalize(label).ok()?));
                let left_out = set.left_out.iter().filter_map(|(at, why)| {
                    Some(LeftOut { path: set.members.get(*at)?.label.clone(), why: why.clone() })
                });
                let hosted = brindle_host::Hosted {
                    name: volume.name.clone(),
                    array,
                    description: volume.plan.description(set),
                    nested: Vec::new(),
                    spare_group: None,
                    left_out: left_out.collect(),
                    files: set.members.iter().filter_map(|member| file(&member.label)).collect(),
                    // The other volume may need them on: they are let go of with the server.
                    devices: Vec::new(),
                };
                let placed = intake.placed(opening, (&volume.name, &volume.uuid), intake.is_named);
                ServedArray::new(&intake.world.io, hosted, placed, &intake.listener)
            })
        };
        Ok(volumes.into_iter().map(started).collect())
    }
}
