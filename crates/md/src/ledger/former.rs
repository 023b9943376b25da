//! Decides whether a former member may be re-added (md's `super_1_validate` and `hot_add_disk`, and `attempt_re_add`
//! of mdadm).

use brindle_format::md::{DeviceRole, Features, SUPERBLOCK_BYTES, Superblock};
use brindle_io::MemberId;

use super::bad_log::BadLog;
use super::newcomer::{Former, Newcomer};
use super::update::IN_FIRST_SECTOR;
use super::{DeviceRecord, Superblocks};
use crate::assembly::{DeviceUse, differing};
use brindle_array::ledger::{AddError, Joined, NotTaken};

impl Superblocks {
    /// A device comes: as the member that it was, if that is possible and its role `is_free`, else as a spare.
    pub(super) fn admit(&self, new: Newcomer, is_free: &dyn Fn(u16) -> bool) -> Result<Joined, AddError> {
        let label = new.label.clone();
        let known =
            self.devices.borrow().iter().find(|device| device.id == new.id).map(|device| device.is_alive());
        // One that was lost comes back as what it was, or not at all.
        if known.is_some_and(|alive| alive || new.or_spare) {
            return Err(AddError::Known { label });
        }
        match self.role_again(&new, is_free) {
            Ok(role) => {
                self.readmit(new, role)?;
                Ok(Joined::Member { role })
            }
            Err(why) if !new.or_spare => Err(AddError::NotTaken { label, why }),
            Err(why) => {
                self.enrol(new)?;
                Ok(Joined::Spare { why: Some(why).filter(|why| *why != NotTaken::Stranger) })
            }
        }
    }

    /// The role that a device has again, or why it has none.
    pub(super) fn role_again(&self, new: &Newcomer, is_free: &dyn Fn(u16) -> bool) -> Result<u16, NotTaken> {
        let own = match &new.former {
            Former::Stranger => return Err(NotTaken::Stranger),
            Former::Unsure => return Err(NotTaken::Unsure),
            Former::Device { superblock, .. } => superblock,
        };
        let DeviceRole::Active(role) = own.role() else { return Err(NotTaken::NoRole) };
        if !self.identity.version.is_v1() {
            return Err(NotTaken::Metadata);
        }
        let guided = own.features.contains(Features::RECOVERY_BITMAP);
        if own.recovery_offset.is_some() && !guided || own.features.contains(Features::REPLACEMENT) {
            return Err(NotTaken::Unfinished);
        }
        let bitmap = self.kept_bitmap().ok_or(NotTaken::NoBitmap)?;
        self.same_shape(own)?;
        // Its rows have been moved on without it, and no bit tells which.
        if own.reshape.is_some() {
            return Err(NotTaken::Moving);
        }
        let last = self.filled.borrow().get(&role).copied();
        let filled = last.is_some_and(|(by, since)| by != own.device_uuid && own.events < since);
        if filled || !is_free(role) || self.is_filled(role) {
            return Err(NotTaken::Filled { role });
        }
        let (events, cleared) = (own.events, bitmap.events_cleared());
        if events < cleared {
            return Err(NotTaken::Behind { events, cleared });
        }
        if self.went_apart(own, role) {
            return Err(NotTaken::Apart);
        }
        let block = self.io.member_info(new.id).map_or(1, |info| u64::from(info.logical_block));
        let has_room = own.data_offset.saturating_add(own.component_size) <= new.bytes;
        let mut own = own.clone();
        own.bitmap_offset = self.bitmap_offset();
        let has_place = self.bitmap_beside().is_none_or(|bitmap| bitmap.place(new.id, &own).is_some());
        let fits = has_place && has_room && own.data_offset.is_multiple_of(block);
        if fits { Ok(role) } else { Err(NotTaken::Room) }
    }

    fn same_shape(&self, own: &Superblock) -> Result<(), NotTaken> {
        let devices = self.devices.borrow();
        let member = devices.iter().find(|device| device.is_alive() && device.role().is_some());
        match member.and_then(|member| differing(own, &member.superblock)) {
            None => Ok(()),
            Some((field, says, now)) => Err(NotTaken::Shape { field, says, now }),
        }
    }

    /// A living device has the role, or is about to.
    fn is_filled(&self, role: u16) -> bool {
        self.devices.borrow().iter().any(|device| device.is_alive() && device.role() == Some(role))
    }

    /// Offset of the bitmap from the superblock, the same on all members that have it.
    fn bitmap_offset(&self) -> Option<i64> {
        let devices = self.devices.borrow();
        devices.iter().find(|device| device.is_alive() && device.role().is_some())?.superblock.bitmap_offset
    }

    /// Whether a device may have been written to without the others: it is ahead of them, or its superblock calls roles vacant that
    /// were in service at its event count and are now. One that came into service later was away then, as the superblock says.
    ///
    /// Of counts before this run it is not known when a member came into service: it may have been rebuilt in an earlier run, after
    /// the device had left. Then a witness decides: a member of today that the device calls in sync took the device's last record
    /// too, so that the device's past is the array's own. Halves that were used apart call each other's members vacant, all of
    /// them. One that was rebuilt as another half's is no witness: it has another number. (md compares event counts alone.)
    fn went_apart(&self, own: &Superblock, role: u16) -> bool {
        let devices = self.devices.borrow();
        let roles = devices.iter().filter(|device| device.is_alive()).filter_map(DeviceRecord::role);
        let is_vacant = |other: u16| own.device_in_role(other).is_none();
        let service = self.service.borrow();
        let disowns = |other: u16| is_vacant(other) && service.was_filled(other, own.events);
        let disowned = roles.into_iter().any(|other| other != role && disowns(other));
        own.events > self.events.get()
            || disowned
                && (service.is_of_this_run(own.events) || !devices.iter().any(|other| is_witness(own, other)))
    }

    /// A device that has been [judged](Superblocks::role_again) is the member of its role again, and holds all of which no bit says
    /// otherwise.
    fn readmit(&self, new: Newcomer, role: u16) -> Result<(), AddError> {
        let Newcomer { label, id, old_superblocks, former, .. } = new;
        let Former::Device { mut superblock, bad_log } = former else {
            return Err(AddError::NotTaken { label, why: NotTaken::Stranger });
        };
        superblock.device_number = self
            .number_of(id, &superblock)
            .ok_or_else(|| AddError::Full { label: label.clone(), most: self.most_devices() })?;
        superblock.bitmap_offset = self.bitmap_offset();
        let image = Box::new(*superblock.bytes());
        let table = superblock.device_number as usize + 1;
        let mut encoded = [0; SUPERBLOCK_BYTES];
        let encodes = superblock.encode(&mut encoded);
        encodes.map_err(|why| AddError::Encode { label: label.clone(), why: why.to_string() })?;
        let mut roles = self.roles.borrow().clone();
        roles.resize(roles.len().max(table), self.unused());
        // After a cut a superblock of one sector is old or new. One of several sectors might be unreadable, and the
        // device counts as new then.
        let fresh = roles.len() > IN_FIRST_SECTOR;
        self.roles.replace(roles);
        let device = DeviceRecord {
            label,
            id,
            usage: DeviceUse::Recovering { role, upto: 0 },
            failure: None,
            super_offset: superblock.super_offset,
            recovery_offset: Some(0),
            guided: true,
            returns: true,
            image,
            count: None,
            buf: self.io.pool(SUPERBLOCK_BYTES).try_alloc(SUPERBLOCK_BYTES),
            fresh,
            old: old_superblocks,
            bad_log: BadLog::of(&superblock, bad_log.as_deref()),
            flags: superblock.flags,
            bitmap_offset: superblock.bitmap_offset,
            superblock: *superblock,
        };
        self.give_bitmap(&device);
        self.enter(&device, role);
        let mut devices = self.devices.borrow_mut();
        devices.retain(|other| other.id != id);
        devices.push(device);
        Ok(())
    }

    /// The number that it had, if no other has that now.
    fn number_of(&self, id: MemberId, own: &Superblock) -> Option<u32> {
        let is_others = self
            .devices
            .borrow()
            .iter()
            .any(|device| device.id != id && device.superblock.device_number == own.device_number);
        if is_others { self.free_number() } else { Some(own.device_number) }
    }
}

/// A member in sync that a device's superblock calls that, too.
fn is_witness(own: &Superblock, member: &DeviceRecord) -> bool {
    match member.usage {
        DeviceUse::Active { role } if member.is_alive() && own.role() != DeviceRole::Active(role) => {
            let entry = own.roles.get(member.superblock.device_number as usize);
            entry == Some(&DeviceRole::Active(role))
        }
        _ => false,
    }
}
