//! A reshape into rows of more members, as superblocks say it: its beginning, its position, and where data begin afterwards.
//!
//! All devices have the same shift, spares too: so a superblock that a cut left behind can be given what the others say.

use brindle_array::ledger::{Begin, Form, GrowError, Named, Room};
use brindle_format::md::{DeviceRole, Features, Reshape, SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::MemberId;

use super::update::IN_FIRST_SECTOR;
use super::{DeviceRecord, Superblocks};
use crate::assembly::DeviceUse;
use crate::bitmap::BitmapHome;

/// Bytes between what describes the array and the data of a device; `bitmap`: bytes that its write-intent bitmap takes.
fn room_in_front(superblock: &Superblock, bitmap: u64) -> u64 {
    if !matches!(superblock.version, Version::V1_1 | Version::V1_2) {
        return 0;
    }
    let own = superblock.super_offset + SUPERBLOCK_BYTES as u64;
    let end = |offset: i64, bytes: u64| {
        let start = superblock.super_offset.checked_add_signed(offset)?;
        (start < superblock.data_offset).then_some(start.saturating_add(bytes))
    };
    let log = superblock.bad_block_log.and_then(|log| end(log.offset, log.size));
    let bitmap = superblock.bitmap_offset.and_then(|offset| end(offset, bitmap));
    let used = own.max(log.unwrap_or(0)).max(bitmap.unwrap_or(0));
    superblock.data_offset.saturating_sub(used.next_multiple_of(4096))
}

impl Superblocks {
    /// The device with the least room in front of its data.
    pub(super) fn least_room_before(&self) -> Result<Room, GrowError> {
        let bitmap = self.bitmap_beside().map_or(0, |bitmap| bitmap.bytes());
        let devices = self.devices.borrow();
        let alive = devices.iter().filter(|device| device.is_alive());
        let rooms = alive.map(|device| Room {
            label: device.label.clone(),
            bytes: room_in_front(&device.superblock, bitmap),
        });
        rooms.min_by_key(|room| room.bytes).ok_or(GrowError::Unrecorded)
    }

    /// Whether superblocks can say that a reshape begins, and the bitmap has room beside what is moved.
    pub(super) fn check_begun(&self, form: &Form, begin: &Begin) -> Result<(), GrowError> {
        let bitmap = self.kept_bitmap();
        if let Some(file) = bitmap.as_ref().and_then(|kept| kept.file_label()) {
            return Err(GrowError::BitmapFile { file });
        }
        let mut block = [0; SUPERBLOCK_BYTES];
        let devices = self.devices.borrow();
        for device in devices.iter().filter(|device| device.is_alive()) {
            let (new, role) = begun(device, form, begin);
            let encoded = new.encode(&mut block);
            encoded.map_err(|why| GrowError::Encode { label: device.label.clone(), why: why.to_string() })?;
            if let Some(bitmap) = &bitmap {
                let is_free = |home: BitmapHome<'_>| bitmap.has_room(&home);
                if !self.home(device, &new).is_some_and(is_free) {
                    return Err(GrowError::BitmapRoom { label: device.label.clone() });
                }
            }
            // Entries in the first sector all change at once.
            if role.is_some() && new.device_number as usize >= IN_FIRST_SECTOR {
                return Err(GrowError::Unrecorded);
            }
        }
        Ok(())
    }

    /// The next update says that a reshape begins.
    pub(super) fn reshape_begins(&self, form: &Form, begin: &Begin) {
        self.bitmap_is_all_set(form, begin);
        let mut devices = self.devices.borrow_mut();
        let mut roles = self.roles.borrow_mut();
        for device in devices.iter_mut().filter(|device| device.is_alive()) {
            let (new, role) = begun(device, form, begin);
            device.superblock = new;
            let Some(role) = role else { continue };
            device.usage = DeviceUse::Active { role };
            if let Some(entry) = roles.get_mut(device.superblock.device_number as usize) {
                *entry = DeviceRole::Active(role);
            }
        }
    }

    /// Where the bitmap stands on a device, or is to stand, whose superblock is to be as given.
    fn home<'a>(&self, device: &DeviceRecord, superblock: &'a Superblock) -> Option<BitmapHome<'a>> {
        let from_superblock = device.bitmap_offset.or(superblock.bitmap_offset)?;
        let offset = superblock.super_offset.checked_add_signed(from_superblock)?;
        Some(BitmapHome { id: device.id, superblock, offset })
    }

    /// The next update names a bitmap whose bits stay set, on members that come too.
    fn bitmap_is_all_set(&self, form: &Form, begin: &Begin) {
        let (Some(kept), Ok(geometry)) = (self.kept_bitmap(), form.geometry()) else { return };
        let devices = self.devices.borrow();
        let is_member = |device: &&DeviceRecord| {
            device.is_alive() && (device.role().is_some() || begin.devices.contains(&device.id))
        };
        let members = || devices.iter().filter(is_member);
        let homes: Vec<BitmapHome<'_>> =
            members().filter_map(|device| self.home(device, &device.superblock)).collect();
        self.next.replace(Some(kept.all_set(&geometry, &homes)));
        self.staged_bitmap_offset.set(members().find_map(|device| device.bitmap_offset));
        drop(devices);
        self.say_bitmap(Named::Next);
    }

    /// The next update says that the reshape has come to a position.
    pub(super) fn reshape_reached(&self, position: u64) {
        let mut devices = self.devices.borrow_mut();
        let reshapes = devices.iter_mut().filter(|device| device.is_alive());
        reshapes
            .filter_map(|device| device.superblock.reshape.as_mut())
            .for_each(|reshape| reshape.position = position);
    }

    /// The next update says that data begin where they have been moved to.
    pub(super) fn data_begin_at_moved(&self) {
        let mut devices = self.devices.borrow_mut();
        for device in devices.iter_mut().filter(|device| device.is_alive()) {
            begin_at_moved(&mut device.superblock);
        }
    }

    /// The least shift of a member.
    pub(super) fn least_shift(&self) -> u64 {
        let devices = self.devices.borrow();
        let members = devices.iter().filter(|device| device.is_alive() && device.role().is_some());
        let shift = |sb: &Superblock| sb.data_offset.saturating_sub(sb.new_data_offset());
        members.map(|device| shift(&device.superblock)).min().unwrap_or(0)
    }

    /// Where the data of a device begin before the reshape, and after it.
    pub(super) fn data_starts(&self, id: MemberId) -> Option<(u64, u64)> {
        let devices = self.devices.borrow();
        let device = devices.iter().find(|device| device.is_alive() && device.id == id)?;
        Some((device.superblock.data_offset, device.superblock.new_data_offset()))
    }
}

/// The superblock of a device when a reshape begins, and the role that the device gets with that.
fn begun(device: &DeviceRecord, form: &Form, begin: &Begin) -> (Superblock, Option<u16>) {
    let mut new = device.superblock.clone();
    let (before, count) = (new.raid_disks, form.roles.len() as u32);
    let nth = begin.devices.iter().position(|&id| id == device.id);
    new.raid_disks = count;
    new.reshape = Some(Reshape {
        position: 0,
        new_level: new.level,
        new_layout: new.layout,
        new_chunk: new.chunk,
        delta_disks: count.cast_signed() - before.cast_signed(),
        new_offset: Some(-begin.shift.cast_signed()),
    });
    new.features = new.features.with(Features::RESHAPE_ACTIVE | Features::NEW_OFFSET, true);
    (new, nth.map(|nth| before as u16 + nth as u16))
}

/// A superblock whose data begin where a reshape has moved them, with the reshape still standing.
fn begin_at_moved(superblock: &mut Superblock) {
    let start = superblock.new_data_offset();
    superblock.data_size += superblock.data_offset.saturating_sub(start);
    superblock.data_offset = start;
    if let Some(reshape) = &mut superblock.reshape {
        reshape.new_offset = None;
    }
    superblock.features = superblock.features.with(Features::NEW_OFFSET, false);
}
