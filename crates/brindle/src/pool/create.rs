//! `brindle pool create`: zpool's grammar of vdevs.

use std::path::PathBuf;

use brindle_format::pool::{Label, VdevKind};
use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use brindle_pool::{PoolSpec, VdevSpec, capacity, check_name, plan};
use serde_json::json;

use super::disks;
use super::erase::erase;
use crate::cli::PoolCreate;
use crate::create::refuse_occupied;
use crate::failure::Failure;
use crate::random::random_uuid;
use crate::report;
use crate::units::Bytes;
use crate::world::{Named, Opening, World, seconds_since_1970};

/// A vdev in words.
struct Vdev {
    kind: VdevKind,
    parity: Option<u8>,
    devices: Vec<PathBuf>,
}

/// Takes zpool's properties that are not needed here, and reports that; refuses all else.
pub(super) fn take_properties(given: &[String], known: &[&str]) -> Result<(), Failure> {
    for property in given {
        let name = property.split_once('=').map_or(property.as_str(), |(name, _)| name);
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(Failure::Usage(format!(
                "-o {property}: there is no such property: {known} are taken"
            )));
        }
        eprintln!(
            "brindle: {name} is not needed: all is written in blocks of 4 KiB, each whole on one member"
        );
    }
    Ok(())
}

/// The vdevs of the command line.
fn vdevs(words: &[String], no_redundancy: bool) -> Result<Vec<Vdev>, Failure> {
    let mut vdevs: Vec<Vdev> = Vec::new();
    let mut open = false;
    for word in words {
        let (kind, parity) = match word.as_str() {
            "raidz" | "raidz1" => (VdevKind::Raidz, Some(1)),
            "raidz2" => (VdevKind::Raidz, Some(2)),
            "raidz3" => (VdevKind::Raidz, Some(3)),
            "mirror" => (VdevKind::Mirror, None),
            "spare" | "log" | "cache" | "special" | "dedup" | "draid" => {
                return Err(Failure::Usage(format!(
                    "pools have no '{word}' vdevs: give raidz, raidz2, raidz3 or mirror; a file of that name is ./{word}"
                )));
            }
            device => {
                match vdevs.last_mut().filter(|_| open) {
                    Some(vdev) => vdev.devices.push(device.into()),
                    None if no_redundancy => {
                        vdevs.push(Vdev {
                            kind: VdevKind::Plain,
                            parity: Some(0),
                            devices: vec![device.into()],
                        });
                    }
                    None => {
                        return Err(Failure::Usage(format!(
                            "{device} stands for itself, and would take the pool with it when it is lost: give raidz, raidz2, raidz3 or \
                             mirror before it, or --no-redundancy"
                        )));
                    }
                }
                continue;
            }
        };
        vdevs.push(Vdev { kind, parity, devices: Vec::new() });
        open = true;
    }
    Ok(vdevs)
}

pub(super) fn create(args: &PoolCreate) -> Result<(), Failure> {
    take_properties(&args.properties, &["ashift", "volblocksize"])?;
    check_name(&args.name)?;
    let vdevs = vdevs(&args.vdevs, args.no_redundancy)?;
    let devices: Vec<PathBuf> = vdevs.iter().flat_map(|vdev| vdev.devices.clone()).collect();
    let access = if args.dry_run { DeviceAccess::Examine } else { DeviceAccess::Write };
    let mut world = World::new(Opening { access, tuning: Tuning::USUAL, ..Opening::LOOK })?;
    let set = world.open_each(&devices)?;
    let label = plan(&spec(args, &vdevs, &set.members)?)?;
    if !args.force {
        refuse_occupied(&world, &set.members)?;
    }
    if !args.dry_run {
        for member in &set.members {
            erase(&world, member)?;
        }
        let ids: Vec<_> = set.members.iter().map(|member| member.id).collect();
        let opening = random_uuid()?.as_u64_pair().0 | 1;
        world.io.block_on(brindle_pool::create(&world.io, &label, opening, &ids))?;
    }
    let disks: Vec<&Named> =
        set.members.iter().filter(|member| !args.whole && disks::is_disk(member)).collect();
    if !args.dry_run {
        for disk in &disks {
            disks::write_table(&world, disk)?;
        }
    }
    tell(args, &label, disks.len())
}

fn spec(args: &PoolCreate, vdevs: &[Vdev], members: &[Named]) -> Result<PoolSpec, Failure> {
    let mut sizes = members.iter().map(|member| member.info.size);
    let vdev = |vdev: &Vdev| {
        let sizes: Vec<u64> = sizes.by_ref().take(vdev.devices.len()).collect();
        // A mirror does without all of its members but one.
        let parity = vdev.parity.unwrap_or_else(|| sizes.len().saturating_sub(1).clamp(1, 3) as u8);
        VdevSpec { kind: vdev.kind, parity, sizes }
    };
    Ok(PoolSpec {
        name: args.name.clone(),
        id: random_uuid()?,
        vdevs: vdevs.iter().map(vdev).collect(),
        members: members.iter().map(|_| random_uuid()).collect::<Result<_, _>>()?,
        opening: random_uuid()?.as_u64_pair().0 | 1,
        created: seconds_since_1970(),
        unit: None,
    })
}

fn tell(args: &PoolCreate, label: &Label, tables: usize) -> Result<(), Failure> {
    let capacity = capacity(label);
    if args.json {
        return report::print_json(&json!({
            "name": label.name,
            "uuid": label.pool.to_string(),
            "members": label.members.len(),
            "capacity": capacity,
            "partition_tables": tables,
            "created": !args.dry_run,
        }));
    }
    let done = if args.dry_run { "would be created" } else { "created" };
    report::print(&format!(
        "pool {} of {} devices {done}: volumes may have {} in all\npools are experimental: keep a copy of what is in them\n",
        label.name,
        label.members.len(),
        Bytes(capacity)
    ))
}
