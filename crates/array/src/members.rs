//! The members of an array by role, and what may be asked of each.

use core::cell::Cell;

use brindle_io::MemberId;

/// What a role's member can do for the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleState {
    /// Holds everything that it should.
    InSync,
    /// No member has this role.
    Missing,
    /// Failed in this run: no operation is sent to it any more.
    Failed,
    /// Being rebuilt: takes every write; its bytes below this offset of the data area can be read.
    Recovering(u64),
}

/// A member of the running array.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// The reactor's number.
    pub id: MemberId,
    /// Where the array's data begins on it, in bytes.
    pub data_offset: u64,
}

/// One role of the array.
struct Role {
    device: Cell<Option<Device>>,
    state: Cell<RoleState>,
}

/// All roles, in their order. Shared by the data path, which asks, and the keeper, which decides.
pub(crate) struct Members {
    roles: Vec<Role>,
    lost: Cell<u16>,
}

impl Members {
    /// Roles in order; `None` is a missing member.
    pub(crate) fn new(devices: impl IntoIterator<Item = Option<Device>>) -> Self {
        let role = |device: Option<Device>| Role {
            state: Cell::new(if device.is_some() { RoleState::InSync } else { RoleState::Missing }),
            device: Cell::new(device),
        };
        let members = Self { roles: devices.into_iter().map(role).collect(), lost: Cell::new(0) };
        members.recount();
        members
    }

    fn recount(&self) {
        let lost = self.roles.iter().filter(|role| role.state.get() != RoleState::InSync).count();
        self.lost.set(lost as u16);
    }

    /// Roles in all.
    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.roles.len() as u16
    }

    #[inline]
    pub(crate) fn state(&self, role: u16) -> RoleState {
        self.roles[role as usize].state.get()
    }

    pub(crate) fn set_state(&self, role: u16, state: RoleState) {
        self.roles[role as usize].state.set(state);
        self.recount();
    }

    /// Puts a device into a role (a spare that takes over).
    pub(crate) fn set_device(&self, role: u16, device: Device, state: RoleState) {
        self.roles[role as usize].device.set(Some(device));
        self.set_state(role, state);
    }

    /// Every role is in sync: the hot path needs no further look.
    #[inline]
    pub(crate) fn all_in_sync(&self) -> bool {
        self.lost.get() == 0
    }

    /// Roles that are not in sync.
    #[inline]
    pub(crate) fn lost(&self) -> u16 {
        self.lost.get()
    }

    /// The device, whatever its state; `None` if the role is missing.
    #[inline]
    pub(crate) fn device(&self, role: u16) -> Option<Device> {
        self.roles[role as usize].device.get()
    }

    /// The device if its bytes up to `end` (of the data area) may be read.
    #[inline]
    pub(crate) fn readable(&self, role: u16, end: u64) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync => role.device.get(),
            RoleState::Recovering(good) if end <= good => role.device.get(),
            _ => None,
        }
    }

    /// The device if writes must be sent to it.
    #[inline]
    pub(crate) fn writable(&self, role: u16) -> Option<Device> {
        let role = &self.roles[role as usize];
        match role.state.get() {
            RoleState::InSync | RoleState::Recovering(_) => role.device.get(),
            RoleState::Missing | RoleState::Failed => None,
        }
    }
}
