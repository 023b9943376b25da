//! `brindle zero-superblock`: makes members of arrays plain devices again.

use brindle_format::md::{DeviceRole, Superblock, display_uuid};
use brindle_io::device::DeviceAccess;
use brindle_layout::Level;
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::look;
use crate::base::report;
use crate::base::units::Moment;
use crate::devices::world::{Named, TO_CHANGE, World, WorldOptions};
use crate::flags::cli::ZeroSuperblock;

/// Bytes of a superblock with the table of roles behind it, at most: mdadm erases as much.
const BYTES: u64 = 4096;

/// The output of `brindle zero-superblock --json`.
#[derive(Debug, Serialize)]
struct Report {
    erased: Vec<Erased>,
    dry_run: bool,
}

/// A superblock.
#[derive(Debug, Serialize)]
struct Erased {
    path: String,
    offset: u64,
    metadata: Option<String>,
    array_uuid: Option<String>,
    name: Option<String>,
    level: Option<String>,
    role: Option<u16>,
    #[serde(skip)]
    updated: u64,
}

/// `brindle zero-superblock`.
pub(crate) fn zero_superblock(args: &ZeroSuperblock) -> Result<(), Failure> {
    let access = if args.dry_run { DeviceAccess::Examine } else { DeviceAccess::Write };
    let mut world = World::new(WorldOptions { access, tuning: TO_CHANGE, ..WorldOptions::LOOK })?;
    let members = world.open_each(&args.devices)?.members;
    let found = members.iter().map(|member| superblocks(&world, member, args.force));
    let found = found.collect::<Result<Vec<_>, _>>()?;
    if !args.dry_run {
        for (member, found) in members.iter().zip(&found) {
            // From the end: if the power goes in between, the device is still the member that it was, or none.
            for one in found.iter().rev() {
                world.zero(member, one.offset, (one.offset + BYTES).min(member.info.size))?;
            }
        }
    }
    let report = Report { erased: found.into_iter().flatten().collect(), dry_run: args.dry_run };
    if args.json {
        return report::print_json(&report);
    }
    report::tell(&report.text())
}

/// The superblocks of a device, from its start.
fn superblocks(world: &World, member: &Named, force: bool) -> Result<Vec<Erased>, Failure> {
    let label = &member.label;
    let candidate = look::candidate(label, member.info, |offset, len| world.read_at(member, offset, len))?;
    if candidate.found.is_empty() {
        return Err(Failure::Refused(format!(
            "{label}: there is no md superblock: `brindle examine {label}` tells what is there; nothing was changed"
        )));
    }
    let mut all = Vec::new();
    for found in &candidate.found {
        all.push(match &found.superblock {
            Ok(superblock) => Erased::of(label, found.offset, superblock),
            Err(_) if force => Erased::unknown(label, found.offset),
            Err(why) => {
                return Err(Failure::Refused(format!(
                    "{label}: {why}; --force erases it all the same; nothing was changed"
                )));
            }
        });
    }
    all.sort_by_key(|one| one.offset);
    Ok(all)
}

impl Erased {
    fn unknown(path: &str, offset: u64) -> Self {
        Self {
            path: path.to_owned(),
            offset,
            metadata: None,
            array_uuid: None,
            name: None,
            level: None,
            role: None,
            updated: 0,
        }
    }

    fn of(path: &str, offset: u64, superblock: &Superblock) -> Self {
        let level = Level::from_md(superblock.level).ok();
        let role = match superblock.role() {
            DeviceRole::Active(role) => Some(role),
            _ => None,
        };
        Self {
            metadata: Some(superblock.version.to_string()),
            array_uuid: Some(display_uuid(superblock.set_uuid).to_string()),
            name: Some(superblock.name.clone()),
            level: level.map(|level| level.name().to_owned()),
            role,
            updated: superblock.updated.seconds,
            ..Self::unknown(path, offset)
        }
    }

    fn text(&self, done: &str) -> String {
        let Some(uuid) = &self.array_uuid else {
            return format!("{}: a damaged superblock at byte {} {done}\n", self.path, self.offset);
        };
        let use_of =
            self.role.map_or_else(|| "a spare or former member".to_owned(), |role| format!("member {role}"));
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        let name = name.map_or_else(String::new, |name| format!(" '{}'", name.escape_debug()));
        format!(
            "{}: {done}, {use_of} of the {} array{name}, UUID {uuid}, last changed {}\n",
            self.path,
            self.level.as_deref().unwrap_or("unknown"),
            Moment(self.updated)
        )
    }
}

impl Report {
    fn text(&self) -> String {
        let done = if self.dry_run { "would be erased" } else { "is erased" };
        self.erased.iter().map(|one| one.text(done)).collect()
    }
}
