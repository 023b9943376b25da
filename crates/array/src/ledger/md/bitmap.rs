//! What superblocks say of the array's write-intent bitmap when it comes, and when it goes.

use std::rc::Rc;

use brindle_format::md::{DeviceRole, SUPERBLOCK_BYTES};
use brindle_layout::Geometry;

use super::{Kept, Superblocks};
use crate::assembly::{AssembledDevice, Recorded};
use crate::bitmap::{Beside, Bitmap, plan, plan_head};
use crate::ledger::{BitmapError, BitmapSpec};

/// A device that the update has not reached which gave the array a bitmap, or took it away, is given what that said when it is
/// brought up. So is a spare that such an update reached alone: those whom the members say nothing of count for nothing, however
/// high their count.
pub(super) fn level_bitmap(mut device: AssembledDevice, events: u64, recorded: &Recorded) -> AssembledDevice {
    let superblock = &mut device.superblock;
    let is_told = match superblock.role() {
        DeviceRole::Active(_) => superblock.events < events,
        DeviceRole::Spare => true,
        _ => false,
    };
    if is_told {
        superblock.bitmap_offset =
            recorded.bitmap_offset.map(|common| superblock.bitmap_offset.unwrap_or(common));
    }
    device
}

impl Superblocks {
    /// The array's bitmap, whether superblocks name it yet or not.
    pub(super) fn kept_bitmap(&self) -> Option<Rc<Bitmap>> {
        self.bitmap.borrow().clone()
    }

    /// Where the bitmap stands on a device, or is to stand, if there is one and room for it.
    pub(super) fn bitmap_place(&self, bitmap: &Bitmap, device: &Kept) -> Option<u64> {
        let offset = device.bitmap_offset.or(self.coming.get())?;
        bitmap.place_at(device.id, &device.superblock, offset)
    }

    /// Plans a bitmap that has room on all devices, spares too.
    pub(super) fn lay_out_bitmap(
        &self,
        geometry: &Geometry,
        spec: BitmapSpec,
    ) -> Result<Rc<Bitmap>, BitmapError> {
        let BitmapSpec { chunk, write_behind } = spec;
        if self.bitmap.borrow().is_some() {
            return Err(BitmapError::Present);
        }
        let devices = self.devices.borrow();
        let alive: Vec<&Kept> = devices.iter().filter(|device| device.alive).collect();
        let beside =
            Beside::of(alive.iter().map(|device| &device.superblock)).ok_or(BitmapError::Unrecorded)?;
        let least = alive[beside.least];
        let room =
            |device: &Kept| BitmapError::Room { label: device.label.clone(), chunk, room: beside.room };
        let (plan, offset) =
            plan(geometry, beside.room, chunk, &least.superblock).ok_or_else(|| room(least))?;
        self.check_named(&alive, offset)?;
        let place = |device: &Kept| device.superblock.super_offset.checked_add_signed(offset);
        let members = alive.iter().filter(|device| device.role().is_some());
        let targets = members.filter_map(|device| Some((device.id, place(device)?)));
        let mut head = plan_head(geometry, &least.superblock, plan);
        head.write_behind = write_behind;
        let bitmap = Bitmap::planned(&self.io, geometry, head, plan, targets, self.patience);
        let cramped = |device: &&&Kept| bitmap.place_at(device.id, &device.superblock, offset).is_none();
        if let Some(device) = alive.iter().find(cramped) {
            return Err(room(device));
        }
        self.coming.set(Some(offset));
        self.bitmap.replace(Some(Rc::clone(&bitmap)));
        Ok(bitmap)
    }

    /// Whether superblocks can say where the bitmap stands.
    fn check_named(&self, devices: &[&Kept], offset: i64) -> Result<(), BitmapError> {
        let mut block = [0; SUPERBLOCK_BYTES];
        for device in devices {
            let mut superblock = device.superblock.clone();
            superblock.bitmap_offset = Some(offset);
            let encoded = superblock.encode(&mut block);
            encoded.map_err(|why| BitmapError::Encode { label: device.label.clone(), why })?;
        }
        Ok(())
    }

    /// The next update names the bitmap, or none. What names none may name it again as long as it is not forgotten.
    pub(super) fn say_bitmap(&self, named: bool) {
        let mut devices = self.devices.borrow_mut();
        let mut alive = devices.iter_mut().filter(|device| device.alive);
        if named {
            let offset = self.coming.take();
            alive.for_each(|device| device.bitmap_offset = device.bitmap_offset.or(offset));
            return;
        }
        if let Some(offset) = alive.find_map(|device| device.bitmap_offset) {
            self.coming.set(Some(offset));
        }
        devices.iter_mut().for_each(|device| device.bitmap_offset = None);
    }
}
