//! Devices that wait for a role, or are given a copy for one.

use core::cell::{Cell, RefCell};

use brindle_format::pool::{Label, MemberRecord, MemberState};
use brindle_io::MemberId;

use crate::role::Role;

/// A device of a spare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareDevice {
    /// The number of the member.
    pub member: u16,
    /// The device.
    pub id: MemberId,
    /// Its name.
    pub name: String,
}

/// Devices of spares that are there, and of members' successors.
pub(crate) struct Spares {
    pub(crate) devices: RefCell<Vec<SpareDevice>>,
    /// A task gives them roles.
    pub(crate) is_busy: Cell<bool>,
}

impl Spares {
    /// Those that were found.
    pub(crate) fn new(found: Vec<SpareDevice>) -> Self {
        Self { devices: RefCell::new(found), is_busy: Cell::new(false) }
    }

    /// The device of a spare.
    pub(crate) fn device(&self, member: u16) -> Option<SpareDevice> {
        self.devices.borrow().iter().find(|spare| spare.member == member).cloned()
    }

    /// The number of the spare that a device is.
    pub(crate) fn of(&self, id: MemberId) -> Option<u16> {
        self.devices.borrow().iter().find(|spare| spare.id == id).map(|spare| spare.member)
    }

    pub(crate) fn forget(&self, member: u16) {
        self.devices.borrow_mut().retain(|spare| spare.member != member);
    }
}

/// Spares of that identity have a role now.
pub(crate) fn leaves_spares(label: &mut Label, id: uuid::Uuid) {
    let is_it = |record: &&mut MemberRecord| record.is_spare() && record.id == id;
    label.members.iter_mut().filter(is_it).for_each(|record| record.state = MemberState::Gone);
}

/// No device is to take that role any more.
pub(crate) fn leaves_successors(label: &mut Label, of: Role) {
    let is_it = |record: &&mut MemberRecord| match record.state {
        MemberState::Successor { vdev, role } => Role::from((vdev.into(), role)) == of,
        _ => false,
    };
    label.members.iter_mut().filter(is_it).for_each(|record| record.state = MemberState::Gone);
}
