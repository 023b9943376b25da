//! Devices that wait for a role.

use core::cell::{Cell, RefCell};

use brindle_format::pool::{Label, MemberRecord, MemberState};
use brindle_io::MemberId;

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

/// Spares that are there.
pub(crate) struct Spares {
    pub(crate) waiting: RefCell<Vec<SpareDevice>>,
    /// A task gives them roles.
    pub(crate) is_busy: Cell<bool>,
}

impl Spares {
    /// Those that were found.
    pub(crate) fn new(found: Vec<SpareDevice>) -> Self {
        Self { waiting: RefCell::new(found), is_busy: Cell::new(false) }
    }

    /// The device of a spare.
    pub(crate) fn device(&self, member: u16) -> Option<SpareDevice> {
        self.waiting.borrow().iter().find(|spare| spare.member == member).cloned()
    }

    /// The number of the spare that a device is.
    pub(crate) fn of(&self, id: MemberId) -> Option<u16> {
        self.waiting.borrow().iter().find(|spare| spare.id == id).map(|spare| spare.member)
    }

    pub(crate) fn forget(&self, member: u16) {
        self.waiting.borrow_mut().retain(|spare| spare.member != member);
    }
}

/// Spares of that identity have a role now.
pub(crate) fn leaves_spares(label: &mut Label, id: uuid::Uuid) {
    let is_it = |record: &&mut MemberRecord| record.state == MemberState::Spare && record.id == id;
    label.members.iter_mut().filter(is_it).for_each(|record| record.state = MemberState::Gone);
}
