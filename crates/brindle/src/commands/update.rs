//! `brindle update`: changes superblocks of an array that is not in use, as `mdadm --assemble --update` does.

use brindle_format::md::{Superblock, display_uuid, split_name};
use brindle_io::device::DeviceAccess;
use brindle_md::update::{Updatable, Update, bitmap_place, update as plan};
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::random::random_uuid;
use crate::base::{look, report, runtime};
use crate::devices::world::{TO_CHANGE, World, WorldOptions, seconds_since_1970};
use crate::flags::cli::{Change, UpdateFlags};

/// Bytes of a bitmap that are read: its superblock is in them.
const PAGE: usize = 4096;

/// The output of `brindle update --json`.
#[derive(Debug, Serialize)]
struct Report {
    update: String,
    dry_run: bool,
    /// The array after the change.
    uuid: String,
    name: String,
    metadata: String,
    devices: Vec<Changed>,
}

/// A device, and the fields of its superblock that change.
#[derive(Debug, Serialize)]
struct Changed {
    path: String,
    fields: Vec<Field>,
}

#[derive(Debug, Serialize)]
struct Field {
    field: &'static str,
    before: Option<String>,
    after: Option<String>,
}

/// `brindle update`.
pub(crate) fn update(args: &UpdateFlags) -> Result<(), Failure> {
    if let Some(why) = args.update.refusal() {
        return Err(Failure::Usage(format!("--update={} is mdadm's alone: {why}", args.update.name())));
    }
    refuse_flags(args)?;
    let access = if args.dry_run { DeviceAccess::Examine } else { DeviceAccess::Write };
    let mut world = World::new(WorldOptions { access, tuning: TO_CHANGE, ..WorldOptions::LOOK })?;
    let members = world.open_each(&args.members)?.members;
    let mut devices = Vec::with_capacity(members.len());
    for member in &members {
        let candidate =
            look::candidate(&member.label, member.info, |at, len| world.read_at(member, at, len))?;
        let inside = bitmap_place(&candidate).filter(|at| at.saturating_add(PAGE as u64) <= member.info.size);
        let bitmap = inside.map(|at| world.read_at(member, at, PAGE)).transpose()?;
        devices.push(Updatable { candidate, bitmap });
    }
    let planned = plan(&devices, &change(args, &devices)?, args.force)?;
    if !args.dry_run {
        for write in &planned.writes {
            let member = &members[write.device];
            world.put(member.id, &member.label, write.offset, &write.bytes)?;
        }
    }
    let before = devices.iter().map(|device| device.candidate.superblock().ok().map(|(own, _)| own));
    let changed = before.zip(&planned.superblocks).zip(&members).map(|((before, after), member)| Changed {
        path: member.label.clone(),
        fields: before.map_or_else(Vec::new, |before| fields(before, after)),
    });
    let devices = changed.collect();
    let Some(now) = planned.superblocks.first() else { return Ok(()) };
    let report = Report {
        update: args.update.name(),
        dry_run: args.dry_run,
        uuid: display_uuid(now.set_uuid).to_string(),
        name: now.name.clone(),
        metadata: now.version.to_string(),
        devices,
    };
    if args.json { report::print_json(&report) } else { report::tell(&report.text()) }
}

/// Flags that say nothing about the change that is asked for.
fn refuse_flags(args: &UpdateFlags) -> Result<(), Failure> {
    let what = args.update;
    let wrong = |flag: &str, of: &str| {
        Err(Failure::Usage(format!("{flag} is for --update={of}, not for --update={}", what.name())))
    };
    match () {
        () if args.name.is_none() && what == Change::Name => {
            Err(Failure::Usage("--update=name needs the new name: --name NAME".to_owned()))
        }
        () if args.name.is_some() && !matches!(what, Change::Name | Change::Metadata) => {
            wrong("--name", "name and metadata")
        }
        () if args.homehost.is_some() && !matches!(what, Change::Name | Change::Homehost) => {
            wrong("--homehost", "name and homehost")
        }
        () if args.uuid.is_some() && what != Change::Uuid => wrong("--uuid", "uuid"),
        () => Ok(()),
    }
}

/// The name of this host, as far as there is room for it before the array's own.
fn this_host(devices: &[Updatable]) -> String {
    let own =
        devices.iter().find_map(|device| Some(split_name(&device.candidate.superblock().ok()?.0.name).1));
    let fits = runtime::host_before(own.unwrap_or_default());
    fits.or_else(|| runtime::host_names().into_iter().next()).unwrap_or_default()
}

/// The change as data.
fn change(args: &UpdateFlags, devices: &[Updatable]) -> Result<Update, Failure> {
    Ok(match args.update {
        Change::Name => {
            Update::Name { name: args.name.clone().unwrap_or_default(), homehost: args.homehost.clone() }
        }
        Change::Homehost => Update::Homehost(args.homehost.clone().unwrap_or_else(|| this_host(devices))),
        Change::Uuid => Update::Uuid(args.uuid.map_or_else(random_uuid, Ok)?),
        Change::Resync => Update::Resync,
        Change::Devicesize => Update::Devicesize,
        Change::Bbl => Update::Bbl,
        Change::NoBbl => Update::NoBbl,
        _ => Update::Metadata {
            name: args.name.clone().unwrap_or_default(),
            created: seconds_since_1970(),
            devices: (0..devices.len()).map(|_| random_uuid()).collect::<Result<_, _>>()?,
        },
    })
}

/// The fields in which two superblocks of a device differ.
fn fields(before: &Superblock, after: &Superblock) -> Vec<Field> {
    let facts = |own: &Superblock| {
        let resync = own.resync_offset.map(|offset| offset.to_string());
        let log = own.bad_block_log.map(|log| own.super_offset.saturating_add_signed(log.offset).to_string());
        [
            ("metadata", Some(own.version.to_string())),
            ("uuid", Some(display_uuid(own.set_uuid).to_string())),
            ("name", Some(own.name.clone())),
            ("data_size", Some(own.data_size.to_string())),
            ("resync_offset", resync),
            ("bad_block_log", log),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    let differ = pairs.filter(|((_, before), (_, after))| before != after);
    differ.map(|((field, before), (_, after))| Field { field, before, after }).collect()
}

impl Report {
    fn text(&self) -> String {
        let changes = if self.dry_run { "would become" } else { "is now" };
        let mut text = String::new();
        for device in &self.devices {
            if device.fields.is_empty() {
                text.push_str(&format!("{}: is so already\n", device.path));
            }
            for Field { field, before, after } in &device.fields {
                let shown = |value: &Option<String>| match value.as_deref() {
                    None => "none".to_owned(),
                    Some(value) => format!("'{}'", value.escape_debug()),
                };
                let field = field.replace('_', " ");
                text.push_str(&format!(
                    "{}: {field} {changes} {}, and was {}\n",
                    device.path,
                    shown(after),
                    shown(before)
                ));
            }
        }
        text
    }
}
