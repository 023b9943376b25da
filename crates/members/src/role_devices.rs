//! The devices of a role, and their state. All transitions are methods of this type; the record and the counts of
//! members follow it.
//!
//! | from | what happens | to |
//! |---|---|---|
//! | missing, failed | a device [comes](RoleDevices::comes) | recovering from 0, or in sync |
//! | recovering | it [holds](RoleDevices::holds) more | recovering, further |
//! | recovering | it is [whole](RoleDevices::is_whole) | in sync |
//! | in sync, recovering | it [fails](RoleDevices::fails), and is all that the role has | failed |
//! | in sync, with a whole second device | it is [succeeded](RoleDevices::is_succeeded) | in sync, by the second device |
//! | in sync, with a second device | it [gives way](RoleDevices::gives_way) | recovering from 0, by the second device |
//! | failed | it is [forgotten](RoleDevices::is_forgotten) | missing |
//!
//! A device that was taken out is remembered until it comes again: its late answers count for nothing.

use core::cell::{Cell, RefCell};

use brindle_io::MemberId;

use crate::device::{Device, RoleState, Second};

/// A device that was taken out of its role in this run.
#[derive(Clone, Copy)]
struct Left {
    device: MemberId,
    /// The role went on with another.
    went_on: bool,
}

/// The devices of a role.
pub(crate) struct RoleDevices {
    device: Cell<Option<Device>>,
    second: Cell<Option<Second>>,
    state: Cell<RoleState>,
    /// Devices that have come into it in this run, one as often as it came.
    joined: Cell<u32>,
    left: RefCell<Vec<Left>>,
}

impl RoleDevices {
    /// A role that begins with a device in sync, or without one.
    pub(crate) fn new(device: Option<Device>) -> Self {
        Self {
            state: Cell::new(if device.is_some() { RoleState::InSync } else { RoleState::Missing }),
            device: Cell::new(device),
            second: Cell::new(None),
            joined: Cell::new(0),
            left: RefCell::default(),
        }
    }

    /// The use that can be made of the role's member.
    #[inline]
    pub(crate) fn state(&self) -> RoleState {
        self.state.get()
    }

    /// The member, also one that has failed.
    #[inline]
    pub(crate) fn device(&self) -> Option<Device> {
        self.device.get()
    }

    /// The device beside the member.
    #[inline]
    pub(crate) fn second(&self) -> Option<Second> {
        self.second.get()
    }

    /// How many devices have come into the role.
    pub(crate) fn joined(&self) -> u32 {
        self.joined.get()
    }

    /// The member, if its bytes up to `end` may be read.
    #[inline(always)]
    pub(crate) fn readable(&self, end: u64) -> Option<Device> {
        match self.state.get() {
            RoleState::InSync => self.device.get(),
            RoleState::Recovering(good) if end <= good => self.device.get(),
            _ => None,
        }
    }

    /// The member, if writes must be sent to it.
    #[inline(always)]
    pub(crate) fn writable(&self) -> Option<Device> {
        match self.state.get() {
            RoleState::InSync | RoleState::Recovering(_) => self.device.get(),
            RoleState::Missing | RoleState::Failed => None,
        }
    }

    /// The member can be succeeded by the second device at once.
    pub(crate) fn is_doubled(&self) -> bool {
        let whole = self.second.get().is_some_and(|second| second.good == u64::MAX);
        whole && self.state.get() == RoleState::InSync
    }

    /// A device is the role's member from now on.
    pub(crate) fn comes(&self, device: Device, state: RoleState) {
        self.device.set(Some(device));
        self.joined.set(self.joined.get() + 1);
        self.state.set(state);
    }

    /// Marks the member as rebuilt below this byte of its data area; only these bytes may be read.
    pub(crate) fn holds(&self, upto: u64) {
        debug_assert!(self.writable().is_some(), "a role without a member holds nothing");
        self.state.set(RoleState::Recovering(upto));
    }

    /// Marks the member as in sync.
    pub(crate) fn is_whole(&self) {
        debug_assert!(self.writable().is_some(), "a role without a member is not whole");
        self.state.set(RoleState::InSync);
    }

    /// The member is out of use, and the role has none; gives the member.
    pub(crate) fn fails(&self) -> Option<Device> {
        self.state.set(RoleState::Failed);
        let failed = self.device.get();
        failed.inspect(|failed| self.leaves(failed.id, false))
    }

    /// The second device, which is complete, becomes the member. Gives the former member.
    pub(crate) fn is_succeeded(&self) -> Option<Device> {
        let (first, second) = (self.device.get()?, self.second.take()?);
        self.device.set(Some(second.device));
        self.leaves(first.id, true);
        Some(first)
    }

    /// The member is out of use, and the second device, which is not whole, is all that the role has from now on: nothing of it
    /// is good. Gives the member that was.
    pub(crate) fn gives_way(&self) -> Option<Device> {
        let second = self.second.take();
        let failed = self.fails();
        if let Some(second) = second {
            self.comes(second.device, RoleState::Recovering(0));
        }
        failed
    }

    /// The role has a second device from now on, or that holds so much.
    pub(crate) fn has_second(&self, second: Second) {
        self.second.set(Some(second));
    }

    /// The second device is out of use, and the role goes on with its member; gives it.
    pub(crate) fn loses_second(&self) -> Option<Second> {
        let second = self.second.take();
        second.inspect(|second| self.leaves(second.device.id, true))
    }

    /// Nothing is left in the role of the member that has failed.
    pub(crate) fn is_forgotten(&self) {
        self.device.set(None);
        self.state.set(RoleState::Missing);
    }

    fn leaves(&self, device: MemberId, went_on: bool) {
        self.left.borrow_mut().push(Left { device, went_on });
    }

    /// A device that was taken out may come again, into this role or another.
    pub(crate) fn comes_again(&self, device: MemberId) {
        self.left.borrow_mut().retain(|left| left.device != device);
    }

    /// A device was taken out, and the role went on with another.
    pub(crate) fn went_on_without(&self, device: MemberId) -> bool {
        self.left.borrow().iter().any(|left| left.went_on && left.device == device)
    }

    /// Devices that were taken out when the role had no other.
    pub(crate) fn gone(&self) -> Vec<MemberId> {
        self.left.borrow().iter().filter(|left| !left.went_on).map(|left| left.device).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: u32) -> Device {
        Device { id: MemberId::device(number), data_offset: 512 }
    }

    fn second(number: u32, good: u64) -> Second {
        Second { device: device(number), good }
    }

    #[test]
    fn a_member_fails_is_forgotten_and_another_is_rebuilt() {
        let role = RoleDevices::new(Some(device(0)));
        assert_eq!((role.readable(9), role.writable()), (Some(device(0)), Some(device(0))));
        assert_eq!(role.fails(), Some(device(0)));
        assert_eq!((role.state(), role.readable(0), role.writable()), (RoleState::Failed, None, None));
        assert_eq!((role.device(), role.gone()), (Some(device(0)), vec![device(0).id]));
        role.is_forgotten();
        assert_eq!((role.state(), role.device()), (RoleState::Missing, None));
        role.comes(device(1), RoleState::Recovering(0));
        role.holds(4096);
        assert_eq!((role.readable(4096), role.readable(4097)), (Some(device(1)), None));
        role.is_whole();
        assert_eq!((role.state(), role.joined()), (RoleState::InSync, 1));
        role.comes_again(device(0).id);
        assert!(role.gone().is_empty());
    }

    #[test]
    fn a_second_device_succeeds_if_it_is_whole_and_else_is_rebuilt() {
        let role = RoleDevices::new(Some(device(0)));
        role.has_second(second(1, 4096));
        assert!(!role.is_doubled());
        role.has_second(second(1, u64::MAX));
        assert!(role.is_doubled());
        assert_eq!(role.is_succeeded(), Some(device(0)));
        assert_eq!((role.state(), role.device(), role.joined()), (RoleState::InSync, Some(device(1)), 0));
        assert!(role.went_on_without(device(0).id) && role.gone().is_empty());
        role.has_second(second(2, 4096));
        assert_eq!(role.gives_way(), Some(device(1)));
        assert_eq!(
            (role.state(), role.device(), role.joined()),
            (RoleState::Recovering(0), Some(device(2)), 1)
        );
        assert_eq!(role.gone(), [device(1).id]);
        role.has_second(second(3, 0));
        assert_eq!(role.loses_second().map(|second| second.device), Some(device(3)));
        assert!(role.went_on_without(device(3).id) && role.device() == Some(device(2)));
    }
}
