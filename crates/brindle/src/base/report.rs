//! Reports: their contents, as JSON (docs/cli-json.md) and as text for people.

use std::io::Write;
use std::path::Path;

use brindle_array::DeviceUse;
use brindle_host::status::{DriveStatus, Report, ReportWord};
pub(crate) use brindle_host::status::{ReshapeFacts, flags, homehost, left_out};
use brindle_host::{ArrayDescription, BitmapDescription, DescribedDevice, Volumes};
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::text;
use crate::base::units::{Bytes, Moment};

/// Prints a report as JSON.
pub(crate) fn print_json(report: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report).map_err(|e| Failure::output("the report", e.into()))?;
    print(&format!("{text}\n"))
}

/// Prints text that has names in it to standard output: control characters are written out.
pub(crate) fn tell(text: &str) -> Result<(), Failure> {
    print(&text::shown(text))
}

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Failure::output("standard output", source))
}

/// The report of the array of that name in a server's answer; else of the one with that UUID, or with a member of
/// that name.
pub(crate) fn find<'a>(reported: &'a Volumes, name: &str) -> Option<&'a Report> {
    let bare = |uuid: &str| uuid.replace([':', '-'], "").to_lowercase();
    let reports = reported.all();
    let by_uuid = |report: &&Report| report.served_uuid().is_some_and(|uuid| bare(uuid) == bare(name));
    let by_member = |report: &&Report| report.has_device(name);
    let named = reports.iter().find(|report| report.name() == name);
    named.or_else(|| reports.iter().find(by_uuid)).or_else(|| reports.iter().find(by_member))
}

/// An array's name as it can be shown on a terminal: whoever wrote the superblock chose the bytes.
pub(crate) fn name_text(name: &str) -> String {
    if name.is_empty() { "(none)".into() } else { name.escape_debug().to_string() }
}

/// The fields of a write-intent bitmap.
#[derive(Debug, Serialize)]
struct BitmapReport {
    /// The file that has it; null if it stands beside each superblock.
    file: Option<String>,
    /// The bitmap has missed something: all of its bits count as set.
    stale: bool,
    chunk: u64,
    bits: u64,
    write_behind: u32,
}

impl BitmapReport {
    fn of(described: BitmapDescription) -> Self {
        let BitmapDescription { file, stale, chunk, bits, write_behind } = described;
        Self { file, stale, chunk, bits, write_behind }
    }

    fn text(&self) -> String {
        let mut text = format!("{} bits of {}", self.bits, Bytes(self.chunk));
        if self.write_behind > 0 {
            text.push_str(&format!(", {} writes may lag behind", self.write_behind));
        }
        if let Some(file) = &self.file {
            text.push_str(&format!(", in {file}{}", if self.stale { ", out of date" } else { "" }));
        }
        text
    }
}

/// An array as its members describe it.
#[derive(Debug, Serialize)]
pub(crate) struct ArrayReport {
    uuid: String,
    name: String,
    homehost: Option<String>,
    metadata: String,
    level: ReportWord,
    layout: Option<String>,
    chunk: Option<u64>,
    size: u64,
    component_size: Option<u64>,
    raid_devices: usize,
    state: Vec<&'static str>,
    consistency_policy: &'static str,
    bitmap: Option<BitmapReport>,
    events: u64,
    created: u64,
    updated: u64,
    resync_offset: Option<u64>,
    missing: Vec<u16>,
    reshape: Option<ReshapeFacts>,
    limits: Vec<String>,
    devices: Vec<DeviceReport>,
    /// Devices that were named and belong to another array or none; only where members are looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<Vec<LeftOutReport>>,
    /// Devices without superblock that may be members of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_roles: Vec<OpenRole>,
    /// The container that it is a volume of.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<OwnContainer>,
    /// Things that stand on it; only where that is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<Vec<ContentReport>>,
}

/// Something that stands on an array.
#[derive(Debug, Serialize)]
pub(crate) struct ContentReport {
    pub(crate) kind: String,
    /// Byte of the array.
    pub(crate) offset: u64,
    pub(crate) label: Option<String>,
    pub(crate) uuid: Option<String>,
    /// The command to get at the content.
    pub(crate) next: Option<String>,
}

/// Something that was named and is done without.
#[derive(Debug, Serialize)]
pub(crate) struct LeftOutReport {
    pub(crate) path: String,
    pub(crate) why: String,
}

/// A role that no member fills, and a device without superblock that may be its.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OpenRole {
    pub(crate) path: String,
    pub(crate) role: u16,
    /// The command that reads the array so.
    pub(crate) command: String,
}

impl OpenRole {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let Self { path, role, command } = self;
        format!("{path} has no superblock that can be used, and may be role {role}: {command}")
    }
}

/// The container of Intel's that a volume is in, with all disks of its table.
#[derive(Debug, Serialize)]
pub(crate) struct OwnContainer {
    pub(crate) uuid: String,
    /// As mdadm writes it: eight hexadecimal digits.
    pub(crate) family: String,
    pub(crate) generation: u32,
    /// Names of its volumes, in the order of their numbers.
    pub(crate) volumes: Vec<String>,
    pub(crate) disks: Vec<DiskOfContainer>,
}

/// A disk of a container.
#[derive(Debug, Serialize)]
pub(crate) struct DiskOfContainer {
    pub(crate) number: usize,
    pub(crate) serial: String,
    /// `configured`, `spare`, `failed`, or `unused` of one that is none of these.
    pub(crate) state: &'static str,
    /// The device that it is, if that was named and is read.
    pub(crate) path: Option<String>,
}

impl OwnContainer {
    /// For people, in lines.
    fn text(&self) -> impl Iterator<Item = String> {
        let Self { uuid, family, generation, .. } = self;
        let volumes: Vec<String> = self.volumes.iter().map(|name| name.escape_debug().to_string()).collect();
        let head =
            format!("{uuid}, family {family}, generation {generation}, volumes {}", volumes.join(", "));
        let disk = |disk: &DiskOfContainer| {
            let path = disk.path.as_ref().map_or_else(|| "not here".to_owned(), String::clone);
            format!("disk {}, serial {}: {}, {path}", disk.number, disk.serial.escape_debug(), disk.state)
        };
        std::iter::once(head).chain(self.disks.iter().map(disk)).collect::<Vec<_>>().into_iter()
    }
}

/// A device of an array.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceReport {
    path: String,
    /// The device's drive; files have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    drive: Option<DriveStatus>,
    number: u32,
    role: Option<u16>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered: Option<u64>,
    /// Bytes of it that the array uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovered_percent: Option<f64>,
    events: u64,
    size: u64,
    data_offset: u64,
    super_offset: u64,
    uuid: Option<String>,
    flags: Vec<&'static str>,
}

impl ArrayReport {
    /// The report of an array that is described so.
    pub(crate) fn of(described: ArrayDescription) -> Self {
        let ArrayDescription { facts, component_size, .. } = described;
        Self {
            uuid: facts.uuid,
            name: facts.name,
            homehost: facts.homehost,
            metadata: facts.metadata,
            level: facts.level,
            layout: facts.layout,
            chunk: facts.chunk,
            size: facts.size,
            component_size: facts.component_size,
            raid_devices: facts.raid_devices,
            state: described.state,
            consistency_policy: described.consistency_policy,
            bitmap: described.bitmap.map(BitmapReport::of),
            events: described.events,
            created: facts.created,
            updated: facts.updated,
            resync_offset: described.resync_offset,
            missing: described.missing,
            reshape: facts.reshape,
            limits: facts.limits,
            devices: described
                .devices
                .into_iter()
                .map(|device| DeviceReport::of(device, component_size))
                .collect(),
            left_out: None,
            open_roles: Vec::new(),
            container: None,
            holds: None,
        }
    }

    /// Each device's state in the array, by the name that it was given.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.devices.iter().map(|device| (device.path.as_str(), device.state))
    }

    /// Adds devices that were named but are not of the array, each with the reason.
    pub(crate) fn without(mut self, left_out: impl Iterator<Item = (String, String)>) -> Self {
        self.left_out = Some(left_out.map(|(path, why)| LeftOutReport { path, why }).collect());
        self
    }

    /// Adds devices that may be members of it.
    pub(crate) fn with_open_roles(mut self, open: Vec<OpenRole>) -> Self {
        self.open_roles = open;
        self
    }

    /// Adds the container that it is a volume of.
    pub(crate) fn within(mut self, container: OwnContainer) -> Self {
        self.container = Some(container);
        self
    }

    /// Adds the content of the array, if that is known.
    pub(crate) fn holding(mut self, holds: Option<Vec<ContentReport>>) -> Self {
        self.holds = holds;
        self
    }

    /// The content of the array, as far as it is known.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &ContentReport> {
        self.holds.iter().flatten()
    }

    /// The same, to be changed.
    pub(crate) fn holds_mut(&mut self) -> impl Iterator<Item = &mut ContentReport> {
        self.holds.iter_mut().flatten()
    }

    /// Roles are without a member that holds all that it should.
    pub(crate) fn is_degraded(&self) -> bool {
        self.state.contains(&"degraded")
    }

    /// The devices that the array goes without, as they were named.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let out = |device: &&DeviceReport| matches!(device.state, "stale" | "faulty");
        self.devices.iter().filter(out).map(|device| device.path.clone()).collect()
    }

    /// For people, in the order of mdadm's `--detail`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Name", name_text(&self.name));
        if let Some(host) = &self.homehost {
            row("Home host", name_text(host));
        }
        row("UUID", self.uuid.clone());
        row("Metadata", self.metadata.clone());
        row("Level", self.level.to_string());
        if let Some(layout) = &self.layout {
            row("Layout", layout.clone());
        }
        if let Some(chunk) = self.chunk {
            row("Chunk", Bytes(chunk).to_string());
        }
        row("Size", format!("{} ({} bytes)", Bytes(self.size), self.size));
        if let Some(size) = self.component_size {
            row("Used of each", format!("{} ({size} bytes)", Bytes(size)));
        }
        row("Raid devices", self.raid_devices.to_string());
        row("State", self.state.join(", "));
        row("Consistency", self.consistency_policy.to_owned());
        if let Some(bitmap) = &self.bitmap {
            row("Bitmap", bitmap.text());
        }
        row("Created", Moment(self.created).to_string());
        row("Updated", Moment(self.updated).to_string());
        row("Events", self.events.to_string());
        if let Some(offset) = self.resync_offset {
            row("Resync", format!("needed from byte {offset} of the members on"));
        }
        if let Some(reshape) = &self.reshape {
            row("Reshape", reshape_text(reshape));
        }
        for limit in &self.limits {
            row("Limit", limit.clone());
        }
        for left_out in self.left_out.iter().flatten() {
            row("Left out", left_out.why.clone());
        }
        for open in &self.open_roles {
            row("Perhaps", open.text());
        }
        for line in self.container.iter().flat_map(OwnContainer::text) {
            row("Container", line);
        }
        for held in self.holds.iter().flatten() {
            let label = held.label.as_ref().map(|label| format!(" \"{}\"", label.escape_debug()));
            row("Holds", format!("{}{}", held.kind, label.unwrap_or_default()));
            held.next.iter().for_each(|next| row("To get at it", next.clone()));
        }
        text.push_str("\n  Role  State               Events  Device\n");
        for role in 0..self.raid_devices as u16 {
            match self.devices.iter().find(|d| d.role == Some(role) && d.is_active()) {
                Some(device) => text.push_str(&device.line(&role.to_string())),
                None => text.push_str(&format!("{role:>6}  missing\n")),
            }
        }
        for device in self.devices.iter().filter(|device| !device.is_active()) {
            text.push_str(&device.line("-"));
        }
        text
    }
}

/// A reshape, for people.
pub(crate) fn reshape_text(reshape: &ReshapeFacts) -> String {
    let (from, to) = (reshape.from_devices, reshape.to_devices);
    let members = if from == to { format!("{to} members") } else { format!("{from} to {to} members") };
    let layout = reshape.layout.as_ref().map_or_else(String::new, |layout| format!(", layout {layout}"));
    let (chunk, position) = (Bytes(reshape.chunk), reshape.position);
    let moved = if reshape.backwards {
        format!("from byte {position} on")
    } else {
        format!("before byte {position}")
    };
    format!("to {members}{layout}, chunk {chunk}; what lies {moved} has moved")
}

/// The drive that a device is, or that a part of it is named of.
fn drive_of(label: &str) -> Option<DriveStatus> {
    let of = |name: &str| DriveStatus::of(Path::new(name));
    of(label).or_else(|| of(&label[..label.rfind(['#', '@'])?]))
}

impl DeviceReport {
    /// The report of an array that uses `component` bytes of each member.
    fn of(device: DescribedDevice, component: u64) -> Self {
        let (role, state, recovered) = match device.usage {
            DeviceUse::Active { role } => (Some(role), "in-sync", None),
            DeviceUse::Recovering { role, upto } => (Some(role), "recovering", Some(upto)),
            DeviceUse::Replacement { role, upto } => {
                (Some(role), "replacement", Some(upto).filter(|&upto| upto != u64::MAX))
            }
            DeviceUse::Spare => (None, "spare", None),
            DeviceUse::Journal => (None, "journal", None),
            DeviceUse::LeftOut { role, why } => (role, left_out(why), None),
        };
        Self {
            drive: drive_of(&device.label),
            path: device.label,
            number: device.number,
            role,
            state,
            recovered,
            recovered_percent: recovered
                .map(|upto| upto.min(component) as f64 * 100.0 / component.max(1) as f64),
            events: device.events,
            size: device.size,
            data_offset: device.data_offset,
            super_offset: device.super_offset,
            uuid: device.uuid,
            flags: flags(device.flags),
        }
    }

    fn is_active(&self) -> bool {
        matches!(self.state, "in-sync" | "recovering")
    }

    fn line(&self, role: &str) -> String {
        let flags =
            if self.flags.is_empty() { String::new() } else { format!("  ({})", self.flags.join(", ")) };
        let percent = self.recovered_percent.map_or_else(String::new, |percent| format!(" {percent:.1}%"));
        let state = format!("{}{percent}", self.state);
        let drive = self.drive.as_ref().map_or_else(String::new, |drive| format!("  {}", drive.text()));
        format!("{role:>6}  {state:<18}  {:>6}  {}{flags}{drive}\n", self.events, self.path)
    }
}

/// The facts of the environment of a run, wherever it runs: the program first, the machine last.
pub(crate) fn facts(own: Vec<(String, String)>) -> Vec<(String, String)> {
    let proc = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpu = proc("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches([':', '\t', ' ']);
    let fact = |name: &str, value: &str| (name.to_owned(), value.trim().to_owned());
    let program = fact("program", concat!("brindle ", env!("CARGO_PKG_VERSION")));
    let machine = [fact("kernel", &proc("/proc/sys/kernel/osrelease")), fact("processor", cpu)];
    std::iter::once(program).chain(own).chain(machine).collect()
}
