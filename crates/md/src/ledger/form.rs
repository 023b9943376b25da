//! Another shape of the array, as superblocks say it: the size of members, their number, the level.
//!
//! Superblocks of two shapes are one event apart after a cut. The newer one counts, as of any other change of the record (`assembly`),
//! and members behind it are given it before anything else is written.

use brindle_format::md::{DeviceRole, Features, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_layout::Geometry;

use super::service::Service;
use super::{DeviceRecord, Superblocks};
use crate::assembly::DeviceUse;
use crate::bitmap::{BitmapHome, next_chunk};
use brindle_array::ledger::{Form, GrowError, Named, Room};

impl DeviceRecord {
    /// The device's superblock in another shape of the array.
    fn in_shape(&self, form: &Form, device_bytes: u64) -> Superblock {
        let mut new = self.superblock.clone();
        (new.level, new.layout) = (form.level.md_number(), form.layout.md_number());
        (new.chunk, new.component_size) = (form.chunk, form.component);
        new.raid_disks = form.roles.len() as u32;
        new.reshape = None;
        new.features = new.features.without(Features::RESHAPE_ACTIVE | Features::NEW_OFFSET);
        // A device that has grown since it came says so as soon as that is used.
        if new.data_size < form.component {
            new.data_size = room(&new, device_bytes);
        }
        new
    }
}

/// Bytes that a device has for data: where its superblock stands before them, up to its end.
fn room(superblock: &Superblock, device_bytes: u64) -> u64 {
    if !matches!(superblock.version, Version::V1_1 | Version::V1_2) {
        return superblock.data_size;
    }
    let behind = |offset: Option<i64>| {
        offset.is_some_and(|at| superblock.super_offset.saturating_add_signed(at) > superblock.data_offset)
    };
    if behind(superblock.bitmap_offset) || behind(superblock.bad_block_log.map(|log| log.offset)) {
        return superblock.data_size;
    }
    let whole = device_bytes.saturating_sub(superblock.data_offset);
    superblock.data_size.max(whole - whole % 4096)
}

impl Superblocks {
    fn device_bytes(&self, device: &DeviceRecord) -> u64 {
        self.io.member_info(device.id).map_or(0, |info| info.size)
    }

    /// Bytes that each member has room for.
    pub(super) fn rooms_of_members(&self) -> Result<Vec<Room>, GrowError> {
        let devices = self.devices.borrow();
        let members = devices.iter().filter(|device| device.is_alive() && device.role().is_some());
        let room = |device: &DeviceRecord| Room {
            label: device.label.clone(),
            bytes: room(&device.superblock, self.device_bytes(device)),
        };
        Ok(members.map(room).collect())
    }

    /// Whether superblocks, and the bitmap beside them, can follow.
    pub(super) fn check_shape(&self, form: &Form) -> Result<(), GrowError> {
        if let Some(file) = self.kept_bitmap().and_then(|kept| kept.file_label()) {
            return Err(GrowError::BitmapFile { file });
        }
        let devices = self.devices.borrow();
        let mut block = [0; SUPERBLOCK_BYTES];
        let mut new = Vec::new();
        for device in devices.iter().filter(|device| device.is_alive()) {
            let superblock = device.in_shape(form, self.device_bytes(device));
            let encoded = superblock.encode(&mut block);
            encoded.map_err(|why| GrowError::Encode { label: device.label.clone(), why: why.to_string() })?;
            new.push((device, superblock));
        }
        if !self.identity.version.is_v1() && form.roles.len() != self.recorded_roles() {
            return Err(GrowError::Metadata);
        }
        let Some(kept) = self.kept_bitmap() else { return Ok(()) };
        let geometry = form.geometry()?;
        let homes = homes(&new, form);
        next_chunk(&self.io, &geometry, &homes, kept.chunk()).map(drop).map_err(|at| {
            let device = devices.iter().find(|device| homes.get(at).is_some_and(|home| home.id == device.id));
            GrowError::BitmapRoom { label: device.map(|device| device.label.clone()).unwrap_or_default() }
        })
    }

    /// Roles of the array by its superblocks.
    fn recorded_roles(&self) -> usize {
        let devices = self.devices.borrow();
        devices
            .iter()
            .find(|device| device.is_alive())
            .map_or(0, |device| device.superblock.raid_disks as usize)
    }

    /// The next update says that the array has this shape.
    pub(super) fn take_shape(&self, form: &Form, geometry: &Geometry, in_doubt: Option<u64>) {
        let kept = self.kept_bitmap();
        let mut devices = self.devices.borrow_mut();
        let alive = || devices.iter().filter(|device| device.is_alive());
        let new: Vec<(&DeviceRecord, Superblock)> =
            alive().map(|device| (device, device.in_shape(form, self.device_bytes(device)))).collect();
        if let Some(kept) = kept {
            let homes = homes(&new, form);
            if let Ok(plan) = next_chunk(&self.io, geometry, &homes, kept.chunk()) {
                self.next.replace(Some(kept.grown(geometry, &homes, plan, in_doubt)));
                self.staged_bitmap_offset.set(alive().find_map(|device| device.bitmap_offset));
            }
        }
        let new: Vec<Superblock> = new.into_iter().map(|(_, superblock)| superblock).collect();
        let alive = devices.iter_mut().filter(|device| device.is_alive());
        let mut roles = self.roles.borrow_mut();
        for (device, superblock) in alive.zip(new) {
            device.superblock = superblock;
            let DeviceUse::Active { role } = device.usage else { continue };
            let number = device.superblock.device_number as usize;
            let (usage, entry) = match next_role(form, role) {
                Some(role) => (DeviceUse::Active { role }, DeviceRole::Active(role)),
                // Its content is of no use any more.
                None => (DeviceUse::Spare, DeviceRole::Spare),
            };
            device.usage = usage;
            if let Some(known) = roles.get_mut(number) {
                *known = entry;
            }
        }
        drop((devices, roles));
        if form.roles.iter().zip(0..).any(|(from, role)| from.is_some_and(|from| from != role)) {
            self.filled.borrow_mut().clear();
            let mut service = Service::since(self.events.get());
            form.roles
                .iter()
                .zip(0..)
                .filter(|(from, _)| from.is_some())
                .for_each(|(_, role)| service.begin(role, 0));
            self.service.replace(service);
        }
        self.identity.component_size.set(form.component);
        if self.next.borrow().is_some() {
            self.say_bitmap(Named::Next);
        }
    }
}

/// The role in another shape of the member that has this one now.
fn next_role(form: &Form, role: u16) -> Option<u16> {
    form.roles.iter().position(|from| *from == Some(role)).map(|next| next as u16)
}

/// Where the bitmap stands on members, by their superblocks in the next shape.
fn homes<'a>(devices: &'a [(&DeviceRecord, Superblock)], form: &Form) -> Vec<BitmapHome<'a>> {
    let home = |(device, superblock): &'a (&DeviceRecord, Superblock)| {
        let offset = superblock.super_offset.checked_add_signed(superblock.bitmap_offset?)?;
        let is_member = device.role().is_some_and(|role| next_role(form, role).is_some());
        is_member.then_some(BitmapHome { id: device.id, superblock, offset })
    };
    devices.iter().filter_map(home).collect()
}
