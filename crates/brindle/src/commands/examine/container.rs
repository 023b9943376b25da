//! The metadata of a disk of Intel's RAID: all fields that mdadm shows, and a file that keeps them alone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use brindle_format::imsm::{Container, ContainerVolume, DiskSlot, VolumeMap, serial_text};
use brindle_io::device::DeviceAccess;
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::units::Bytes;
use crate::devices::containers::ContainerHead;
use crate::devices::world::place;

/// Sectors that mdadm keeps free at the end of a disk.
const KEPT_FREE: u64 = 10_402 * 512;

/// The metadata of one disk.
#[derive(Debug, Serialize)]
pub(super) struct ContainerReport {
    version: String,
    original_family: String,
    family: String,
    generation: u32,
    created: u64,
    attributes: Vec<String>,
    /// Those of them that this release does not know.
    unsupported: Vec<String>,
    uuid: String,
    checksum: String,
    sectors: u64,
    sector_size: u64,
    offset: u64,
    disks: Vec<ContainerDiskReport>,
    volumes: Vec<VolumeReport>,
    bad_blocks: Vec<DefectReport>,
    migration: Option<MigrationReport>,
}

#[derive(Debug, Serialize)]
struct ContainerDiskReport {
    serial: String,
    state: Vec<&'static str>,
    id: String,
    size: u64,
    usable: u64,
}

#[derive(Debug, Serialize)]
struct VolumeReport {
    name: String,
    uuid: String,
    level: u8,
    members: usize,
    /// As mdadm writes it: `U` holds its data, `_` does not.
    slots: String,
    disks: Vec<usize>,
    failed_disk: Option<u8>,
    size: u64,
    member_size: u64,
    offset: u64,
    stripes: u64,
    chunk: u64,
    reserved: u32,
    migrate_state: &'static str,
    map_state: &'static str,
    /// The map before a change that is under way.
    before: Option<MapReport>,
    unit: u64,
    dirty: bool,
    write_hole: &'static str,
    id: u16,
}

/// The map of a volume as it was.
#[derive(Debug, Serialize)]
struct MapReport {
    level: u8,
    members: usize,
    slots: String,
    chunk: u64,
    map_state: &'static str,
}

#[derive(Debug, Serialize)]
struct DefectReport {
    disk: u8,
    offset: u64,
    length: u64,
}

#[derive(Debug, Serialize)]
struct MigrationReport {
    status: u32,
    unit: u64,
    units: u64,
    unit_size: u64,
    copies: u64,
    size: u64,
}

impl ContainerReport {
    /// Looks at what is named; `None` if it is no disk of a container.
    ///
    /// # Errors
    /// Its metadata are damaged.
    pub(super) fn look(name: &Path) -> Result<Option<Self>, Failure> {
        let Ok(device) = place::open(name, DeviceAccess::Examine) else { return Ok(None) };
        Ok(ContainerHead::read(name, &device)?.map(|head| Self::of(&head)))
    }

    fn of(head: &ContainerHead) -> Self {
        let container = &head.metadata;
        let checksum = container.check_sum(head.sector).map(|sum| format!("{sum:08x}"));
        let bytes = container.encode(head.sector).map_or(0, |bytes| bytes.len() as u64);
        Self {
            version: container.version_text(),
            original_family: format!("{:08x}", container.original_family),
            family: format!("{:08x}", container.family),
            generation: container.generation,
            created: container.created,
            attributes: container.attributes.names(),
            unsupported: container.attributes.unsupported().names(),
            uuid: container.uuid().to_string(),
            checksum: checksum.unwrap_or_default(),
            sectors: bytes.div_ceil(head.sector),
            sector_size: head.sector,
            offset: head.anchor,
            disks: disks(container),
            volumes: (0..)
                .zip(&container.volumes)
                .map(|(at, volume)| VolumeReport::of(container, at, volume))
                .collect(),
            bad_blocks: container
                .defects
                .iter()
                .flatten()
                .map(|one| DefectReport { disk: one.disk, offset: one.offset, length: one.len })
                .collect(),
            migration: head.record.as_ref().map(|record| MigrationReport {
                status: record.status,
                unit: record.unit,
                units: record.units,
                unit_size: record.unit_size,
                copies: record.copies,
                size: record.size,
            }),
        }
    }

    /// For people, with mdadm's names.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Magic", "Intel Raid ISM Cfg Sig.".to_owned());
        row("Version", self.version.clone());
        row("Orig Family", self.original_family.clone());
        row("Family", self.family.clone());
        row("Generation", format!("{:08x}", self.generation));
        row("Creation Time", if self.created == 0 { "Unknown".to_owned() } else { self.created.to_string() });
        let attributes = match &self.unsupported[..] {
            [] => "All supported".to_owned(),
            unknown => format!("not supported: {}", unknown.join(", ")),
        };
        row("Attributes", attributes);
        row("UUID", self.uuid.clone());
        row("Checksum", format!("{} correct", self.checksum));
        row("MPB Sectors", self.sectors.to_string());
        row("Disks", self.disks.len().to_string());
        row("RAID Devices", self.volumes.len().to_string());
        for (at, volume) in self.volumes.iter().enumerate() {
            text.push_str(&volume.text(at, self.sector_size));
        }
        for (at, disk) in self.disks.iter().enumerate() {
            text.push_str(&disk.text(at, self.sector_size));
        }
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:>16} : {value}\n"));
        for DefectReport { disk, offset, length } in &self.bad_blocks {
            row("Bad blocks", format!("{length} bytes from byte {offset} on of disk {disk}"));
        }
        if let Some(MigrationReport { status, unit, units, .. }) = &self.migration {
            row("Migration", format!("at unit {unit} of {units}, status {status}"));
        }
        text
    }
}

fn disks(container: &Container) -> Vec<ContainerDiskReport> {
    let disk = |disk: &brindle_format::imsm::ContainerDisk| {
        let status = disk.status;
        let states = [
            (status.is_spare(), "spare"),
            (status.is_configured(), "active"),
            (status.is_failed(), "failed"),
            (status.is_journal(), "journal"),
        ];
        ContainerDiskReport {
            serial: serial_text(&disk.serial),
            state: states.into_iter().filter_map(|(is, word)| is.then_some(word)).collect(),
            id: format!("{:08x}", disk.scsi_id),
            size: disk.size,
            usable: disk.size.saturating_sub(KEPT_FREE),
        }
    };
    container.disks.iter().map(disk).collect()
}

impl ContainerDiskReport {
    fn text(&self, at: usize, sector: u64) -> String {
        let rows = [
            (format!("Disk{at:02} Serial"), self.serial.escape_debug().to_string()),
            ("State".to_owned(), self.state.join(" ")),
            ("Id".to_owned(), self.id.clone()),
            ("Usable Size".to_owned(), sectors(self.usable, sector)),
        ];
        let rows = rows.map(|(name, value)| format!("{name:>16} : {value}\n"));
        format!("\n{}", rows.concat())
    }
}

impl VolumeReport {
    fn of(container: &Container, at: usize, volume: &ContainerVolume) -> Self {
        let map = &volume.map;
        let is_whole = |slot: &DiskSlot| {
            let disk = container.disks.get(slot.disk());
            !slot.is_rebuilt() && disk.is_some_and(|disk| !disk.status.is_failed())
        };
        let slots = |map: &VolumeMap| -> String {
            map.slots.iter().map(|slot| if is_whole(slot) { 'U' } else { '_' }).collect()
        };
        let level = |map: &VolumeMap| if map.level == 1 && map.slots.len() > 2 { 10 } else { map.level };
        let before = volume.migration.as_ref().map(|change| &change.before);
        Self {
            name: serial_text(&volume.name),
            uuid: container.volume_uuid(at).map(|uuid| uuid.to_string()).unwrap_or_default(),
            level: level(map),
            members: map.slots.len(),
            slots: slots(map),
            disks: map.slots.iter().map(|slot| slot.disk()).collect(),
            failed_disk: (map.failed_disk != 255).then_some(map.failed_disk),
            size: volume.size,
            member_size: map.member_size,
            offset: map.offset,
            stripes: map.stripes,
            chunk: map.strip,
            reserved: volume.reserved,
            migrate_state: volume.migration.as_ref().map_or("idle", |change| change.kind.name()),
            map_state: map.state.name(),
            before: before.map(|map| MapReport {
                level: level(map),
                members: map.slots.len(),
                slots: slots(map),
                chunk: map.strip,
                map_state: map.state.name(),
            }),
            unit: volume.unit,
            dirty: volume.is_dirty(),
            write_hole: volume.write_hole.name(),
            id: volume.number,
        }
    }

    fn text(&self, at: usize, sector: u64) -> String {
        let mut text = format!("\n[{}]:\n", self.name.escape_debug());
        let mut row = |name: &str, value: String| text.push_str(&format!("{name:>16} : {value}\n"));
        row("Subarray", at.to_string());
        row("UUID", self.uuid.clone());
        let before = |told: &dyn Fn(&MapReport) -> String| {
            self.before.as_ref().map_or_else(String::new, |map| format!(" <-- {}", told(map)))
        };
        row("RAID Level", format!("{}{}", self.level, before(&|map| map.level.to_string())));
        row("Members", format!("{}{}", self.members, before(&|map| map.members.to_string())));
        row("Slots", format!("[{}]{}", self.slots, before(&|map| format!("[{}]", map.slots))));
        row("Failed disk", self.failed_disk.map_or_else(|| "none".to_owned(), |disk| disk.to_string()));
        row("Disks", self.disks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        row("Sector Size", sector.to_string());
        row("Array Size", sectors(self.size, sector));
        row("Per Dev Size", sectors(self.member_size, sector));
        row("Sector Offset", (self.offset / sector.max(512)).to_string());
        row("Num Stripes", self.stripes.to_string());
        let chunk = before(&|map| format!("{} KiB", map.chunk / 1024));
        row("Chunk Size", format!("{} KiB{chunk}", self.chunk / 1024));
        row("Reserved", self.reserved.to_string());
        row("Migrate State", self.migrate_state.to_owned());
        row("Map State", format!("{}{}", self.map_state, before(&|map| map.map_state.to_owned())));
        if self.before.is_some() {
            row("Checkpoint", self.unit.to_string());
        }
        row("Dirty State", if self.dirty { "dirty" } else { "clean" }.to_owned());
        row("RWH Policy", self.write_hole.to_owned());
        row("Volume ID", self.id.to_string());
        text
    }
}

/// Sectors of the disk, as mdadm shows them, and how much that is.
fn sectors(bytes: u64, sector: u64) -> String {
    format!("{} ({})", bytes / sector.max(512), Bytes(bytes))
}

/// Keeps the metadata of a disk, and nothing else, in a new file of the same length; it takes the room of the metadata alone.
pub(super) fn dump(name: &Path, to: &Path, anonymous: bool) -> Result<String, Failure> {
    let device = place::open(name, DeviceAccess::Examine)?;
    let head = ContainerHead::read(name, &device)?;
    let Some(mut head) = head else {
        let name = name.display();
        return Err(Failure::Refused(format!(
            "{name}: it has no metadata of Intel's RAID, and others are not kept: copy the device itself"
        )));
    };
    if anonymous {
        make_anonymous(&mut head.metadata);
    }
    let fails = |source| Failure::output(to.display(), source);
    let pieces = head.pieces().map_err(|why| Failure::Imsm { path: name.display().to_string(), why })?;
    let file = File::options().write(true).create_new(true).open(to).map_err(fails)?;
    file.set_len(head.size).map_err(fails)?;
    for (at, bytes) in pieces {
        file.write_all_at(&bytes, at).map_err(fails)?;
    }
    Ok(format!(
        "{}: the metadata of {}, {} bytes long as the disk is\n",
        to.display(),
        name.display(),
        head.size
    ))
}

/// Leaves out names and serial numbers; of equal ones the same is left.
fn make_anonymous(container: &mut Container) {
    let text = |text: String| {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
        bytes
    };
    for (at, disk) in container.disks.iter_mut().enumerate() {
        let serial = serial_text(&disk.serial);
        let kept = if serial.ends_with(":0") { ":0" } else { "" };
        disk.serial =
            if serial.starts_with("missing:") { disk.serial } else { text(format!("DISK{at:02}{kept}")) };
    }
    for (at, volume) in container.volumes.iter_mut().enumerate() {
        volume.name = text(format!("Volume{at}"));
        if volume.journal_serial != [0; 16] {
            volume.journal_serial = text("JOURNAL".to_owned());
        }
    }
}
