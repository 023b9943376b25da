//! An array that its members don't form: which ones they are, and the reason.

use brindle_format::imsm::{DiskSlot, serial_text};
use brindle_format::md::{Superblock, display_uuid};
use brindle_host::ContainerSet;
use brindle_layout::{Layout, Level};
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::report::{LeftOutReport, OpenRole, name_text};
use crate::base::units::Bytes;
use crate::devices::world::Set;

/// Roles that are reported: more than any array has.
const MOST_ROLES: u32 = 4096;

/// An array that can't be had.
#[derive(Debug, Serialize)]
pub(super) struct BrokenReport {
    uuid: String,
    name: String,
    metadata: String,
    level: String,
    layout: Option<String>,
    chunk: Option<u64>,
    raid_devices: u32,
    events: u64,
    /// The reason.
    problem: String,
    missing: Vec<u32>,
    devices: Vec<BrokenDevice>,
    left_out: Vec<LeftOutReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_roles: Vec<OpenRole>,
}

/// A member of it, by its own superblock.
#[derive(Debug, Serialize)]
struct BrokenDevice {
    path: String,
    role: Option<u16>,
    events: u64,
}

impl BrokenReport {
    /// The array that the superblocks of a set tell of; `None` if none of them can be used.
    pub(super) fn of(set: &Set, why: &Failure, open_roles: Vec<OpenRole>) -> Option<Self> {
        let known =
            || set.members.iter().filter_map(|named| Some((named, named.candidate.superblock().ok()?.0)));
        let (_, newest) = known().max_by_key(|(_, superblock)| superblock.events)?;
        let level = Level::from_md(newest.level).ok();
        let layout = level.and_then(|level| Layout::from_md(level, newest.layout).ok());
        let mut devices: Vec<BrokenDevice> = known()
            .map(|(named, own)| BrokenDevice {
                path: named.label.clone(),
                role: own.role().active(),
                events: own.events,
            })
            .collect();
        devices.sort_by_key(|device| (device.role.is_none(), device.role));
        Some(Self {
            uuid: display_uuid(newest.set_uuid).to_string(),
            name: newest.name.clone(),
            metadata: newest.version.to_string(),
            level: level
                .map_or_else(|| format!("unknown level {}", newest.level), |level| level.name().to_owned()),
            layout: layout.filter(|layout| *layout != Layout::None).map(|layout| layout.name()),
            chunk: (newest.chunk != 0).then_some(newest.chunk),
            raid_devices: newest.raid_disks,
            events: newest.events,
            problem: why.to_string(),
            missing: missing(newest, &devices),
            devices,
            left_out: set
                .left_out
                .iter()
                .map(|one| LeftOutReport { path: one.label.clone(), why: one.why.clone() })
                .collect(),
            open_roles,
        })
    }

    /// A volume of a container that can't be had.
    pub(super) fn of_volume(set: &ContainerSet, number: usize, why: &Failure) -> Self {
        let container = &set.newest;
        let uuid = container.volume_uuid(number).map(|uuid| uuid.to_string());
        let volume = container.volumes.get(number);
        let slots = volume.map(|volume| volume.map.slots.clone()).unwrap_or_default();
        let of = |slot: usize| set.disks.get(slot).copied().flatten().and_then(|at| set.members.get(at));
        let device = |(role, slot): (u16, &DiskSlot)| {
            let member = of(slot.disk())?;
            let events = member.metadata.generation.into();
            Some(BrokenDevice { path: member.label.clone(), role: Some(role), events })
        };
        let is_missing = |(role, slot): (u32, &DiskSlot)| of(slot.disk()).is_none().then_some(role);
        let left_out = set.left_out.iter().filter_map(|(at, why)| {
            Some(LeftOutReport { path: set.members.get(*at)?.label.clone(), why: why.clone() })
        });
        Self {
            uuid: uuid.unwrap_or_default(),
            name: volume.map(|volume| serial_text(&volume.name)).unwrap_or_default(),
            metadata: "imsm".to_owned(),
            level: volume.map_or_else(String::new, |volume| format!("raid{}", volume.map.level)),
            layout: None,
            chunk: volume.map(|volume| volume.map.strip),
            raid_devices: slots.len() as u32,
            events: container.generation.into(),
            problem: why.to_string(),
            missing: (0u32..).zip(&slots).filter_map(is_missing).collect(),
            devices: (0u16..).zip(&slots).filter_map(device).collect(),
            left_out: left_out.collect(),
            open_roles: Vec::new(),
        }
    }

    /// The refusal to tell of it alone: the reason, with the devices that may be its members.
    pub(super) fn refusal(&self, why: Failure) -> Failure {
        let open: Vec<String> = self.open_roles.iter().map(OpenRole::text).collect();
        if open.is_empty() { why } else { Failure::Cut { source: Box::new(why), way: open.join("; ") } }
    }

    /// Whether this device is one of its members.
    pub(super) fn has(&self, label: &str) -> bool {
        self.devices.iter().any(|device| device.path == label)
    }

    /// The array as messages name it.
    pub(super) fn called(&self) -> String {
        if self.name.is_empty() { self.uuid.clone() } else { self.name.escape_debug().to_string() }
    }

    /// For people, in the order of the report of an array that can be had.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Name", name_text(&self.name));
        row("UUID", self.uuid.clone());
        row("Metadata", self.metadata.clone());
        row("Level", self.level.clone());
        if let Some(layout) = &self.layout {
            row("Layout", layout.clone());
        }
        if let Some(chunk) = self.chunk {
            row("Chunk", Bytes(chunk).to_string());
        }
        row("Raid devices", self.raid_devices.to_string());
        row("State", "can't be had".to_owned());
        row("Events", self.events.to_string());
        row("Problem", self.problem.clone());
        for left_out in &self.left_out {
            row("Left out", left_out.why.clone());
        }
        for open in &self.open_roles {
            row("Perhaps", open.text());
        }
        text.push_str("\n  Role  Events  Device\n");
        for device in &self.devices {
            let role = device.role.map_or_else(|| "-".to_owned(), |role| role.to_string());
            text.push_str(&format!("{role:>6}  {:>6}  {}\n", device.events, device.path));
        }
        for role in &self.missing {
            text.push_str(&format!("{role:>6}       -  missing\n"));
        }
        text
    }
}

/// Roles that no device fills that is as new as the newest.
fn missing(newest: &Superblock, devices: &[BrokenDevice]) -> Vec<u32> {
    let is_current = |device: &&BrokenDevice| device.events.saturating_add(1) >= newest.events;
    let there: Vec<u32> =
        devices.iter().filter(is_current).filter_map(|device| device.role.map(u32::from)).collect();
    (0..newest.raid_disks.min(MOST_ROLES)).filter(|role| !there.contains(role)).collect()
}
