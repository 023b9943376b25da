//! Descriptions of arrays. All that reports, advice and checks say of an array by the records on its members comes from here.
//! In this crate only this file knows md's assembly, in the program `devices/world/assembled.rs`.

use brindle_array::ledger::Limit;
use brindle_array::{DeviceUse, Flags};
use brindle_format::md::{Features, Superblock, Uuid, display_uuid};
use brindle_layout::{Geometry, Layout, Level};
use brindle_md::assembly::{AssembledDevice, Assembly};
use brindle_md::treatment;

use crate::status::{ArrayFacts, ReshapeFacts, homehost};

/// An array as its members describe it. Sizes and offsets are in bytes.
#[derive(Clone, Debug)]
pub struct ArrayDescription {
    /// Fields that stay the same while it runs.
    pub facts: ArrayFacts,
    /// Its identity, which `facts` has as text.
    pub uuid: Uuid,
    /// Where its bytes live.
    pub geometry: Geometry,
    /// Bytes used of each member as recorded; 0 for levels that use all of each.
    pub component_size: u64,
    /// The highest event count.
    pub events: u64,
    /// mdadm's words for its state.
    pub state: Vec<&'static str>,
    /// The kernel's word for how redundancy is kept true over a crash.
    pub consistency_policy: &'static str,
    /// Its write-intent bitmap, if that was looked into.
    pub bitmap: Option<BitmapDescription>,
    /// From where on redundancy may be untrue.
    pub in_doubt: Option<u64>,
    /// From where on the members say so: also where that was overruled, by force or by a log.
    pub resync_offset: Option<u64>,
    /// Roles that no device fills.
    pub missing: Vec<u16>,
    /// Reasons why it is not written to, or why its content is less certain.
    pub limits: Vec<Limit>,
    /// The given devices, in the given order.
    pub devices: Vec<DescribedDevice>,
}

/// A write-intent bitmap. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct BitmapDescription {
    /// The file that has it; none if it stands beside each superblock.
    pub file: Option<String>,
    /// The bitmap has missed something: all of its bits count as set.
    pub stale: bool,
    /// Bytes that a bit stands for.
    pub chunk: u64,
    /// Bits.
    pub bits: u64,
    /// Writes that may lag behind on members that are write-mostly.
    pub write_behind: u32,
}

/// A device of an array. Sizes and offsets are in bytes.
#[derive(Clone, Debug)]
pub struct DescribedDevice {
    /// The name in messages.
    pub label: String,
    /// Its number among the devices of the array.
    pub number: u32,
    /// Its use in the array.
    pub usage: DeviceUse,
    /// Its event count.
    pub events: u64,
    /// Its size.
    pub size: u64,
    /// Where its data begin.
    pub data_offset: u64,
    /// Where its superblock stands.
    pub super_offset: u64,
    /// Its own UUID; 0.90 has none.
    pub uuid: Option<String>,
    /// Its flags.
    pub flags: Flags,
}

impl ArrayDescription {
    /// The description that an assembly gives.
    pub fn of(assembly: &Assembly) -> Self {
        let resync_offset = assembly.in_doubt().or_else(|| assembly.overruled());
        Self {
            facts: facts(assembly),
            uuid: assembly.uuid,
            geometry: assembly.geometry.clone(),
            component_size: assembly.component_size,
            events: assembly.events,
            state: state_words(assembly, resync_offset),
            consistency_policy: consistency(assembly),
            bitmap: bitmap(assembly),
            in_doubt: assembly.in_doubt(),
            resync_offset,
            missing: assembly.missing(),
            limits: assembly.limits.iter().map(Limit::from).collect(),
            devices: assembly.devices.iter().map(DescribedDevice::of).collect(),
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.geometry.level()
    }
}

impl DescribedDevice {
    fn of(device: &AssembledDevice) -> Self {
        let superblock = &device.superblock;
        Self {
            label: device.label.clone(),
            number: superblock.device_number,
            usage: device.usage,
            events: superblock.events,
            size: device.bytes,
            data_offset: superblock.data_offset,
            super_offset: device.super_offset,
            uuid: superblock.version.is_v1().then(|| display_uuid(superblock.device_uuid).to_string()),
            flags: treatment(superblock.flags),
        }
    }
}

fn facts(assembly: &Assembly) -> ArrayFacts {
    let geometry = &assembly.geometry;
    let level = geometry.level();
    let newest = newest(assembly);
    ArrayFacts {
        uuid: display_uuid(assembly.uuid).to_string(),
        name: assembly.name.clone(),
        homehost: homehost(&assembly.name),
        metadata: assembly.version.to_string(),
        level: level.name().into(),
        layout: (geometry.layout() != Layout::None).then(|| geometry.layout().name()),
        chunk: (!matches!(level, Level::Linear | Level::Raid1)).then(|| geometry.chunk()),
        size: assembly.size(),
        component_size: level.is_redundant().then_some(assembly.component_size),
        raid_devices: assembly.roles.len(),
        created: newest.map_or(0, |superblock| superblock.created.seconds),
        updated: newest.map_or(0, |superblock| superblock.updated.seconds),
        reshape: newest.and_then(ReshapeFacts::of),
        limits: assembly.limits.iter().map(ToString::to_string).collect(),
    }
}

/// The superblock with the highest event count.
fn newest(assembly: &Assembly) -> Option<&Superblock> {
    let newest = assembly.devices.iter().max_by_key(|device| device.superblock.events);
    newest.map(|device| &device.superblock)
}

fn consistency(assembly: &Assembly) -> &'static str {
    if assembly.bitmap_file.is_some() {
        return "bitmap";
    }
    let Some(sb) = newest(assembly) else { return "unknown" };
    match sb.features {
        _ if !assembly.geometry.level().is_redundant() => "none",
        features if features.contains(Features::JOURNAL) => "journal",
        features if features.intersects(Features(Features::PPL.0 | Features::MULTIPLE_PPLS.0)) => "ppl",
        _ if sb.bitmap_offset.is_some() => "bitmap",
        _ => "resync",
    }
}

fn bitmap(assembly: &Assembly) -> Option<BitmapDescription> {
    let bitmap = assembly.bitmap.as_ref()?;
    Some(BitmapDescription {
        file: assembly.bitmap_file.as_ref().map(|file| file.label.clone()),
        stale: assembly.is_bitmap_file_stale(),
        chunk: bitmap.chunk,
        bits: bitmap.bits(),
        write_behind: bitmap.write_behind,
    })
}

/// Forced, the array counts as clean; the state of its members is another matter.
fn state_words(assembly: &Assembly, resync_offset: Option<u64>) -> Vec<&'static str> {
    let clean = resync_offset.is_none();
    let also = [
        (!assembly.degraded().is_empty(), "degraded"),
        (!clean, "needs resync"),
        (assembly.reshaping.is_some(), "reshaping"),
        (!assembly.writable(), "read-only"),
    ];
    let first = if clean { "clean" } else { "active" };
    std::iter::once(first).chain(also.into_iter().filter_map(|(is, word)| is.then_some(word))).collect()
}
