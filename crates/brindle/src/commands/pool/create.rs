//! `brindle pool create`: zpool's grammar of vdevs.

use std::path::PathBuf;

use brindle_format::pool::{Label, VdevKind};
use brindle_host::control::NewVdev;
use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use brindle_pool::{How, PoolConfig, PoolSpec, VdevSpec, capacity, check_name, plan};
use serde_json::json;

use super::disks;
use super::erase::erase;
use crate::base::failure::Failure;
use crate::base::host::this_host;
use crate::base::random::random_uuid;
use crate::base::report;
use crate::base::units::Bytes;
use crate::commands::create::refuse_occupied;
use crate::devices::pools::note;
use crate::devices::world::{Named, TO_CHANGE, World, WorldOptions, seconds_since_1970};
use crate::flags::cli::PoolCreate;

/// Devices of a vdev beyond which it is told that these are many.
const WIDE: usize = 24;

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

/// Kinds of vdevs that are taken beside those with redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redundancy {
    /// Devices that stand for themselves, if so.
    Alone(bool),
    /// The same, and spares.
    Spares(bool),
}

/// The vdevs of a command line, each with its devices.
pub(super) fn words_of(words: &[String], taken: Redundancy) -> Result<Vec<(NewVdev, Vec<PathBuf>)>, Failure> {
    let mut vdevs: Vec<(NewVdev, Vec<PathBuf>)> = Vec::new();
    let mut open = false;
    let (Redundancy::Alone(alone) | Redundancy::Spares(alone)) = taken;
    for word in words {
        let kind = match word.as_str() {
            "raidz" | "raidz1" => NewVdev::Raidz1,
            "raidz2" => NewVdev::Raidz2,
            "raidz3" => NewVdev::Raidz3,
            "mirror" => NewVdev::Mirror,
            "spare" if matches!(taken, Redundancy::Spares(_)) => NewVdev::Spare,
            "spare" => {
                return Err(Failure::Usage(
                    "a pool gets spares once it is served: `brindle pool add NAME spare DEVICE`; a file of that name is ./spare".to_owned(),
                ));
            }
            "log" | "cache" | "special" | "dedup" | "draid" => {
                return Err(Failure::Usage(format!(
                    "pools have no '{word}' vdevs: give raidz, raidz2, raidz3 or mirror; a file of that name is ./{word}"
                )));
            }
            device => {
                match vdevs.last_mut().filter(|_| open) {
                    Some((_, devices)) => devices.push(device.into()),
                    None if alone => vdevs.push((NewVdev::Plain, vec![device.into()])),
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
        vdevs.push((kind, Vec::new()));
        open = true;
    }
    Ok(vdevs)
}

/// The vdevs of a new pool.
fn vdevs(words: &[String], no_redundancy: bool) -> Result<Vec<Vdev>, Failure> {
    let vdev = |(kind, devices): (NewVdev, Vec<PathBuf>)| match kind {
        NewVdev::Raidz1 => Vdev { kind: VdevKind::Raidz, parity: Some(1), devices },
        NewVdev::Raidz2 => Vdev { kind: VdevKind::Raidz, parity: Some(2), devices },
        NewVdev::Raidz3 => Vdev { kind: VdevKind::Raidz, parity: Some(3), devices },
        NewVdev::Mirror => Vdev { kind: VdevKind::Mirror, parity: None, devices },
        NewVdev::Plain | NewVdev::Spare => Vdev { kind: VdevKind::Plain, parity: Some(0), devices },
    };
    Ok(words_of(words, Redundancy::Alone(no_redundancy))?.into_iter().map(vdev).collect())
}

pub(super) fn create(args: &PoolCreate) -> Result<(), Failure> {
    take_properties(&args.properties, &["ashift", "volblocksize"])?;
    check_name(&args.name)?;
    let vdevs = vdevs(&args.vdevs, args.no_redundancy)?;
    let devices: Vec<PathBuf> = vdevs.iter().flat_map(|vdev| vdev.devices.clone()).collect();
    let access = if args.dry_run { DeviceAccess::Examine } else { DeviceAccess::Write };
    let mut world = World::new(WorldOptions { access, tuning: TO_CHANGE, ..WorldOptions::LOOK })?;
    let set = world.open_each(&devices)?;
    if !args.force {
        refuse_unlike(&vdevs)?;
    }
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
        world.io.block_on(brindle_pool::create_of(&world.io, &label, opening, &ids, this_host()))?;
    }
    let disks: Vec<&Named> =
        set.members.iter().filter(|member| !args.whole && disks::is_disk(member)).collect();
    if !args.dry_run {
        for disk in &disks {
            disks::write_table(&world, disk)?;
        }
        world.io.block_on(begin_history(&world, &set.members))?;
    }
    let sizes: Vec<u64> = set.members.iter().map(|member| member.info.size).collect();
    tell(args, &label, disks.len(), &notes(&label, &sizes))
}

/// Opens the new pool once: its history begins with this command.
async fn begin_history(world: &World, members: &[Named]) -> Result<(), Failure> {
    let ids: Vec<_> = members.iter().map(|member| member.id).collect();
    let config = Tuning::USUAL.pool(Tuning::share_of_map(0, 1), seconds_since_1970);
    let config = PoolConfig { host: this_host(), ..config };
    let how = How::writing(random_uuid()?.as_u64_pair().0 | 1);
    let (pool, _) = brindle_pool::open(&world.io, &ids, how, None, config).await?;
    note(&pool);
    pool.stop().await.map_err(|source| Failure::Volume { doing: "stopping the pool", source })
}

/// Vdevs that bear the loss of unlike numbers of members: the pool bears no more than the least of them does.
fn refuse_unlike(vdevs: &[Vdev]) -> Result<(), Failure> {
    let named: Vec<(String, usize)> = vdevs.iter().map(in_words).collect();
    let Some(((first, most), other)) = named.first().zip(named.iter().find(|(_, most)| *most != named[0].1))
    else {
        return Ok(());
    };
    let least = other.1.min(*most);
    Err(Failure::Usage(format!(
        "the vdevs have unlike redundancy, {first} and {}: volumes are striped over all of them, and the loss of {} members of the wrong vdev \
         would take all with it; give vdevs of one kind, or --force",
        other.0,
        least + 1
    )))
}

/// A vdev's kind in zpool's words, and the members that it may lose.
fn in_words(vdev: &Vdev) -> (String, usize) {
    match (vdev.kind, vdev.parity) {
        (VdevKind::Raidz, parity) => {
            let parity = parity.unwrap_or(1);
            (format!("raidz{parity}"), usize::from(parity))
        }
        (VdevKind::Mirror, _) => {
            let count = vdev.devices.len();
            (format!("a mirror of {count}"), count.saturating_sub(1))
        }
        (VdevKind::Plain, _) => ("a device that stands for itself".to_owned(), 0),
    }
}

/// Wastes and risks of a pool that can be, in words.
fn notes(label: &Label, sizes: &[u64]) -> Vec<String> {
    let (mut notes, mut left) = (Vec::new(), sizes);
    for (n, vdev) in label.vdevs.iter().enumerate() {
        let sizes;
        (sizes, left) = left.split_at_checked(vdev.members.into()).unwrap_or((left, &[]));
        let (least, most) =
            (sizes.iter().min().copied().unwrap_or(0), sizes.iter().max().copied().unwrap_or(0));
        let unused: u64 = sizes.iter().map(|size| size - least).sum();
        if unused > least / 100 {
            notes.push(format!(
                "the devices of vdev {n} have {} to {}: each counts as the smallest, and {} of them stay unused",
                Bytes(least),
                Bytes(most),
                Bytes(unused)
            ));
        }
        if usize::from(vdev.members) > WIDE {
            notes.push(format!(
                "vdev {n} has {} devices: one that is wider than {WIDE} is rebuilt from so many that another may well fail meanwhile, and its \
                 smallest write is a whole stripe of them; several vdevs of fewer devices are better",
                vdev.members
            ));
        }
    }
    notes
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

fn tell(args: &PoolCreate, label: &Label, tables: usize, notes: &[String]) -> Result<(), Failure> {
    let capacity = capacity(label);
    if args.json {
        return report::print_json(&json!({
            "name": label.name,
            "uuid": label.pool.to_string(),
            "members": label.members.len(),
            "capacity": capacity,
            "partition_tables": tables,
            "created": !args.dry_run,
            "notes": notes,
        }));
    }
    notes.iter().for_each(|note| eprintln!("brindle: {note}"));
    let done = if args.dry_run { "would be created" } else { "created" };
    report::print(&format!(
        "pool {} of {} devices {done}: volumes may have {} in all\n",
        label.name,
        label.members.len(),
        Bytes(capacity)
    ))
}
