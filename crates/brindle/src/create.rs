//! `brindle create`: makes an array, with its redundancy true when the command ends.

use std::path::{Path, PathBuf};

use brindle_array::assembly::{AssembleOptions, Assembly, Candidate, assemble};
use brindle_array::create::{CreateSpec, NewMember, Plan, plan};
use brindle_array::{Access as ArrayAccess, Array, OpenConfig};
use brindle_format::md::{Endian, Uuid, Version};
use brindle_io::device::{Access, Device};
use brindle_io::{Io, MemberId, OpError, PAGE};
use brindle_layout::{Layout, Level};

use rustix::io::Errno;

use crate::cli::{Create, Metadata};
use crate::failure::Failure;
use crate::members::{self, Member};
use crate::report::{self, ArrayReport};
use crate::world::{self, World};
use crate::{progress, units::Bytes};

/// Stands for a role without a member.
const MISSING: &str = "missing";

pub(crate) fn create(args: &Create) -> Result<(), Failure> {
    let level: Level = args.level.parse().map_err(|error| Failure::Usage(format!("--level: {error}")))?;
    let layout = match &args.layout {
        Some(text) => {
            Some(Layout::parse(level, text).map_err(|error| Failure::Usage(format!("--layout: {error}")))?)
        }
        None => None,
    };
    let (role_names, spare_names) = split(args)?;
    let members = members::open_all(&devices(&args.members), Access::Write)?;
    refuse_occupied(&members, args.force)?;
    let known_zero = members.iter().all(|member| is_zero(&member.device));
    let spec = CreateSpec {
        version: version(args.metadata),
        level,
        layout,
        chunk: args.chunk.map(|chunk| chunk.0),
        size: args.size.map(|size| size.0),
        data_offset: args.data_offset.map(|offset| offset.0),
        assume_clean: args.assume_clean || known_zero,
        uuid: random_uuid()?,
        now: world::seconds_since_1970(),
        ..naming(args, roles(role_names, &members)?, spares(spare_names, &members)?)
    };
    let plan = plan(&spec)?;
    reserve(&plan, &members)?;
    let (report, size) = carry_out(&plan, members)?;
    if args.json {
        return report::print_json(&report);
    }
    let resync = if plan.needs_resync { ", redundancy made true" } else { "" };
    report::print(&format!("{} of {size} created{resync}\n\n{}", level.name(), report.text()))
}

fn version(metadata: Metadata) -> Version {
    match metadata {
        Metadata::V0_90 => Version::V0_90(Endian::Little),
        Metadata::V1_0 => Version::V1_0,
        Metadata::V1_1 => Version::V1_1,
        Metadata::V1_2 => Version::V1_2,
    }
}

/// The named members that fill roles, and those that become spares.
fn split(args: &Create) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    let spares = usize::from(args.spares);
    let Some(active) = args.members.len().checked_sub(spares).filter(|&active| active > 0) else {
        return Err(Failure::Usage(format!(
            "--spares {spares} leaves no member: {} are named in all",
            args.members.len()
        )));
    };
    if let Some(wanted) = args.raid_devices.filter(|&wanted| usize::from(wanted) != active) {
        return Err(Failure::Usage(format!(
            "--raid-devices {wanted}, but {active} members are named besides {spares} spares"
        )));
    }
    Ok(args.members.split_at(active))
}

fn devices(names: &[PathBuf]) -> Vec<PathBuf> {
    names.iter().filter(|name| !is_missing(name)).cloned().collect()
}

fn is_missing(name: &Path) -> bool {
    name.as_os_str() == MISSING
}

fn roles(names: &[PathBuf], members: &[Member]) -> Result<Vec<Option<NewMember>>, Failure> {
    let mut given = members.iter();
    names
        .iter()
        .map(|name| if is_missing(name) { Ok(None) } else { given.next().map(new_member).transpose() })
        .collect()
}

fn spares(names: &[PathBuf], members: &[Member]) -> Result<Vec<NewMember>, Failure> {
    if names.iter().any(|name| is_missing(name)) {
        return Err(Failure::Usage(
            "a spare can't be 'missing': name it before the spares, or leave it out".into(),
        ));
    }
    members[members.len() - names.len()..].iter().map(new_member).collect()
}

fn new_member(member: &Member) -> Result<NewMember, Failure> {
    Ok(NewMember {
        label: member.device.path().display().to_string(),
        info: member.device.info(),
        uuid: random_uuid()?,
        old_superblocks: member.candidate.found.iter().map(|found| found.offset).collect(),
    })
}

/// A specification with name, host and members; the rest is filled in by the caller.
fn naming(args: &Create, roles: Vec<Option<NewMember>>, spares: Vec<NewMember>) -> CreateSpec {
    let given = args.name.clone().unwrap_or_default();
    let (homehost, name) = match given.split_once(':') {
        Some((host, name)) => (Some(host.to_owned()), name.to_owned()),
        None => (hostname(), given),
    };
    CreateSpec {
        version: Version::V1_2,
        level: Level::Linear,
        layout: None,
        chunk: None,
        size: None,
        data_offset: None,
        name,
        homehost,
        roles,
        spares,
        assume_clean: false,
        uuid: Uuid::nil(),
        now: 0,
    }
}

fn hostname() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    // mdadm records the name up to the first dot.
    let short = name.split('.').next().unwrap_or_default();
    (!short.is_empty()).then(|| short.to_owned())
}

fn random_uuid() -> Result<Uuid, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::output("a random UUID", std::io::Error::other(error)))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

fn refuse_occupied(members: &[Member], force: bool) -> Result<(), Failure> {
    if force {
        return Ok(());
    }
    for member in members {
        if let Some(found) = members::signatures(&member.device)?.first() {
            let path = member.device.path().display().to_string();
            return Err(Failure::Occupied { path, what: found.to_string() });
        }
    }
    Ok(())
}

/// Whether the device is known to read as zeroes, so that every kind of redundancy is true on it.
fn is_zero(device: &Device) -> bool {
    device.is_hole(0, device.info().size).unwrap_or(false)
}

/// Makes sure that the metadata of members which are files will find room, before anything is changed.
fn reserve(plan: &Plan, members: &[Member]) -> Result<(), Failure> {
    for write in plan.superblocks.iter().chain(&plan.wipes) {
        let device = &members[write.device].device;
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        let made = rustix::fs::fallocate(device, flags, write.offset, write.bytes.len() as u64);
        // Any other refusal says nothing: block devices and some file systems can't reserve, and need not.
        if let Err(errno @ (Errno::NOSPC | Errno::DQUOT)) = made {
            return Err(Failure::output(device.path().display(), errno.into()));
        }
    }
    Ok(())
}

fn carry_out(plan: &Plan, members: Vec<Member>) -> Result<(ArrayReport, Bytes), Failure> {
    let paths: Vec<PathBuf> = members.iter().map(|member| member.device.path().to_owned()).collect();
    let world = World::new()?;
    let ids = world.adopt(members);
    let pool = world.io.pool(16 * PAGE);
    let written = world.io.block_on(plan.write(&world.io, &pool, &ids));
    written.map_err(|failed| write_failed(&paths[failed.device], failed.error))?;
    let mut assembly = world.io.block_on(reassemble(&world.io, &ids, &paths))?;
    if plan.needs_resync {
        resync(&world, assembly, &ids)?;
        assembly = world.io.block_on(reassemble(&world.io, &ids, &paths))?;
    }
    Ok((ArrayReport::of(&assembly), Bytes(plan.geometry.size())))
}

fn write_failed(path: &Path, error: OpError) -> Failure {
    Failure::output(path.display(), std::io::Error::other(error))
}

async fn reassemble(io: &Io, ids: &[MemberId], paths: &[PathBuf]) -> Result<Assembly, Failure> {
    let pool = io.pool(16 * PAGE);
    let mut candidates = Vec::new();
    for (&id, path) in ids.iter().zip(paths) {
        let candidate = Candidate::read(io, &pool, id, path.display().to_string()).await;
        candidates.push(candidate.map_err(|error| write_failed(path, error))?);
    }
    Ok(assemble(&candidates, AssembleOptions::default())?)
}

fn resync(world: &World, assembly: Assembly, ids: &[MemberId]) -> Result<(), Failure> {
    let config = OpenConfig::new(ArrayAccess::ReadWrite, world::seconds_since_1970);
    world.io.block_on(async {
        let array = Array::open(&world.io, assembly, ids, config).await?;
        let bar = progress::bar("syncing", array.sync_len());
        let synced = array.resync(|progress| bar.set_position(progress.position)).await;
        bar.finish_and_clear();
        let failed = |source| Failure::Volume { doing: "making the redundancy true", source };
        synced.map_err(failed)?;
        array.stop().await.map_err(failed)
    })
}
