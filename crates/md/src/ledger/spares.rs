//! Records devices that are added, removed, or become members of a role, from spare to in sync, as superblocks have
//! it (`super_1_sync` and `super_90_sync` in the kernel's `md.c`).

use brindle_format::md::defaults;
use brindle_format::md::{DeviceFlags, DeviceRole, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::MemberId;
use brindle_members::members::Device;

use super::bad_log::BadLog;
use super::newcomer::Newcomer;
use super::update::IN_FIRST_SECTOR;
use super::{DeviceRecord, Superblocks};
use crate::assembly::DeviceUse;
use brindle_array::ledger::AddError;

impl DeviceRecord {
    /// Records how much of its data the device holds from now on.
    pub(super) fn recovered_to(&mut self, upto: u64) {
        let upto = self.recovery_offset.map_or(upto, |held| held.max(upto));
        self.recovery_offset = Some(upto).filter(|&upto| upto != u64::MAX || !self.replaces());
        match &mut self.usage {
            DeviceUse::Recovering { upto: known, .. } | DeviceUse::Replacement { upto: known, .. } => {
                *known = upto;
            }
            _ => {}
        }
    }
}

impl Superblocks {
    /// Whether a device is a spare that has room for what a member holds.
    fn waits(&self, device: &DeviceRecord) -> bool {
        let room = device.superblock.data_size >= self.identity.component_size.get();
        device.is_alive() && device.usage == DeviceUse::Spare && room && self.may_have_bitmap(device)
    }

    /// Whether a device has room for the bitmap, if there is one.
    fn may_have_bitmap(&self, device: &DeviceRecord) -> bool {
        self.bitmap_beside().is_none_or(|bitmap| self.bitmap_place(&bitmap, device).is_some())
    }

    /// Writes the bitmap, if any, to a device before its superblock names its new part.
    pub(super) fn give_bitmap(&self, device: &DeviceRecord) {
        if let Some(bitmap) = self.bitmap_beside()
            && let Some(place) = self.bitmap_place(&bitmap, device)
        {
            bitmap.give(device.id, place);
        }
    }

    /// A device becomes a spare: with the data area of the others, and a number of its own.
    pub(super) fn enrol(&self, new: Newcomer) -> Result<(), AddError> {
        let Newcomer { label, id, bytes, uuid, old_superblocks, .. } = new;
        let Some(number) = self.free_number() else {
            return Err(AddError::Full { label, most: self.most_devices() });
        };
        let mut superblock = self.superblock_of_new(id, bytes).ok_or_else(|| AddError::Small {
            label: label.clone(),
            has: bytes,
            need: self.identity.component_size.get(),
        })?;
        let mut roles = self.roles.borrow().clone();
        roles.resize(roles.len().max(number as usize + 1), self.unused());
        roles[number as usize] = DeviceRole::Spare;
        let device_uuid = if self.identity.version.is_v1() { uuid } else { superblock.device_uuid };
        superblock.device_number = number;
        superblock.device_uuid = device_uuid;
        superblock.roles.clone_from(&roles);
        let mut block = [0; SUPERBLOCK_BYTES];
        superblock
            .encode(&mut block)
            .map_err(|why| AddError::Encode { label: label.clone(), why: why.to_string() })?;
        self.roles.replace(roles);
        let bad_log = BadLog::of(&superblock, None);
        self.devices.borrow_mut().push(DeviceRecord {
            label,
            id,
            usage: DeviceUse::Spare,
            failure: None,
            super_offset: superblock.super_offset,
            bitmap_offset: superblock.bitmap_offset,
            superblock,
            recovery_offset: None,
            guided: false,
            returns: false,
            image: Box::new([0; SUPERBLOCK_BYTES]),
            count: None,
            buf: self.io.pool(SUPERBLOCK_BYTES).try_alloc(SUPERBLOCK_BYTES),
            fresh: true,
            bad_log,
            flags: DeviceFlags::default(),
            old: old_superblocks,
        });
        Ok(())
    }

    /// The superblock for a new device of `bytes`; none if the device is too small.
    pub(super) fn superblock_of_new(&self, id: MemberId, bytes: u64) -> Option<Superblock> {
        let devices = self.devices.borrow();
        let like = &devices.iter().find(|device| device.is_alive() && device.role().is_some())?.superblock;
        let bitmap = self.bitmap_beside().map(|bitmap| bitmap.bytes());
        let placement = defaults::place_joining(like, bytes, bitmap)?;
        let mut new = Superblock::new(like.version, bytes)?;
        new.set_uuid = like.set_uuid;
        new.name.clone_from(&like.name);
        new.created = like.created;
        new.updated = like.updated;
        new.level = like.level;
        new.layout = like.layout;
        new.chunk = like.chunk;
        new.raid_disks = like.raid_disks;
        new.component_size = like.component_size;
        new.resync_offset = like.resync_offset;
        new.events = like.events;
        new.logical_block_size = like.logical_block_size;
        placement.apply(&mut new);
        if let Some(bitmap) = self.bitmap_beside() {
            bitmap.place(id, &new)?;
        }
        (new.data_size >= new.component_size).then_some(new)
    }

    /// A device that fills no role is none of the array's any more.
    pub(super) fn dismiss(&self, id: MemberId) -> bool {
        let mut devices = self.devices.borrow_mut();
        let Some(at) = devices.iter().position(|device| device.id == id) else { return false };
        if devices[at].is_alive() && devices[at].usage != DeviceUse::Spare {
            return false;
        }
        let number = devices.remove(at).superblock.device_number as usize;
        let in_first = self.identity.version.is_v1() && number < IN_FIRST_SECTOR;
        // Another device may have its number by now.
        let alone = devices.iter().all(|device| device.superblock.device_number as usize != number);
        if let Some(entry) = self.roles.borrow_mut().get_mut(number)
            && in_first
            && alone
        {
            *entry = DeviceRole::Spare;
        }
        drop(devices);
        self.put_numbers_right();
        true
    }

    /// Spares that could replace a member.
    pub(super) fn waiting(&self) -> Vec<Device> {
        let devices = self.devices.borrow();
        let waiting = devices.iter().filter(|device| self.waits(device));
        waiting.map(|device| Device { id: device.id, data_offset: device.superblock.data_offset }).collect()
    }

    /// A device gets a role, and holds nothing of it: what 0.90 can't say.
    pub(super) fn give_role(&self, role: u16, id: MemberId) {
        if matches!(self.identity.version, Version::V0_90(_)) {
            return;
        }
        self.with_spare(id, |device| {
            device.usage = DeviceUse::Recovering { role, upto: 0 };
            device.recovery_offset = Some(0);
            self.give_bitmap(device);
            // Entries that its log had in an earlier life are dropped.
            device.bad_log = BadLog::of(&device.superblock, None);
            self.enter(device, role);
        });
    }

    /// A device stands beside the member of a role from now on, and holds nothing of it: what 0.90 can't say.
    pub(super) fn place_second(&self, role: u16, id: MemberId) -> bool {
        let mut placed = false;
        if self.identity.version.is_v1() {
            self.with_spare(id, |device| {
                device.usage = DeviceUse::Replacement { role, upto: 0 };
                device.recovery_offset = Some(0);
                self.give_bitmap(device);
                self.enter(device, role);
                placed = true;
            });
        }
        placed
    }

    /// A device holds all that its role should; false if it is not known.
    pub(super) fn fill_role(&self, role: u16, id: MemberId) -> bool {
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|device| device.is_alive() && device.id == id) else {
            return false;
        };
        if !self.may_have_bitmap(device) {
            return false;
        }
        device.usage = DeviceUse::Active { role };
        (device.recovery_offset, device.guided) = (None, false);
        self.give_bitmap(device);
        self.enter(device, role);
        drop(devices);
        self.put_numbers_right();
        true
    }

    fn with_spare(&self, id: MemberId, change: impl FnOnce(&mut DeviceRecord)) {
        let mut devices = self.devices.borrow_mut();
        let is_it = |device: &&mut DeviceRecord| device.id == id && self.waits(device);
        if let Some(device) = devices.iter_mut().find(is_it) {
            change(device);
        }
    }

    /// The table has the device in this role from the next update on.
    pub(super) fn enter(&self, device: &DeviceRecord, role: u16) {
        self.filled.borrow_mut().insert(role, (device.superblock.device_uuid, self.events.get()));
        self.service.borrow_mut().begin(role, self.events.get().saturating_add(1));
        if let Some(entry) = self.roles.borrow_mut().get_mut(device.superblock.device_number as usize) {
            *entry = DeviceRole::Active(role);
        }
    }
}
