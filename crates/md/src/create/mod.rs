//! The writes that make a new array. Pure: no I/O, no clock, no random source; the caller gives time and identities,
//! and carries the plan out.
//!
//! Where things stand and how sizes are rounded follows mdadm 4.2 ([`brindle_format::md::defaults`]).

mod error;
mod size;
mod write;

use brindle_format::md::defaults::MAX_WRITE_BEHIND;
use brindle_format::md::{
    DEFAULT_MAX_DEV_1, DeviceFlags, DeviceRole, Features, SUPERBLOCK_BYTES, Superblock, Timestamp, Uuid,
    Version,
    defaults::{self, Consistency, Placement},
};
use brindle_io::MemberInfo;
use brindle_layout::{Geometry, GeometryError, Layout, Level, Raid0Layout};

pub use crate::bitmap::create::NewBitmap;
pub use error::{CreateError, TooSmall};
pub use write::PlanError;

use crate::bitmap::create as bitmap;
use size::Sizes;

/// A device that becomes a member.
#[derive(Clone, Debug)]
pub struct NewMember {
    /// The name in messages.
    pub label: String,
    /// The device's size and block sizes, as the reactor gives them.
    pub info: MemberInfo,
    /// Its identity, random; not recorded in 0.90.
    pub uuid: Uuid,
    /// Offsets of other md superblocks on the device. They are zeroed, so that the device has only one.
    pub old_superblocks: Vec<u64>,
    /// Its flags.
    pub flags: DeviceFlags,
}

/// The array that is wanted.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Version of the metadata.
    pub version: Version,
    /// Level.
    pub level: Level,
    /// Layout; `None` for what mdadm chooses.
    pub layout: Option<Layout>,
    /// Chunk in bytes; `None` for what mdadm chooses.
    pub chunk: Option<u64>,
    /// Bytes to use of each member; `None` for as many as the smallest has. Rounded down to whole chunks.
    pub size: Option<u64>,
    /// Byte of each member at which data begin; `None` for what mdadm chooses.
    pub data_offset: Option<u64>,
    /// Write-intent bitmap.
    pub bitmap: NewBitmap,
    /// Limit of write-behind, of RAID 1 with a bitmap; 0: none.
    pub write_behind: u32,
    /// Name, without host.
    pub name: String,
    /// Host to put before the name.
    pub homehost: Option<String>,
    /// The device of each role; `None`: missing.
    pub roles: Vec<Option<NewMember>>,
    /// Devices that wait.
    pub spares: Vec<NewMember>,
    /// Redundancy is in sync already, or the user says so.
    pub assume_clean: bool,
    /// Identity of the array, random.
    pub uuid: Uuid,
    /// Seconds since 1970.
    pub now: u64,
}

/// Bytes to write to one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedWrite {
    /// The device: its number among those given, roles in order (missing ones not counted), then spares.
    pub device: usize,
    /// Byte of the device.
    pub offset: u64,
    /// The bytes; whole blocks of 4 KiB.
    pub bytes: Vec<u8>,
}

/// The writes that make the array.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the array's bytes live.
    pub geometry: Geometry,
    /// Byte of each device at which data begin.
    pub data_offset: u64,
    /// Bytes used of each member as recorded; 0 for linear and RAID 0.
    pub component_size: u64,
    /// Redundancy is not known to be in sync: the array needs a resync.
    pub needs_resync: bool,
    /// Zeroes over old superblocks: to be written, and flushed, first.
    pub wipes: Vec<PlannedWrite>,
    /// The write-intent bitmap on each device, in pages: to be written before the superblocks, which say that it is there.
    pub bitmaps: Vec<PlannedWrite>,
    /// Content of the bitmap's file, if the bitmap is in one. It has to be on stable storage before the superblocks,
    /// too.
    pub bitmap_file: Option<Vec<u8>>,
    /// The new superblocks.
    pub superblocks: Vec<PlannedWrite>,
}

impl Plan {
    /// All that is to be written, in its order, each to stable storage before the next of the same device.
    pub fn writes(&self) -> impl Iterator<Item = &PlannedWrite> {
        self.wipes.iter().chain(&self.bitmaps).chain(&self.superblocks)
    }
}

/// Works out what to write for the array that is wanted.
///
/// # Errors
/// Each kind of [`CreateError`]; it names what is wrong and the way out. Nothing is written here in any case.
pub fn plan(spec: &CreateSpec) -> Result<Plan, CreateError> {
    check_counts(spec)?;
    let name = full_name(spec)?;
    let sizes = Sizes::of(spec)?;
    let geometry = sizes.geometry(spec)?;
    check_missing(spec, &geometry)?;
    if spec.write_behind > 0 && sizes.bitmap.is_none() {
        return Err(CreateError::WriteBehindUnmarked);
    }
    let needs_resync = needs_resync(spec, &geometry);
    let template = template(spec, name, &sizes, &geometry, needs_resync)?;
    let (mut superblocks, mut bitmaps, mut wipes) = (Vec::new(), Vec::new(), Vec::new());
    let (in_file, mut bitmap_file) = (matches!(spec.bitmap, NewBitmap::File { .. }), None);
    for (device, (number, role, member)) in devices(spec).enumerate() {
        let placement = sizes.placements.get(device).ok_or(CreateError::NoMembers)?;
        let superblock = superblock(&template, number, role, member, placement);
        match &sizes.bitmap {
            Some(plan) if in_file => {
                bitmap_file = bitmap::file(&superblock, plan, &geometry, spec.write_behind);
            }
            Some(plan) => {
                let pages = bitmap::pages(&superblock, plan, &geometry, spec.write_behind);
                bitmaps.extend(pages.into_iter().map(|(offset, bytes)| PlannedWrite {
                    device,
                    offset,
                    bytes,
                }));
            }
            None => {}
        }
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        superblock.encode(&mut bytes)?;
        superblocks.push(PlannedWrite { device, offset: placement.super_offset, bytes });
        let old = member.old_superblocks.iter().filter(|&&offset| offset != placement.super_offset);
        wipes.extend(old.map(|&offset| PlannedWrite { device, offset, bytes: vec![0; SUPERBLOCK_BYTES] }));
    }
    Ok(Plan {
        geometry,
        data_offset: sizes.data_offset,
        component_size: sizes.component,
        needs_resync,
        wipes,
        bitmaps,
        bitmap_file,
        superblocks,
    })
}

/// Whether anything is left that could disagree, and is not known to agree.
fn needs_resync(spec: &CreateSpec, geometry: &Geometry) -> bool {
    let missing = spec.roles.iter().filter(|member| member.is_none()).count();
    let redundant = match spec.level {
        Level::Linear | Level::Raid0 => false,
        Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 => {
            missing < usize::from(geometry.tolerance())
        }
        // Which copies are left depends on which members are missing; one resync too many does no harm.
        Level::Raid10 => true,
    };
    redundant && !spec.assume_clean
}

/// The given devices with their numbers in the array and their roles.
fn devices(spec: &CreateSpec) -> impl Iterator<Item = (u32, DeviceRole, &NewMember)> {
    let active = (0u16..)
        .zip(&spec.roles)
        .filter_map(|(role, m)| Some((u32::from(role), DeviceRole::Active(role), m.as_ref()?)));
    let spares = (spec.roles.len() as u32..).zip(&spec.spares).map(|(n, m)| (n, DeviceRole::Spare, m));
    active.chain(spares)
}

fn check_counts(spec: &CreateSpec) -> Result<(), CreateError> {
    if spec.roles.iter().all(Option::is_none) {
        return Err(CreateError::NoMembers);
    }
    let count = spec.roles.len() + spec.spares.len();
    let max = match spec.version {
        Version::V0_90(_) => brindle_format::md::MAX_DEVICES_0_90,
        _ => brindle_format::md::MAX_DEVICES_1,
    };
    if count > max {
        return Err(CreateError::TooManyDevices { version: spec.version, count, max });
    }
    // A mirror that shrank to one member can be assembled, but is not created.
    if spec.level == Level::Raid1 && spec.roles.len() < 2 {
        let (level, members) = (spec.level, spec.roles.len());
        return Err(GeometryError::TooFewMembers { level, members, min: 2 }.into());
    }
    if !spec.level.is_redundant() && !spec.spares.is_empty() {
        return Err(CreateError::SparesWithoutRedundancy { level: spec.level });
    }
    if spec.write_behind > 0 && spec.level != Level::Raid1 {
        return Err(CreateError::WriteBehind { level: spec.level });
    }
    if spec.write_behind > MAX_WRITE_BEHIND {
        return Err(CreateError::TooManyWriteBehind { count: spec.write_behind });
    }
    let mostly = spec.roles.iter().flatten().chain(&spec.spares).find(|member| member.flags.write_mostly);
    if let Some(member) = mostly.filter(|_| spec.level != Level::Raid1) {
        return Err(CreateError::WriteMostly { label: member.label.clone(), level: spec.level });
    }
    Ok(())
}

fn check_missing(spec: &CreateSpec, geometry: &Geometry) -> Result<(), CreateError> {
    let missing: Vec<u16> =
        (0u16..).zip(&spec.roles).filter_map(|(role, m)| m.is_none().then_some(role)).collect();
    if !geometry.can_lose(&missing) {
        return Err(CreateError::TooManyMissing { level: spec.level, roles: missing });
    }
    // md starts no parity array that is dirty and degraded.
    let parity = matches!(spec.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
    if parity && !missing.is_empty() && needs_resync(spec, geometry) {
        return Err(CreateError::MissingNeedsAssumeClean { level: spec.level });
    }
    Ok(())
}

fn full_name(spec: &CreateSpec) -> Result<String, CreateError> {
    let name = match &spec.homehost {
        Some(host) if spec.version.is_v1() && !host.is_empty() && !spec.name.is_empty() => {
            format!("{host}:{}", spec.name)
        }
        _ => spec.name.clone(),
    };
    if !spec.version.is_v1() && !name.is_empty() {
        return Err(CreateError::NameIn090);
    }
    // mdadm leaves the host out when both do not fit.
    if name.len() > 32 && spec.name.len() <= 32 {
        return Ok(spec.name.clone());
    }
    if name.len() > 32 || name.contains('\0') {
        return Err(CreateError::Name { name: spec.name.clone(), len: spec.name.len() });
    }
    Ok(name)
}

/// The fields that all superblocks of the array have in common.
fn template(
    spec: &CreateSpec,
    name: String,
    sizes: &Sizes,
    geometry: &Geometry,
    needs_resync: bool,
) -> Result<Superblock, CreateError> {
    let smallest = devices(spec).map(|(_, _, m)| m.info.size).min().unwrap_or(0);
    let small = || CreateError::Small(error::TooSmall::superblock(spec, smallest));
    let mut sb = Superblock::new(spec.version, smallest).ok_or_else(small)?;
    sb.set_uuid = spec.uuid;
    sb.name = name;
    sb.created = Timestamp { seconds: spec.now, micros: 0 };
    sb.updated = sb.created;
    sb.level = spec.level.md_number();
    sb.layout = geometry.layout().md_number();
    sb.chunk = sizes.chunk;
    sb.raid_disks = spec.roles.len() as u32;
    sb.component_size = sizes.component;
    sb.resync_offset = needs_resync.then_some(0);
    sb.roles = table(spec);
    if spec.version.is_v1() && sizes.multi_zone(spec) {
        sb.features |= Features::RAID0_LAYOUT;
    }
    Ok(sb)
}

/// The table of roles, as mdadm fills it.
fn table(spec: &CreateSpec) -> Vec<DeviceRole> {
    let count = spec.roles.len() + spec.spares.len();
    // 0.90 marks an empty place as failed and removed; 1.x leaves its entry unused.
    let (len, absent) = match spec.version {
        Version::V0_90(_) => (count, DeviceRole::Vacant),
        _ => (defaults::max_dev(count).unwrap_or(DEFAULT_MAX_DEV_1), DeviceRole::Spare),
    };
    let mut roles = vec![DeviceRole::Spare; len.max(count)];
    for ((role, member), entry) in (0u16..).zip(&spec.roles).zip(&mut roles) {
        *entry = if member.is_some() { DeviceRole::Active(role) } else { absent };
    }
    roles
}

/// The superblock of one device.
fn superblock(
    template: &Superblock,
    number: u32,
    role: DeviceRole,
    member: &NewMember,
    placement: &Placement,
) -> Superblock {
    let mut sb = template.clone();
    sb.device_number = number;
    debug_assert_eq!(sb.role(), role, "the table knows the device");
    if sb.version.is_v1() {
        sb.device_uuid = member.uuid;
    }
    sb.flags = member.flags;
    placement.apply(&mut sb);
    sb
}

/// The layout, mdadm's unless told otherwise.
fn layout(spec: &CreateSpec) -> Layout {
    match (spec.layout, spec.level) {
        (Some(Layout::None), Level::Raid0) | (None, Level::Raid0) => Layout::Raid0(Raid0Layout::Original),
        (Some(layout), _) => layout,
        (None, level) => Layout::default_for(level),
    }
}

/// The space that each device reserves besides the data, by mdadm's rules: space for a bitmap is always left.
const CONSISTENCY: Consistency = Consistency::Resync;
