//! A second device in a role. It takes every change that the role's member takes, and the member's content is copied
//! to it.

use brindle_io::MemberId;
use brindle_members::events::Cause;
use brindle_members::members::{Device, RoleState, Second};
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::placement::Family;

impl Array {
    /// Gives a role whose member is in sync a second device, still empty. It takes every change from now on;
    /// [`Array::fill_second`] copies the rest. Reads go to the member, and to the second device only where the member
    /// can't answer. If the second device fails, it is taken out of use and nothing else changes. If the member fails
    /// when the second device is complete, that becomes the member, where the array's ledger [can say
    /// so](crate::ledger::Ledger::replaces).
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`] if there is no such role; [`VolumeError::TooManyLost`] if its member is not in
    /// sync. [`VolumeError::Unsupported`] if it has a second device, or the level no redundancy: writes to such an
    /// array take no locks. [`VolumeError::ReadOnly`]; [`VolumeError::Reshaping`].
    pub fn begin_second(&self, role: u16, device: Device) -> Result<(), VolumeError> {
        self.check_second(role)?;
        self.0.core.members.set_second(role, Second { device, good: 0 });
        Ok(())
    }

    fn check_second(&self, role: u16) -> Result<(), VolumeError> {
        let core = &self.0.core;
        if role >= core.members.len() {
            return Err(VolumeError::OutOfRange);
        }
        if core.config.is_read_only() {
            return Err(VolumeError::ReadOnly);
        }
        if core.members.state(role) != RoleState::InSync {
            return Err(VolumeError::TooManyLost);
        }
        let striped = matches!(self.0.placement.one()?, Family::Stripes(_));
        if striped || core.members.second(role).is_some() {
            return Err(VolumeError::Unsupported);
        }
        Ok(())
    }

    /// Whether a member could be replaced by a spare, and its role. Nothing changes.
    ///
    /// # Errors
    /// As [`Array::begin_second`]; [`VolumeError::OutOfRange`] if it is not a member; [`VolumeError::Unsupported`] if the metadata
    /// can't say it (0.90).
    pub fn may_be_replaced(&self, old: MemberId) -> Result<u16, VolumeError> {
        let core = &self.0.core;
        if !core.keeper.ledger().describe().says_replacements {
            return Err(VolumeError::Unsupported);
        }
        let role = core.members.role_of(old).ok_or(VolumeError::OutOfRange)?;
        self.check_second(role).map(|()| role)
    }

    /// Has a spare replace a member that is in sync, and goes on serving: that is on record when this returns. The spare takes
    /// every change from the call on. It is given the rest by [`Array::copy_replacement`], by itself where members that are
    /// lost are rebuilt [by themselves](crate::Recovery::Automatic), in this run or a later one. If the member fails
    /// before, the spare is rebuilt in its place.
    ///
    /// # Errors
    /// As [`Array::may_be_replaced`]; [`VolumeError::OutOfRange`] if `new` is no spare; [`VolumeError::Stopping`]; if it could
    /// not be recorded.
    pub async fn replace(&self, old: MemberId, new: MemberId) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let role = self.may_be_replaced(old)?;
        let spare = self.spares().into_iter().find(|spare| spare.id == new);
        let spare = spare.filter(|spare| core.members.role_of(spare.id).is_none());
        self.begin_second(role, spare.ok_or(VolumeError::OutOfRange)?)?;
        let begun = core.keeper.replacement_begins(role).await;
        if begun.is_err() {
            core.keeper.second_failed(role, Cause::COMMAND);
        }
        core.members.changed().notify();
        begun
    }

    /// Copies `len` bytes at `pos` of the member's data area to the second device of its role: from where the last
    /// such step ended. For parity both are multiples of the chunk, so that the border of good data never cuts a row.
    /// Requests to that range wait meanwhile.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or a member's, if it can't be read nor rebuilt, or the second device refuses it;
    /// [`VolumeError::TooManyLost`] too if there is no second device, or none any more; [`VolumeError::Reshaping`].
    pub async fn fill_second(&self, role: u16, pos: u64, len: u64) -> Result<(), VolumeError> {
        let members = &self.0.core.members;
        let second_in_use = |role| members.second(role).filter(|_| members.state(role) == RoleState::InSync);
        let before = second_in_use(role).ok_or(VolumeError::TooManyLost)?;
        self.recover_window(&[role], pos, len).await?;
        let now = second_in_use(role).filter(|now| now.device.id == before.device.id && now.good == pos);
        let now = now.ok_or(VolumeError::TooManyLost)?;
        let whole = pos + len >= self.0.geometry.member_size();
        members.set_second(role, Second { good: if whole { u64::MAX } else { pos + len }, ..now });
        Ok(())
    }

    /// The second device of a role, and the byte of the data area up to which it is filled; `u64::MAX` when that is
    /// everywhere. `None` if there is none now.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn second(&self, role: u16) -> Option<(Device, u64)> {
        self.0.core.members.second(role).map(|second| (second.device, second.good))
    }
}
