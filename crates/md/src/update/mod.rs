//! Changes to the superblocks of an array that nobody uses, as `mdadm --assemble --update` makes them. Pure: no I/O, no
//! clock, no random source.
//!
//! A power cut may come between any two writes, and each superblock changes by one sector of it. Members are written in the
//! order of their numbers, so that the first is the one which decides where the others are as new (`assembly::choose`). What
//! a superblock is about to rely on is written before it. So an array whose change was cut short assembles:
//!
//! - A name, a size, or a place for bad blocks is each member's own: members need not agree on it.
//! - *resync*: the deciding superblock says that nothing is in sync, or none does yet. Copies of the bitmap are marked stale first.
//! - *metadata*: the superblocks of 1.0 stand beside those of 0.90. Those of 0.90 count until each member has one of 1.0.
//! - *uuid*: some members have the new one. Both parts are found as arrays that lack members, given together they are refused
//!   as what they are, and the same change, forced, ends it. An array that was never used since it was made is refused as members
//!   of two: arrays that were made in one second are alike.

mod error;

use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapState, BitmapSuper, bytes_needed};
use brindle_format::md::{
    DeviceRole, Features, SUPERBLOCK_BYTES, Superblock, Uuid, Version, defaults, full_name, split_name,
};

use crate::assembly::{AssembleOptions, Assembly, AssemblyError, Candidate, assemble};
use crate::create::PlannedWrite;
pub use error::UpdateError;

/// The change to an array's superblocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Another name. The host before it stays, unless one is given or the name has one.
    Name {
        /// The name.
        name: String,
        /// The host whose array it is.
        homehost: Option<String>,
    },
    /// Another host before the name.
    Homehost(String),
    /// Another identity.
    Uuid(Uuid),
    /// Redundancy is not known to be in sync anywhere.
    Resync,
    /// As many bytes for data as each device has.
    Devicesize,
    /// A place for a log of bad blocks.
    Bbl,
    /// No log of bad blocks, where it is empty.
    NoBbl,
    /// Metadata 1.0 in place of 0.90.
    Metadata {
        /// The name, which 0.90 does not keep.
        name: String,
        /// Seconds since 1970.
        created: u64,
        /// Identities of the devices, random, in their order.
        devices: Vec<Uuid>,
    },
}

/// A device to be changed.
#[derive(Clone, Debug)]
pub struct Updatable {
    /// Its superblocks.
    pub candidate: Candidate,
    /// The page of the device at [`bitmap_place`], if it has one.
    pub bitmap: Option<Vec<u8>>,
}

/// The changed superblocks, and their writes.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The array as it was.
    pub assembly: Assembly,
    /// The superblock of each device, in the given order.
    pub superblocks: Vec<Superblock>,
    /// The writes, each to stable storage before the next. None where nothing changes.
    pub writes: Vec<PlannedWrite>,
}

/// Where a device keeps its copy of the bitmap: its first page.
pub fn bitmap_place(candidate: &Candidate) -> Option<u64> {
    let (superblock, offset) = candidate.superblock().ok()?;
    offset.checked_add_signed(superblock.bitmap_offset?)
}

/// Works out the writes that change an array. With `force` members may be missing which keep their superblocks then, and a
/// change of the UUID that was cut short is ended.
///
/// # Errors
/// Each kind of [`UpdateError`]: nothing is to be written then.
pub fn update(devices: &[Updatable], update: &Update, force: bool) -> Result<Updated, UpdateError> {
    let mut candidates: Vec<Candidate> = devices.iter().map(|device| device.candidate.clone()).collect();
    let assembly = match assemble(&candidates, AssembleOptions { force, partial: false }) {
        Err(AssemblyError::HalfRenamed { uuids, .. }) if force && matches!(update, Update::Uuid(_)) => {
            candidates.iter_mut().for_each(|candidate| candidate.rename(uuids.1, uuids.0));
            assemble(&candidates, AssembleOptions { force, partial: false })?
        }
        assembled => assembled?,
    };
    let missing: Vec<u16> = assembly.missing().into_iter().filter(|role| assembly.had(*role)).collect();
    if !missing.is_empty() && !force {
        return Err(UpdateError::Missing { roles: missing });
    }
    let mut superblocks = Vec::with_capacity(devices.len());
    let mut writes = Vec::new();
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.sort_by_key(|&at| {
        (assembly.devices[at].superblock.role().active().is_none(), assembly.devices[at].number)
    });
    for (at, device) in assembly.devices.iter().enumerate() {
        if device.torn {
            return Err(UpdateError::Torn { label: device.label.clone() });
        }
        let bitmap = devices[at].bitmap.as_deref();
        superblocks.push(changed(&device.label, &device.superblock, device.bytes, bitmap, update, at)?);
    }
    for at in order {
        // Written anew even where the device has a copy by another UUID, which `rename` may have hidden.
        let before = devices[at].candidate.superblock().ok().map(|(superblock, _)| superblock);
        writes.extend(log_write(at, before, &superblocks[at]));
        writes.extend(bitmap_write(at, devices[at].bitmap.as_deref(), &superblocks[at], update));
        if before != Some(&superblocks[at]) {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            superblocks[at].encode(&mut bytes)?;
            writes.push(PlannedWrite { device: at, offset: superblocks[at].super_offset, bytes });
        }
    }
    Ok(Updated { assembly, superblocks, writes })
}

/// The superblock of a device after the change.
fn changed(
    label: &str,
    old: &Superblock,
    device_bytes: u64,
    bitmap: Option<&[u8]>,
    update: &Update,
    at: usize,
) -> Result<Superblock, UpdateError> {
    let mut new = old.clone();
    let refused = |why: &'static str| Err(UpdateError::Unfit { label: label.to_owned(), why });
    match update {
        Update::Name { .. } | Update::Homehost(_) if !old.version.is_v1() => return Err(UpdateError::NoName),
        Update::Name { name, .. } if name.is_empty() => {
            return Err(UpdateError::Name { name: String::new(), len: 0 });
        }
        Update::Name { name, homehost } => {
            let host = homehost.as_deref().or(split_name(&old.name).0);
            new.name = checked(full_name(host.unwrap_or_default(), name))?;
        }
        Update::Homehost(host) => new.name = checked(hosted(host, split_name(&old.name).1)?)?,
        Update::Uuid(uuid) => {
            if old
                .features
                .intersects(Features::PPL | Features::MULTIPLE_PPLS | Features::JOURNAL | Features::CLUSTERED)
            {
                return refused(
                    "has a log or a bitmap of a cluster that carries the UUID: change it with mdadm",
                );
            }
            new.set_uuid = *uuid;
        }
        Update::Resync if old.level <= 0 => return Err(UpdateError::NothingToSync),
        Update::Resync => new.resync_offset = Some(0),
        Update::Devicesize => match old.version {
            _ if old.level <= 0 => return Err(UpdateError::SizesCount),
            Version::V1_1 | Version::V1_2 => {
                let end = device_bytes / 512 * 512;
                new.data_size = end.saturating_sub(old.data_offset).max(old.component_size);
            }
            _ => return Err(UpdateError::AtTheEnd { version: old.version }),
        },
        Update::Bbl if !old.version.is_v1() => return Err(UpdateError::NoBadBlocks),
        Update::Bbl if old.bad_block_log.is_some() => {}
        Update::Bbl => {
            let own = bitmap.and_then(|page| BitmapSuper::parse(page).ok());
            let bytes = own.and_then(|own| bytes_needed(own.sync_bytes, own.chunk));
            match defaults::bad_block_log_beside(old, bytes) {
                Some(log) => new.bad_block_log = Some(log),
                None => return refused("has no room for a log of bad blocks between superblock and data"),
            }
        }
        Update::NoBbl if !old.version.is_v1() => return Err(UpdateError::NoBadBlocks),
        Update::NoBbl if old.features.contains(Features::BAD_BLOCKS) => {
            return refused(
                "has bad blocks in its log: without it they would be read as data; replace the device first",
            );
        }
        Update::NoBbl => new.bad_block_log = None,
        Update::Metadata { name, created, devices } => {
            let identity = devices.get(at).copied().unwrap_or_default();
            return converted(label, old, device_bytes, name, *created, identity);
        }
    }
    Ok(new)
}

fn checked(name: String) -> Result<String, UpdateError> {
    let len = name.len();
    if name.is_empty() || len > 32 || name.contains('\0') {
        Err(UpdateError::Name { name, len })
    } else {
        Ok(name)
    }
}

/// The name with its host: one that does not fit is refused, where `full_name` leaves the host out.
fn hosted(host: &str, own: &str) -> Result<String, UpdateError> {
    let both = format!("{host}:{own}");
    if host.is_empty() || host.contains(':') || both.len() >= 32 {
        return Err(UpdateError::Name { len: both.len(), name: both });
    }
    Ok(both)
}

/// The superblock of 1.0 beside one of 0.90, as mdadm's `--update=metadata` has it: data stay where they are.
fn converted(
    label: &str,
    old: &Superblock,
    device_bytes: u64,
    name: &str,
    created: u64,
    identity: Uuid,
) -> Result<Superblock, UpdateError> {
    let reason = match () {
        () if old.version.is_v1() => return Err(UpdateError::Converted { version: old.version }),
        () if old.resync_offset.is_some() && old.level > 0 => {
            "the array is not in sync: serve it until it is, then stop it"
        }
        () if old.bitmap_offset.is_some() => {
            "it has a write-intent bitmap: remove it with `brindle grow --bitmap none`"
        }
        () if old.reshape.is_some() => "it is being reshaped: let mdadm finish that",
        () => "",
    };
    if !reason.is_empty() {
        return Err(UpdateError::Unfit { label: label.to_owned(), why: reason });
    }
    let small = || UpdateError::Unfit { label: label.to_owned(), why: "has no room for a superblock of 1.0" };
    let mut new = Superblock::new(Version::V1_0, device_bytes).ok_or_else(small)?;
    let roles =
        old.roles.iter().map(|role| if *role == DeviceRole::Vacant { DeviceRole::Spare } else { *role });
    let mut table = vec![DeviceRole::Spare; new.roles.len().max(old.roles.len())];
    table.iter_mut().zip(roles).for_each(|(entry, role)| *entry = role);
    new.set_uuid = old.set_uuid;
    new.name = if name.is_empty() { String::new() } else { checked(name.to_owned())? };
    new.created.seconds = created.max(old.created.seconds.saturating_add(1));
    new.updated = old.updated;
    new.level = old.level;
    new.layout = old.layout;
    new.chunk = old.chunk;
    new.raid_disks = old.raid_disks;
    new.component_size = old.component_size;
    new.data_offset = 0;
    new.data_size = old.data_size;
    new.events = old.events;
    new.device_uuid = identity;
    new.device_number = old.device_number;
    new.roles = table;
    new.resync_offset = old.resync_offset;
    new.recovery_offset = old.recovery_offset;
    new.flags = old.flags;
    Ok(new)
}

/// An empty log of bad blocks, where the device has none yet.
fn log_write(device: usize, before: Option<&Superblock>, new: &Superblock) -> Option<PlannedWrite> {
    let log = new.bad_block_log.filter(|_| before.is_some_and(|before| before.bad_block_log.is_none()))?;
    let offset = new.super_offset.checked_add_signed(log.offset)?;
    Some(PlannedWrite { device, offset, bytes: vec![0xff; usize::try_from(log.size).ok()?] })
}

/// The first page of a device's bitmap, if the change concerns it.
fn bitmap_write(
    device: usize,
    page: Option<&[u8]>,
    new: &Superblock,
    update: &Update,
) -> Option<PlannedWrite> {
    let page = page?;
    let mut own = BitmapSuper::parse(page).ok()?;
    match update {
        Update::Uuid(_) => own.uuid = new.bitmap_uuid(),
        // All bits count as set then. The kernel has the same rule.
        Update::Resync => own.state = BitmapState(own.state.0 | BitmapState::STALE.0),
        _ => return None,
    }
    let mut bytes = page.to_vec();
    bytes.get_mut(..BITMAP_SUPER_BYTES)?.copy_from_slice(&own.encode()?);
    let offset = new.super_offset.checked_add_signed(new.bitmap_offset?)?;
    (bytes != page).then_some(PlannedWrite { device, offset, bytes })
}
