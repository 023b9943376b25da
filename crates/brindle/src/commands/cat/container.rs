//! A volume of a container of Intel's.

use std::process::ExitCode;

use brindle_host::{ContainerOptions, VolumePlan};
use brindle_io::device::{DeviceAccess, Identity};

use super::rescue::{self, Wanted};
use super::{AHEAD, PIECE, copy, part, partition, save};
use crate::base::failure::Failure;
use crate::devices::containers::{LoneContainer, OpenContainer};
use crate::devices::world::{self, WorldOptions};
use crate::flags::cli::Cat;

pub(super) fn cat(args: &Cat) -> Result<ExitCode, Failure> {
    let opening = WorldOptions {
        access: DeviceAccess::Read,
        force: args.force,
        tuning: args.tuning.into(),
        ..WorldOptions::LOOK
    };
    world::check_budget(&opening.tuning)?;
    let lone = LoneContainer::open(&args.members, args.container.disks.as_deref(), opening)?;
    let opened = &lone.opened;
    let number = opened.set.find(args.container.volume.as_deref())?;
    let plan = plan(args, opened, number)?;
    let described = plan.description(&opened.set);
    plan.limits
        .iter()
        .for_each(|limit| world::note(format!("volume '{}': {limit}", plan.name.escape_debug())));
    let (io, array) = (&lone.world.io, lone.start(&plan));
    let pool = io.pool(PIECE * (AHEAD as usize + 1));
    let all = match args.partition {
        None => 0..plan.size,
        Some(number) => partition(io, &array, &pool, number)?,
    };
    let range = part(args, all, if args.partition.is_some() { "partition" } else { "volume" })?;
    let Some(to) = &args.output else {
        io.block_on(copy(io, &array, &pool, range))?;
        return Ok(ExitCode::SUCCESS);
    };
    let members: Vec<Identity> = lone.world.known().iter().map(|(identity, _)| identity.of_whole()).collect();
    let lacks = plan.is_partial.then(|| described.facts.chunk.unwrap_or(0));
    let hopeless = if lacks.is_some() { u64::MAX } else { rescue::HOPELESS };
    let (array, of, map) = (&array, rescue::of(&described, range), args.map.as_deref());
    let (overwrite, notes) = (args.overwrite, world::notes());
    save(io, &pool, &Wanted { array, of, hopeless, lacks, to, map, overwrite, members: &members, notes })
}

/// The volume; a part of it where that is wanted and it can't be had whole.
fn plan(args: &Cat, opened: &OpenContainer, number: usize) -> Result<VolumePlan, Failure> {
    let options = ContainerOptions { force: args.force, partial: false };
    match opened.plan(number, options) {
        Err(why) if why.too_few() && (args.partial || args.force && args.output.is_some()) => {
            opened.plan(number, ContainerOptions { partial: true, ..options })
        }
        planned => planned,
    }
}
