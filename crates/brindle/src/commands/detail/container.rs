//! The volumes of a container of Intel's.

use std::path::PathBuf;

use brindle_format::imsm::{ContainerDisk, serial_text};
use brindle_host::{ContainerOptions, ContainerSet};

use super::Looked;
use super::broken::BrokenReport;
use super::content::{self, Way};
use crate::base::failure::Failure;
use crate::base::report::{ArrayReport, DiskOfContainer, OwnContainer};
use crate::devices::containers::LoneContainer;
use crate::devices::world::WorldOptions;
use crate::flags::cli::Detail;

/// Reports each volume of the container that the disks make, or the one that is meant.
pub(super) fn volumes(args: &Detail, disks: &[PathBuf]) -> Result<Vec<Looked>, Failure> {
    let opening = WorldOptions { force: false, ..WorldOptions::LOOK };
    let lone = LoneContainer::open(disks, args.container.disks.as_deref(), opening)?;
    let (opened, set) = (&lone.opened, &lone.opened.set);
    let all = match args.container.volume.as_deref() {
        Some(wanted) => vec![set.find(Some(wanted))?],
        None => (0..set.newest.volumes.len()).collect(),
    };
    let labels: Vec<String> = set.members.iter().map(|member| member.label.clone()).collect();
    let look = |number: usize| match opened.plan(number, ContainerOptions::default()) {
        Ok(plan) => {
            let (array, way) = (lone.start(&plan), Way::of_volume(number, &labels));
            let left_out =
                set.left_out.iter().filter_map(|(at, why)| Some((labels.get(*at)?.clone(), why.clone())));
            let report = ArrayReport::of(plan.description(set)).without(left_out);
            let report = report.within(own(set));
            Looked::Formed(Box::new(report.holding(content::holds(&lone.world, &array, &way))))
        }
        Err(why) => Looked::Broken(Box::new(BrokenReport::of_volume(set, number, &why)), why),
    };
    Ok(all.into_iter().map(look).collect())
}

/// The container itself, as the metadata say that count.
fn own(set: &ContainerSet) -> OwnContainer {
    let disk = |(number, disk): (usize, &ContainerDisk)| DiskOfContainer {
        number,
        serial: serial_text(&disk.serial),
        state: match disk.status {
            status if status.is_failed() => "failed",
            status if status.is_spare() => "spare",
            status if status.is_configured() => "configured",
            _ => "unused",
        },
        path: set.disks.get(number).copied().flatten().map(|member| set.members[member].label.clone()),
    };
    let newest = &set.newest;
    OwnContainer {
        uuid: newest.uuid().to_string(),
        family: format!("{:08x}", newest.family),
        generation: newest.generation,
        volumes: newest.volumes.iter().map(|volume| serial_text(&volume.name)).collect(),
        disks: newest.disks.iter().enumerate().map(disk).collect(),
    }
}
