//! The data that P is presumed to give, of a RAID 6 that was started by force without the member that had them.

use core::ops::Range;

use crate::no_space::ranges::Ranges;

/// The role whose lost data are what P gives, also where redundancy is in doubt; and where they are not.
#[derive(Default)]
pub(crate) struct Presumed {
    role: Option<u16>,
    /// Writes were cut short there, for lack of space: P need not give what it gave before.
    void: Ranges,
}

impl Presumed {
    /// See [`Ledger::presumed`](crate::ledger::Ledger::presumed).
    pub(super) fn of(role: Option<u16>) -> Self {
        Self { role, void: Ranges::default() }
    }

    /// The role whose data P gives in a range of the members' data areas.
    #[inline]
    pub(crate) fn role_in(&self, range: &Range<u64>) -> Option<u16> {
        self.role.filter(|_| !self.void.touch(range))
    }

    /// P no longer gives data in a range.
    pub(crate) fn void_in(&self, range: Range<u64>) {
        if self.role.is_some() {
            self.void.add(range);
        }
    }
}
