//! Numbers of devices. In 0.90 a device in sync has the number of its role, as md has it (`super_90_sync` in the
//! kernel's `md.c`). mdadm takes the entry of a number for that of the role. If another member's entry for that
//! number says faulty, mdadm leaves out one or the other, by the order in which they are named. All others have
//! numbers from those of the roles up, and entries that no device has are zero there. Numbers change only where a
//! device is taken in or removed.
//!
//! In 1.x a device keeps its number, and any may have any role.

use brindle_format::md::{DeviceRole, MAX_DEVICES_0_90, MAX_DEVICES_1};

use super::update::IN_FIRST_SECTOR;
use super::{DeviceRecord, Superblocks};

impl DeviceRecord {
    /// The entry of the table that is its own. One that an array with 0.90 was opened without has none: another may have its number.
    pub(super) fn number(&self) -> Option<usize> {
        let has = self.is_alive() || self.failure.is_some() || self.superblock.version.is_v1();
        has.then_some(self.superblock.device_number as usize)
    }
}

impl Superblocks {
    /// Numbers of devices carry meaning in 0.90.
    fn numbers_follow_roles(&self) -> bool {
        !self.identity.version.is_v1()
    }

    /// The entry of a number that no device has.
    pub(super) fn unused(&self) -> DeviceRole {
        if self.numbers_follow_roles() { DeviceRole::Vacant } else { DeviceRole::Spare }
    }

    /// The table that is recorded has the device. In 0.90 one that it calls unused would say of itself that it has number 0: a spare
    /// that was taken for gone is written to once it is listed again.
    pub(super) fn is_listed(&self, device: &DeviceRecord) -> bool {
        let recorded = self.recorded.borrow();
        let entry = recorded.roles.get(device.superblock.device_number as usize);
        !self.numbers_follow_roles() || !matches!(entry, None | Some(DeviceRole::Vacant))
    }

    pub(super) fn most_devices(&self) -> usize {
        if self.identity.version.is_v1() { MAX_DEVICES_1 } else { MAX_DEVICES_0_90 }
    }

    /// The lowest number that no device has, beyond those of the roles, as mdadm chooses it (`Manage_add`). Not one of 1.x whose
    /// entry calls a device faulty, where that could not be changed in one sector.
    pub(super) fn free_number(&self) -> Option<u32> {
        let (devices, roles) = (self.devices.borrow(), self.roles.borrow());
        let least = devices.first()?.superblock.all_raid_disks();
        let vacant = |number: usize| match roles.get(number) {
            Some(DeviceRole::Faulty) => self.numbers_follow_roles() || number < IN_FIRST_SECTOR,
            Some(DeviceRole::Active(_) | DeviceRole::Journal) => false,
            Some(DeviceRole::Spare | DeviceRole::Vacant) | None => true,
        };
        let is_free = |&number: &u32| {
            let number = number as usize;
            vacant(number) && devices.iter().all(|device| device.number() != Some(number))
        };
        (least..self.most_devices() as u32).find(is_free)
    }

    /// A device is taken in or removed: each member is to have the number of its role with the next updates, and entries that no
    /// device has are to say so.
    pub(super) fn put_numbers_right(&self) {
        if !self.numbers_follow_roles() {
            return;
        }
        let devices = self.devices.borrow();
        for (number, entry) in self.roles.borrow_mut().iter_mut().enumerate() {
            if devices.iter().all(|device| device.number() != Some(number)) {
                *entry = DeviceRole::Vacant;
            }
        }
        self.numbering.set(true);
    }

    /// The devices that are to get the number of their role, and that role: not as long as another device in use has that number.
    pub(super) fn misnumbered(&self) -> Vec<(usize, u16)> {
        if !self.numbering.get() {
            return Vec::new();
        }
        let roles = self.roles.borrow();
        let is_free = |role: u16| {
            let entry = roles.get(usize::from(role));
            matches!(entry, Some(DeviceRole::Faulty | DeviceRole::Vacant))
        };
        let active = roles.iter().enumerate().filter_map(|(number, role)| Some((number, role.active()?)));
        active.filter(|&(number, role)| number != usize::from(role) && is_free(role)).collect()
    }

    /// With this update a device takes the number of its role. A device that had that number, and is not in use, gets
    /// the other. Both in one: what reads torn superblocks knows that as one change.
    pub(super) fn exchange(&self, number: usize, role: u16, next: &mut [DeviceRole]) {
        let place = usize::from(role);
        let mut left = DeviceRole::Vacant;
        for device in self.devices.borrow_mut().iter_mut() {
            match device.number() {
                Some(at) if at == number => device.superblock.device_number = role.into(),
                Some(at) if at == place => {
                    device.superblock.device_number = number as u32;
                    left = DeviceRole::Faulty;
                }
                _ => {}
            }
        }
        let mut roles = self.roles.borrow_mut();
        for table in [&mut roles[..], next] {
            for (at, role) in [(place, DeviceRole::Active(role)), (number, left)] {
                if let Some(entry) = table.get_mut(at) {
                    *entry = role;
                }
            }
        }
    }
}
