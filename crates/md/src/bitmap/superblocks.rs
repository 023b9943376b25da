//! The fields of superblocks that name the array's write-intent bitmap, when it is added and when it is removed.

use std::rc::Rc;

use brindle_format::md::bitmap::BitmapSuper;
use brindle_format::md::defaults::{BitmapPlan, bitmap_room_beside};
use brindle_format::md::{SUPERBLOCK_BYTES, Superblock};
use brindle_io::OpError;
use brindle_layout::Geometry;

use super::{Beside, Bitmap, plan, plan_file, plan_head};
use crate::ledger::{DeviceRecord, Superblocks};
use brindle_array::bitmap::{BitmapFile, IntentBitmap};
use brindle_array::ledger::{BitmapError, BitmapSpec, Named};

impl Superblocks {
    /// The bitmap that the array has.
    pub(crate) fn kept_bitmap(&self) -> Option<Rc<Bitmap>> {
        self.bitmap.borrow().clone()
    }

    /// The bitmap that superblocks of the present count name, or none: its event count follows theirs. The other
    /// bitmap must not look up to date, since it may lack bits: a removed file is stale from that update on.
    pub(crate) fn named_bitmap(&self) -> Option<Rc<Bitmap>> {
        match self.named.get() {
            Named::Present => self.kept_bitmap(),
            Named::Next => self.next.borrow().clone(),
        }
    }

    /// The one that the array has, and the one that is to take its place.
    pub(crate) fn bitmaps(&self) -> impl Iterator<Item = Rc<Bitmap>> + use<> {
        self.kept_bitmap().into_iter().chain(self.next.borrow().clone())
    }

    /// The bitmap that stands beside each superblock, or is to. There is never more than one.
    pub(crate) fn bitmap_beside(&self) -> Option<Rc<Bitmap>> {
        self.bitmaps().find(|bitmap| bitmap.file().is_none())
    }

    /// Where that stands on a device, or is to stand, if there is room for it.
    pub(crate) fn bitmap_place(&self, bitmap: &Bitmap, device: &DeviceRecord) -> Option<u64> {
        let offset = device.bitmap_offset.or(self.staged_bitmap_offset.get())?;
        bitmap.place_at(device.id, &device.superblock, offset)
    }

    /// Plans a bitmap that replaces the present one, if there is one.
    pub(crate) fn lay_out_bitmap(
        &self,
        geometry: &Geometry,
        spec: &BitmapSpec,
    ) -> Result<Rc<Bitmap>, BitmapError> {
        let kept = self.kept_bitmap();
        let behind = kept.as_ref().map_or(0, |kept| kept.write_behind());
        let head = |like: &Superblock, plan: BitmapPlan| {
            let mut head = plan_head(geometry, like, plan);
            head.write_behind = spec.write_behind.unwrap_or(behind);
            // The new bitmap's bits cover the same time as the old one's.
            head.events_cleared = kept.as_ref().map_or(head.events_cleared, |kept| kept.events_cleared());
            head
        };
        let devices = self.devices.borrow();
        let alive: Vec<&DeviceRecord> = devices.iter().filter(|device| device.is_alive()).collect();
        let (bitmap, offset) = match &spec.file {
            Some(file) => (self.lay_out_in(file, &alive, geometry, spec.chunk, head)?, None),
            None => {
                let (bitmap, offset) = self.lay_out_beside(&alive, geometry, spec.chunk, head)?;
                (bitmap, Some(offset))
            }
        };
        self.staged_bitmap_offset.set(offset);
        self.next.replace(Some(Rc::clone(&bitmap)));
        Ok(bitmap)
    }

    /// Moves the bad-block logs that stand in the way of a bitmap beside the superblocks, with the next update. True
    /// if one moves.
    pub(crate) fn make_room_beside(&self, geometry: &Geometry, spec: &BitmapSpec) -> bool {
        let mut devices = self.devices.borrow_mut();
        let mut alive: Vec<&mut DeviceRecord> =
            devices.iter_mut().filter(|device| device.is_alive()).collect();
        let planned = |superblocks: &[Superblock]| {
            let beside = Beside::of(superblocks.iter())?;
            plan(geometry, beside.room, spec.chunk, superblocks.get(beside.least)?)
        };
        let now: Vec<Superblock> = alive.iter().map(|device| device.superblock.clone()).collect();
        if spec.file.is_some() || planned(&now).is_some() {
            return false;
        }
        let present = self.bitmap_beside();
        let is_clear = |device: &DeviceRecord, new: &Superblock| {
            let place = |bitmap: &Rc<Bitmap>| bitmap.place(device.id, new);
            present.as_ref().is_none_or(|bitmap| place(bitmap).is_some())
        };
        let with_room = |device: &&mut DeviceRecord| {
            let bytes = self.io.member_info(device.id)?.size;
            device.with_room(bytes).filter(|new| is_clear(device, new))
        };
        let new: Vec<Option<Superblock>> = alive.iter().map(with_room).collect();
        let then: Vec<Superblock> =
            new.iter().zip(now).map(|(new, now)| new.clone().unwrap_or(now)).collect();
        let Some((plan, _)) = planned(&then) else { return false };
        let mut moves = false;
        for (device, new) in alive.iter_mut().zip(new) {
            let too_small = bitmap_room_beside(&device.superblock) < plan.bytes;
            if let Some(new) = new.filter(|_| too_small) {
                device.make_room(&new);
                moves = true;
            }
        }
        moves
    }

    fn lay_out_in(
        &self,
        file: &BitmapFile,
        devices: &[&DeviceRecord],
        geometry: &Geometry,
        chunk: Option<u64>,
        head: impl Fn(&Superblock, BitmapPlan) -> BitmapSuper,
    ) -> Result<Rc<Bitmap>, BitmapError> {
        let label = || file.label.clone();
        let unusable = |error| BitmapError::File { label: label(), error };
        let id = file.id.ok_or_else(|| unusable(OpError::Gone))?;
        let bytes = self.io.member_info(id).ok_or_else(|| unusable(OpError::Gone))?.size;
        if self.io.orphans_of_all(id) > 0 {
            // A write to this device's other bitmap was given up, and may still land on this one.
            return Err(unusable(OpError::TimedOut));
        }
        let plan =
            plan_file(geometry, chunk).ok_or_else(|| BitmapError::FileChunk { label: label(), chunk })?;
        if plan.bytes > bytes {
            return Err(unusable(OpError::NoSpace));
        }
        let like = devices.first().ok_or(BitmapError::Unrecorded)?;
        let (head, target) = (head(&like.superblock, plan), core::iter::once((id, 0)));
        Ok(Bitmap::planned(&self.io, geometry, head, plan, target, Some(file.clone()), self.patience))
    }

    /// One that has room on all devices, spares too; and how far from each superblock.
    fn lay_out_beside(
        &self,
        devices: &[&DeviceRecord],
        geometry: &Geometry,
        chunk: Option<u64>,
        head: impl Fn(&Superblock, BitmapPlan) -> BitmapSuper,
    ) -> Result<(Rc<Bitmap>, i64), BitmapError> {
        let beside =
            Beside::of(devices.iter().map(|device| &device.superblock)).ok_or(BitmapError::Unrecorded)?;
        let least = devices[beside.least];
        let room = |device: &DeviceRecord| BitmapError::Room {
            label: device.label.clone(),
            chunk,
            room: beside.room,
        };
        let (plan, offset) =
            plan(geometry, beside.room, chunk, &least.superblock).ok_or_else(|| room(least))?;
        self.check_named(devices, offset)?;
        let place = |device: &DeviceRecord| device.superblock.super_offset.checked_add_signed(offset);
        let members = devices.iter().filter(|device| device.role().is_some());
        let targets = members.filter_map(|device| Some((device.id, place(device)?)));
        let head = head(&least.superblock, plan);
        let bitmap = Bitmap::planned(&self.io, geometry, head, plan, targets, None, self.patience);
        let too_small =
            |device: &&&DeviceRecord| bitmap.place_at(device.id, &device.superblock, offset).is_none();
        match devices.iter().find(too_small) {
            Some(device) => Err(room(device)),
            None => Ok((bitmap, offset)),
        }
    }

    /// Whether superblocks can say where the bitmap stands.
    fn check_named(&self, devices: &[&DeviceRecord], offset: i64) -> Result<(), BitmapError> {
        let mut block = [0; SUPERBLOCK_BYTES];
        for device in devices {
            let mut superblock = device.superblock.clone();
            superblock.bitmap_offset = Some(offset);
            let encoded = superblock.encode(&mut block);
            encoded
                .map_err(|why| BitmapError::Encode { label: device.label.clone(), why: why.to_string() })?;
        }
        Ok(())
    }

    /// The next update names the bitmap that the array has, or the next one. Where one of them stands beside superblocks, that is said or
    /// put aside.
    pub(crate) fn say_bitmap(&self, which: Named) {
        if self.named.replace(which) == which {
            return;
        }
        let mut devices = self.devices.borrow_mut();
        let said = devices.iter().find_map(|device| device.bitmap_offset.filter(|_| device.is_alive()));
        let offset = self.staged_bitmap_offset.replace(said);
        for device in devices.iter_mut() {
            device.bitmap_offset = offset.filter(|_| device.is_alive());
        }
    }

    /// Makes the bitmap that was named last the array's own; the other is dropped.
    pub(crate) fn turn_to_named(&self) {
        let (kept, next) = (self.bitmap.take(), self.next.take());
        let (kept, gone) = match self.named.replace(Named::Present) {
            Named::Present => (kept, next),
            Named::Next => (next, kept),
        };
        if let (Some(kept), Some(gone)) = (&kept, &gone) {
            kept.takes_over(gone);
        }
        self.staged_bitmap_offset.set(None);
        self.bitmap.replace(kept);
        // Late writes to a file that was given up find no superblock there.
        self.gone.replace(gone.filter(|gone| gone.file().is_none()));
    }
}
