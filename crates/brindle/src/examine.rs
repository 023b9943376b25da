//! `brindle examine`: what is on each member, and why a set does not form an array.

use std::path::Path;
use std::process::ExitCode;

use brindle_array::assembly::Candidate;
use brindle_format::md::{DeviceRole, Superblock, display_uuid};
use brindle_io::device::{Access, Device};
use brindle_layout::{Layout, Level};
use serde::Serialize;

use crate::cli::Examine;
use crate::failure::Failure;
use crate::report;
use crate::units::Bytes;
use crate::world;

/// What `brindle examine --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    members: Vec<MemberReport>,
    /// Why the members with md superblocks do not form an array; null if they do, or if there is none.
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
struct MemberReport {
    path: String,
    size: Option<u64>,
    /// Why the device can't be looked at, or its superblock can't be trusted.
    error: Option<String>,
    superblock: Option<SuperblockReport>,
    signatures: Vec<SignatureReport>,
}

#[derive(Debug, Serialize)]
struct SignatureReport {
    kind: String,
    offset: u64,
    label: Option<String>,
    uuid: Option<String>,
}

#[derive(Debug, Serialize)]
struct SuperblockReport {
    metadata: String,
    array_uuid: String,
    device_uuid: Option<String>,
    name: String,
    level: String,
    layout: Option<String>,
    chunk: Option<u64>,
    raid_devices: u32,
    component_size: u64,
    data_offset: u64,
    data_size: u64,
    super_offset: u64,
    created: u64,
    updated: u64,
    events: u64,
    device_number: u32,
    role: String,
    state: &'static str,
    resync_offset: Option<u64>,
    recovery_offset: Option<u64>,
    features: Vec<String>,
    /// The array as this device knows it: A active, . missing or failed, by role.
    array_state: String,
}

pub(crate) fn examine(args: &Examine) -> Result<ExitCode, Failure> {
    let mut reports = Vec::new();
    let mut candidates = Vec::new();
    for path in &args.members {
        match look(path) {
            Ok((report, candidate)) => {
                reports.push(report);
                if !candidate.found.is_empty() {
                    candidates.push(candidate);
                }
            }
            Err(failure) => reports.push(MemberReport::unreadable(path, &failure)),
        }
    }
    let report = Report { problem: problem(&candidates), members: reports };
    let failed = report.members.iter().any(|member| member.error.is_some());
    if args.json {
        report::print_json(&report)?;
    } else {
        report::print(&report.text())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Looks at a device; no ring is needed for that.
fn look(path: &Path) -> Result<(MemberReport, Candidate), Failure> {
    let device = Device::open(path, Access::Examine)?;
    let candidate = world::candidate(&device)?;
    Ok((MemberReport::of(&device, &candidate)?, candidate))
}

fn problem(candidates: &[Candidate]) -> Option<String> {
    if candidates.is_empty() {
        return None;
    }
    let options = brindle_array::assembly::AssembleOptions::default();
    brindle_array::assembly::assemble(candidates, options).err().map(|error| error.to_string())
}

impl MemberReport {
    fn of(device: &Device, candidate: &Candidate) -> Result<Self, Failure> {
        let (superblock, error) = match candidate.superblock() {
            Ok((sb, _)) => (Some(SuperblockReport::of(sb)), None),
            Err(why) => (None, why.map(ToString::to_string)),
        };
        let read = |offset, len| {
            device.read_at(offset, len).map_err(|error| Failure::probe(&candidate.label, error))
        };
        let signatures = world::signatures(device.info().size, read)?;
        Ok(Self {
            path: device.path().display().to_string(),
            size: Some(device.info().size),
            error,
            superblock,
            signatures: signatures
                .into_iter()
                .map(|found| SignatureReport {
                    kind: found.signature.to_string(),
                    offset: found.offset,
                    label: found.label,
                    uuid: found.uuid,
                })
                .collect(),
        })
    }

    fn unreadable(path: &Path, failure: &Failure) -> Self {
        let error = Some(failure.to_string());
        Self { path: path.display().to_string(), size: None, error, superblock: None, signatures: Vec::new() }
    }

    fn text(&self) -> String {
        let mut text = format!("{}:", self.path);
        if let Some(size) = self.size {
            text.push_str(&format!(" {} ({size} bytes)", Bytes(size)));
        }
        text.push('\n');
        if let Some(error) = &self.error {
            text.push_str(&format!("  {error}\n"));
        }
        if let Some(sb) = &self.superblock {
            text.push_str(&sb.text());
        }
        for found in
            self.signatures.iter().filter(|found| self.superblock.is_none() || !found.kind.starts_with("md"))
        {
            let label = found
                .label
                .as_ref()
                .map_or_else(String::new, |label| format!(" \"{}\"", label.escape_debug()));
            text.push_str(&format!("  {}{label} at byte {}\n", found.kind, found.offset));
        }
        if self.error.is_none() && self.superblock.is_none() && self.signatures.is_empty() {
            text.push_str("  nothing that Brindle knows\n");
        }
        text
    }
}

impl SuperblockReport {
    fn of(sb: &Superblock) -> Self {
        let level = Level::from_md(sb.level).ok();
        let layout = level.and_then(|level| Layout::from_md(level, sb.layout).ok());
        Self {
            metadata: sb.version.to_string(),
            array_uuid: display_uuid(sb.set_uuid).to_string(),
            device_uuid: sb.version.is_v1().then(|| display_uuid(sb.device_uuid).to_string()),
            name: sb.name.clone(),
            level: level
                .map_or_else(|| format!("unknown level {}", sb.level), |level| level.name().to_owned()),
            layout: layout.filter(|layout| *layout != Layout::None).map(|layout| layout.name()),
            chunk: (sb.chunk != 0).then_some(sb.chunk),
            raid_devices: sb.raid_disks,
            component_size: sb.component_size,
            data_offset: sb.data_offset,
            data_size: sb.data_size,
            super_offset: sb.super_offset,
            created: sb.created.seconds,
            updated: sb.updated.seconds,
            events: sb.events,
            device_number: sb.device_number,
            role: role(sb.role()),
            state: if sb.is_clean() { "clean" } else { "active" },
            resync_offset: sb.resync_offset,
            recovery_offset: sb.recovery_offset,
            features: sb.features.names().map(str::to_owned).collect(),
            array_state: (0..sb.raid_disks.min(4096) as u16)
                .map(|role| if sb.device_in_role(role).is_some() { 'A' } else { '.' })
                .collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: &str| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Metadata", &self.metadata);
        row("Array UUID", &self.array_uuid);
        row("Name", &report::name_text(&self.name));
        row("Level", &self.level);
        if let Some(layout) = &self.layout {
            row("Layout", layout);
        }
        if let Some(chunk) = self.chunk {
            row("Chunk", &Bytes(chunk).to_string());
        }
        row("Raid devices", &self.raid_devices.to_string());
        row("Data offset", &format!("{} sectors", self.data_offset / 512));
        row("Data size", &format!("{} sectors", self.data_size / 512));
        if self.component_size > 0 {
            row("Used of each", &format!("{} sectors", self.component_size / 512));
        }
        row("State", self.state);
        if let Some(uuid) = &self.device_uuid {
            row("Device UUID", uuid);
        }
        if !self.features.is_empty() {
            row("Features", &self.features.join(", "));
        }
        row("Events", &self.events.to_string());
        row("Device role", &self.role);
        row("Array state", &format!("{} ('A' active, '.' missing or failed)", self.array_state));
        text
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text: String = self.members.iter().map(MemberReport::text).collect::<Vec<_>>().join("\n");
        if let Some(problem) = &self.problem {
            text.push_str(&format!("\nThese do not form an array: {problem}\n"));
        }
        text
    }
}

fn role(role: DeviceRole) -> String {
    match role {
        DeviceRole::Active(role) => format!("active {role}"),
        DeviceRole::Spare => "spare".into(),
        DeviceRole::Faulty => "faulty".into(),
        DeviceRole::Journal => "journal".into(),
    }
}
