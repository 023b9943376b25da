//! Containers of Intel's firmware RAID on named devices: looked at, and their volumes opened to be read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_array::Array;
use brindle_format::imsm::{Container, MigrationRecord, SIGNATURE, anchor, extended, migration_record};
use brindle_host::status::DriveStatus;
use brindle_host::{ContainerMember, ContainerOptions, ContainerSet, VolumePlan, open_volume};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::look;
use crate::devices::world::{World, WorldOptions, note, place};

/// Time that a device has to be identified.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a sector, of any disk.
const SECTORS: [u64; 2] = [512, 4096];

/// The metadata on a disk.
pub(crate) struct ContainerHead {
    /// Bytes of the disk.
    pub(crate) size: u64,
    /// Bytes of its sectors, as the metadata count them.
    pub(crate) sector: u64,
    /// The byte at which they begin.
    pub(crate) anchor: u64,
    pub(crate) metadata: Container,
    /// The record of a change that moves bytes.
    pub(crate) record: Option<MigrationRecord>,
}

impl ContainerHead {
    /// The metadata of an open device; `None` if it has none.
    ///
    /// # Errors
    /// They are damaged, or can't be read.
    pub(crate) fn read(name: &Path, device: &OpenDevice) -> Result<Option<Self>, Failure> {
        let size = device.info().size;
        let read =
            |range: std::ops::Range<u64>| device.read_at(range.start, (range.end - range.start) as usize);
        for sector in SECTORS {
            let Some(place) = anchor(size, sector) else { continue };
            // A disk that can't be read there has none that could be used.
            let Ok(mut bytes) = read(place.clone()) else { continue };
            if !bytes.starts_with(SIGNATURE) {
                continue;
            }
            let damaged = |why| Failure::Imsm { path: name.display().to_string(), why };
            let len = Container::bytes(&bytes).map_err(damaged)?;
            let label = || name.display().to_string();
            if let Some(rest) = extended(size, sector, len).filter(|rest| !rest.is_empty()) {
                bytes.extend(read(rest).map_err(|error| Failure::probe(&label(), error))?);
            }
            let metadata = Container::parse(&bytes, sector).map_err(damaged)?;
            let record = migration_record(size, sector).and_then(|range| read(range).ok());
            let record = record.and_then(|bytes| MigrationRecord::parse(&bytes, sector).ok().flatten());
            return Ok(Some(Self { size, sector, anchor: place.start, metadata, record }));
        }
        Ok(None)
    }

    /// The bytes of all metadata, each with its place on the disk.
    ///
    /// # Errors
    /// They can't be written.
    pub(crate) fn pieces(&self) -> Result<Vec<(u64, Vec<u8>)>, brindle_format::imsm::ImsmError> {
        let bytes = self.metadata.encode(self.sector)?;
        let (first, rest) = bytes.split_at(bytes.len().min(self.sector as usize));
        let mut pieces = vec![(self.anchor, first.to_vec())];
        if let Some(range) = extended(self.size, self.sector, bytes.len()) {
            pieces.push((range.start, rest.to_vec()));
        }
        if let (Some(record), Some(range)) = (&self.record, migration_record(self.size, self.sector)) {
            pieces.push((range.start, record.encode(self.sector)?.to_vec()));
        }
        Ok(pieces)
    }
}

/// Whether a device is a disk of a container, as far as its signature tells; one that does not answer is none.
pub(crate) fn is_disk(name: &Path) -> bool {
    let own = name.to_owned();
    within(PATIENCE, move || has_signature(&own)).ok().flatten().unwrap_or(false)
}

fn has_signature(name: &Path) -> bool {
    let Ok(device) = place::open(name, DeviceAccess::Examine) else { return false };
    let has = |sector: u64| {
        let place = anchor(device.info().size, sector)?;
        let bytes = device.read_at(place.start, SIGNATURE.len()).ok()?;
        Some(bytes == SIGNATURE)
    };
    SECTORS.into_iter().any(|sector| has(sector) == Some(true))
}

/// Refuses disks of containers, where arrays of md are meant, with the way out.
pub(crate) fn refuse(names: &[PathBuf], way_out: &str) -> Result<(), Failure> {
    match names.iter().find(|name| is_disk(name)) {
        None => Ok(()),
        Some(disk) => Err(Failure::Refused(format!(
            "{}: it is a disk of Intel's RAID, whose volumes are only read: {way_out}",
            disk.display()
        ))),
    }
}

/// The disks of a container in a world, opened to be read.
pub(crate) struct OpenContainer {
    pub(crate) set: ContainerSet,
    /// The reactor's numbers of its members, in their order.
    ids: Vec<MemberId>,
}

/// A container in a world of its own, for a command that ends with it.
pub(crate) struct LoneContainer {
    pub(crate) opened: OpenContainer,
    pub(crate) world: World,
}

impl LoneContainer {
    /// Opens the disks that are named. `order` are they by their numbers in the container, by hand.
    pub(crate) fn open(
        names: &[PathBuf],
        order: Option<&str>,
        opening: WorldOptions,
    ) -> Result<Self, Failure> {
        let world = World::new(opening)?;
        let opened = OpenContainer::open(&world, names, order, (opening.access, opening.force))?;
        Ok(Self { opened, world })
    }

    /// Opens a volume to be read.
    pub(crate) fn start(&self, plan: &VolumePlan) -> Array {
        self.opened.start(&self.world, plan)
    }
}

impl OpenContainer {
    /// Opens disks in a world. Nothing is ever written to them.
    pub(crate) fn open(
        world: &World,
        names: &[PathBuf],
        order: Option<&str>,
        (access, force): (DeviceAccess, bool),
    ) -> Result<Self, Failure> {
        let order: Vec<&str> = order.map(|order| order.split(',').collect()).unwrap_or_default();
        let (mut members, mut ids) = (Vec::new(), Vec::new());
        for name in names {
            let label = name.display().to_string();
            let Some((head, device)) = look_at(world, name, access, names.len() > 1)? else { continue };
            tell_of_md(&label, &device);
            let serial = DriveStatus::of(name).and_then(|drive| drive.serial);
            let number = order.iter().position(|own| *own == label);
            let ContainerHead { size, sector, anchor, metadata, .. } = head;
            ids.push(world.add(name, device)?);
            members.push(ContainerMember { label, size, sector, anchor, metadata, serial, number });
        }
        let set = ContainerSet::of(members, force)?;
        for (_, why) in &set.left_out {
            note(format!("{why}; going on without it"));
        }
        Ok(Self { set, ids })
    }

    /// A volume of it.
    pub(crate) fn plan(&self, number: usize, options: ContainerOptions) -> Result<VolumePlan, Failure> {
        Ok(self.set.volume(number, options)?)
    }

    /// Opens a volume to be read, in the world that has the disks.
    pub(crate) fn start(&self, world: &World, plan: &VolumePlan) -> Array {
        open_volume(&world.io, &self.set, plan, &self.ids, &world.config())
    }
}

/// Opens a disk and reads its metadata; `None` if others may do without it.
fn look_at(
    world: &World,
    name: &Path,
    access: DeviceAccess,
    has_others: bool,
) -> Result<Option<(ContainerHead, OpenDevice)>, Failure> {
    let (path, label) = (name.to_owned(), name.display().to_string());
    let seen = world.ask(&label, move || {
        let device = place::open(&path, access)?;
        let head = ContainerHead::read(&path, &device);
        Ok((device, head))
    });
    let (device, head) = seen?;
    if let Some((_, first)) = world.known().iter().find(|(identity, _)| *identity == device.identity()) {
        let first = first.display();
        return Err(Failure::Usage(format!("{first} and {label} are the same device: name each once")));
    }
    match head {
        Ok(Some(head)) => Ok(Some((head, device))),
        Ok(None) if has_others => {
            note(format!("{label}: it has no metadata of Intel's RAID; going on without it"));
            Ok(None)
        }
        Err(why) if has_others => {
            note(format!("{why}; going on without it"));
            Ok(None)
        }
        Ok(None) => Err(Failure::Refused(format!(
            "{label}: it has no metadata of Intel's RAID: name a disk that has"
        ))),
        Err(why) => Err(why),
    }
}

/// Tells of an md superblock beside the metadata of a container: it may be the content of a volume, or left over.
fn tell_of_md(label: &str, device: &OpenDevice) {
    let seen = look::candidate(label, device.info(), look::reader(device));
    if seen.is_ok_and(|candidate| candidate.superblock().is_ok()) {
        note(format!(
            "{label}: it has an md superblock beside the metadata of Intel's RAID: it is taken for a disk of that container"
        ));
    }
}
