//! Devices that come into a role: from spares to members in sync, as superblocks have it (`super_1_sync` and `super_90_sync` in
//! the kernel's `md.c`).

use brindle_format::md::{DeviceRole, Version};
use brindle_io::MemberId;

use super::{Kept, Superblocks};
use crate::assembly::DeviceUse;
use crate::members::Device;

impl Kept {
    /// A spare that has room for what a member holds.
    fn waits(&self, component_size: u64) -> bool {
        self.alive && self.usage == DeviceUse::Spare && self.superblock.data_size >= component_size
    }

    /// It holds so many bytes of what it should from now on.
    pub(super) fn recovered_to(&mut self, upto: u64) {
        let upto = self.held.map_or(upto, |held| held.max(upto));
        self.held = Some(upto);
        if let DeviceUse::Recovering { role, .. } = self.usage {
            self.usage = DeviceUse::Recovering { role, upto };
        }
    }
}

impl Superblocks {
    /// Spares that could replace a member.
    pub(super) fn waiting(&self) -> Vec<Device> {
        let devices = self.devices.borrow();
        let waiting = devices.iter().filter(|device| device.waits(self.identity.component_size));
        waiting.map(|device| Device { id: device.id, data_offset: device.superblock.data_offset }).collect()
    }

    /// A device gets a role, and holds nothing of it: what 0.90 can't say.
    pub(super) fn give_role(&self, role: u16, id: MemberId) {
        if matches!(self.identity.version, Version::V0_90(_)) {
            return;
        }
        self.with_spare(id, |device| {
            device.usage = DeviceUse::Recovering { role, upto: 0 };
            device.held = Some(0);
            self.enter(device, role);
        });
    }

    /// A device holds all that its role should; false if it is not known.
    pub(super) fn fill_role(&self, role: u16, id: MemberId) -> bool {
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|device| device.alive && device.id == id) else {
            return false;
        };
        device.usage = DeviceUse::Active { role };
        device.held = None;
        self.enter(device, role);
        true
    }

    fn with_spare(&self, id: MemberId, change: impl FnOnce(&mut Kept)) {
        let mut devices = self.devices.borrow_mut();
        let is_it = |device: &&mut Kept| device.id == id && device.waits(self.identity.component_size);
        if let Some(device) = devices.iter_mut().find(is_it) {
            change(device);
        }
    }

    /// The table has the device in this role from the next update on.
    fn enter(&self, device: &Kept, role: u16) {
        if let Some(entry) = self.roles.borrow_mut().get_mut(device.superblock.device_number as usize) {
            *entry = DeviceRole::Active(role);
        }
    }
}
