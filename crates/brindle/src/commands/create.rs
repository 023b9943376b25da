//! `brindle create`: makes an array, with its redundancy true when the command ends.

mod kernel;

use std::path::{Path, PathBuf};

use brindle_array::OnFull;
use brindle_array::{Array, DeviceState};
use brindle_format::md::{DeviceFlags, Endian, Uuid, Version};
use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use brindle_layout::{Layout, Level};
use brindle_md::create::{CreateSpec, NewBitmap, NewMember, Plan, plan};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::base::failure::Failure;
use crate::base::random::random_uuid;
use crate::base::report::{self, ArrayReport};
use crate::base::{look, runtime};
use crate::base::{progress, units::Bytes};
use crate::devices::host::{AssembledArray, Hosted};
use crate::devices::world::{self, MadeBitmap, Make, Named, Set, TO_CHANGE, World, WorldOptions, see_bitmap};
use crate::flags::cli::{Bitmap, Create, Metadata};

/// Stands for a role without a member.
const MISSING: &str = "missing";

pub(crate) fn create(args: &Create) -> Result<(), Failure> {
    kernel::refuse_kernels(args)?;
    let Made { report, plan, waste } = make(args, random_uuid()?)?;
    waste.into_iter().for_each(|waste| eprintln!("brindle: {waste}"));
    if args.json {
        return report::print_json(&report);
    }
    let resync = if plan.needs_resync { ", redundancy written" } else { "" };
    let size = Bytes(plan.geometry.size());
    report::print(&format!("{} of {size} created{resync}\n\n{}", plan.geometry.level().name(), report.text()))
}

/// An array that was made.
pub(crate) struct Made {
    pub(crate) report: ArrayReport,
    plan: Plan,
    /// The unused part of its members, if that is much.
    waste: Option<String>,
}

/// Makes the array, with this UUID, without a report.
pub(crate) fn make(args: &Create, uuid: Uuid) -> Result<Made, Failure> {
    let level: Level = args.level.parse().map_err(|error| Failure::Usage(format!("--level: {error}")))?;
    let layout = match &args.layout {
        Some(text) => {
            Some(Layout::parse(level, text).map_err(|error| Failure::Usage(format!("--layout: {error}")))?)
        }
        None => None,
    };
    let (role_names, spare_names) = split(args)?;
    // An array that can't be brought in sync as it is made is none.
    let opening = WorldOptions {
        access: DeviceAccess::Write,
        force: false,
        tuning: Tuning { on_full: OnFull::Fail, ..TO_CHANGE },
        ..WorldOptions::LOOK
    };
    let mut world = World::new(opening)?;
    let set = world.open_each(&devices(&args.members))?;
    let members = &set.members;
    if !args.force {
        refuse_occupied(&world, members)?;
    }
    let spec = CreateSpec {
        version: version(args.metadata),
        level,
        layout,
        chunk: args.chunk.map(|chunk| chunk.0),
        size: args.size.map(|size| size.0),
        data_offset: args.data_offset.map(|offset| offset.0),
        bitmap: bitmap(args),
        write_behind: args.write_behind.unwrap_or(0),
        // Zeroes agree with every kind of redundancy.
        assume_clean: args.assume_clean || members.iter().all(|member| member.is_zero),
        uuid,
        now: world::seconds_since_1970(),
        ..naming(args, roles(role_names, members)?, spares(spare_names, members)?)
    };
    let spec = flagged(args, spec)?;
    let plan = plan(&spec)?;
    reserve(&plan, members, members.len() - spare_names.len())?;
    let file = make_bitmap(&world, args, &plan)?;
    let undo = file.as_ref().map(MadeBitmap::undo);
    let report =
        carry_out(&world, &plan, set, file).inspect_err(|_| undo.into_iter().for_each(|undo| undo()))?;
    Ok(Made { report, plan, waste: waste(&spec) })
}

/// The unused part of a member that is reported: one in this many bytes.
const UNUSED_PART: u64 = 10;

/// The unused part of members that are much larger than the smallest, at levels that use as many bytes of each.
fn waste(spec: &CreateSpec) -> Option<String> {
    if !spec.level.is_redundant() || spec.size.is_some() {
        return None;
    }
    let roles = || spec.roles.iter().flatten();
    let smallest = roles().min_by_key(|member| member.info.size)?;
    let unused = |member: &NewMember| member.info.size - smallest.info.size;
    let reported: Vec<&NewMember> =
        roles().filter(|member| unused(member) > member.info.size / UNUSED_PART).collect();
    if reported.is_empty() {
        return None;
    }
    let each: Vec<String> =
        reported.iter().map(|member| format!("{} of {}", Bytes(unused(member)), member.label)).collect();
    let all = Bytes(reported.iter().map(|member| unused(member)).sum());
    Some(format!(
        "the members are of unlike sizes: {} has only {}, and of no member is more used; {all} are left unused \
         ({}); a larger member in its place would use them, or say --size to do without this message",
        smallest.label,
        Bytes(smallest.info.size),
        each.join(", ")
    ))
}

/// The file that is to have the bitmap, with all of it.
fn make_bitmap(world: &World, args: &Create, plan: &Plan) -> Result<Option<MadeBitmap>, Failure> {
    let (Some(Bitmap::File(path)), Some(content)) = (&args.bitmap, &plan.bitmap_file) else {
        return Ok(None);
    };
    let known = world.known().into_iter();
    let known =
        known.map(|(identity, path)| (identity, format!("a member of the array, {}", path.display())));
    let make =
        Make { path: path.clone(), bytes: content.len() as u64, force: args.force, known: known.collect() };
    make.make(Some(content)).map(Some)
}

fn bitmap(args: &Create) -> NewBitmap {
    match (&args.bitmap, args.bitmap_chunk) {
        (Some(Bitmap::None), _) => NewBitmap::None,
        (Some(Bitmap::File(_)), chunk) => NewBitmap::File { chunk: chunk.map(|chunk| chunk.0) },
        (None, None) => NewBitmap::Usual,
        (Some(Bitmap::Internal), chunk) | (None, chunk) => {
            NewBitmap::Internal { chunk: chunk.map(|chunk| chunk.0) }
        }
    }
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

fn roles(names: &[PathBuf], members: &[Named]) -> Result<Vec<Option<NewMember>>, Failure> {
    let mut given = members.iter();
    names
        .iter()
        .map(|name| if is_missing(name) { Ok(None) } else { given.next().map(new_member).transpose() })
        .collect()
}

fn spares(names: &[PathBuf], members: &[Named]) -> Result<Vec<NewMember>, Failure> {
    if names.iter().any(|name| is_missing(name)) {
        return Err(Failure::Usage(
            "a spare can't be 'missing': name it before the spares, or leave it out".into(),
        ));
    }
    members[members.len() - names.len()..].iter().map(new_member).collect()
}

/// Adds flags to the devices that were given some.
fn flagged(args: &Create, mut spec: CreateSpec) -> Result<CreateSpec, Failure> {
    let mut set = |option: &str, name: &PathBuf, set: fn(&mut DeviceFlags)| {
        let mut all = spec.roles.iter_mut().flatten().chain(&mut spec.spares);
        match all.find(|member| Path::new(&member.label) == name.as_path()) {
            Some(member) => {
                set(&mut member.flags);
                Ok(())
            }
            None => Err(Failure::Usage(format!(
                "--{option} {}: it is not one of the members; name one that is given for the array",
                name.display()
            ))),
        }
    };
    for name in &args.write_mostly {
        set("write-mostly", name, |flags| flags.write_mostly = true)?;
    }
    for name in &args.failfast {
        set("failfast", name, |flags| flags.failfast = true)?;
    }
    Ok(spec)
}

fn new_member(member: &Named) -> Result<NewMember, Failure> {
    Ok(NewMember {
        label: member.label.clone(),
        info: member.info,
        uuid: random_uuid()?,
        old_superblocks: member.candidate.found.iter().map(|found| found.offset).collect(),
        flags: DeviceFlags::default(),
    })
}

/// A specification with name, host and members; the rest is filled in by the caller.
fn naming(args: &Create, roles: Vec<Option<NewMember>>, spares: Vec<NewMember>) -> CreateSpec {
    let given = args.name.clone().unwrap_or_default();
    let (homehost, name) = match given.split_once(':') {
        Some((host, name)) => (Some(host.to_owned()), name.to_owned()),
        None => (runtime::host_before(&given), given),
    };
    CreateSpec {
        version: Version::V1_2,
        level: Level::Linear,
        layout: None,
        chunk: None,
        size: None,
        data_offset: None,
        bitmap: NewBitmap::None,
        write_behind: 0,
        name,
        homehost,
        roles,
        spares,
        assume_clean: false,
        uuid: Uuid::nil(),
        now: 0,
    }
}

/// Refuses members on which something stands.
pub(crate) fn refuse_occupied<'a>(
    world: &World,
    members: impl IntoIterator<Item = &'a Named>,
) -> Result<(), Failure> {
    for member in members {
        let read = |offset, len| world.read_at(member, offset, len);
        let found = look::look(member.info.size, read)?.found;
        if !found.is_empty() {
            let what = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(Failure::Occupied { path: member.label.clone(), what });
        }
    }
    Ok(())
}

/// Makes sure that the file systems of members have space for the writes to come, before anything is changed.
/// `active` members, the first ones, fill roles: a resync writes to any place of them.
fn reserve(plan: &Plan, members: &[Named], active: usize) -> Result<(), Failure> {
    for write in plan.writes() {
        reserve_range(&members[write.device], write.offset, write.bytes.len() as u64)?;
    }
    if plan.needs_resync {
        for member in &members[..active] {
            reserve_range(member, plan.data_offset, plan.geometry.member_size())?;
        }
    }
    Ok(())
}

fn reserve_range(member: &Named, offset: u64, len: u64) -> Result<(), Failure> {
    // An array in place of a member has no file of its name.
    let Ok(file) = std::fs::OpenOptions::new().write(true).open(world::file_of(Path::new(&member.label)))
    else {
        return Ok(());
    };
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, offset, len) {
        Err(Errno::NOSPC | Errno::DQUOT) => {
            Err(Failure::NoSpace { path: member.label.clone(), what: Bytes(len) })
        }
        // Any other refusal says nothing: block devices and some file systems can't reserve, and need not.
        _ => Ok(()),
    }
}

fn carry_out(
    world: &World,
    plan: &Plan,
    mut set: Set,
    file: Option<MadeBitmap>,
) -> Result<ArrayReport, Failure> {
    let ids: Vec<_> = set.members.iter().map(|member| member.id).collect();
    let written = world.io.block_on(plan.write(&world.io, &world.metadata, &ids));
    written.map_err(|failed| {
        Failure::output(&set.members[failed.device].label, std::io::Error::other(failed.error))
    })?;
    look_again(world, &mut set.members)?;
    let mut assembled = world.assemble(&mut set, false)?;
    let path = file.as_ref().map(|file| file.path.clone());
    if let Some(made) = file {
        let seen = see_bitmap(&made.path)?;
        seen.become_that_of(&mut assembled, world.take_bitmap(made)?.id)?;
    }
    let array = world.start(&assembled, &set.members)?;
    if plan.needs_resync {
        let bar = progress::bar("syncing", array.sync_len());
        let synced = world.io.block_on(array.resync(|progress| bar.set_position(progress.position)));
        bar.finish_and_clear();
        synced.map_err(|source| Failure::Process { doing: "writing the redundancy", source })?;
        refuse_failed(&array)?;
        refuse_unreadable(&array)?;
    }
    world
        .io
        .block_on(array.stop())
        .map_err(|source| Failure::Volume { doing: "stopping the array", source })?;
    look_again(world, &mut set.members)?;
    let mut assembled = world.assemble(&mut set, false)?;
    if let Some(path) = path {
        see_bitmap(&path)?.become_that_of(&mut assembled, None)?;
    }
    let report = ArrayReport::of(assembled.description());
    let made = Hosted { name: String::new(), array, found: AssembledArray { assembled, set } };
    world.io.block_on(made.stop())?;
    Ok(report)
}

/// A member that did not survive the resync is no part of an array that was just asked for.
fn refuse_failed(array: &Array) -> Result<(), Failure> {
    match array.detail().devices.into_iter().find(|device| device.state == DeviceState::Failed) {
        Some(device) => Err(Failure::Refused(format!(
            "{}: it failed while the redundancy was written, and the array is degraded; create it anew without it",
            device.label
        ))),
        None => Ok(()),
    }
}

/// The redundancy of an array that was just asked for is in sync everywhere.
fn refuse_unreadable(array: &Array) -> Result<(), Failure> {
    match array.detail().resync_offset {
        Some(offset) => Err(Failure::Refused(format!(
            "a member can't be read at byte {offset} of its data area or after it, where redundancy is to be written; \
             replace it, and create the array anew"
        ))),
        None => Ok(()),
    }
}

/// Reads the superblocks again.
fn look_again(world: &World, members: &mut [Named]) -> Result<(), Failure> {
    for member in members {
        member.candidate = world.look(member.id, &member.label)?;
    }
    Ok(())
}
