//! Spares that go from one array, or pool, to another.

use crate::events::{EventKind, Note};
use brindle_io::MemberId;
use brindle_members::members::RoleState;
use uuid::Uuid;

use crate::array::Array;
use crate::detail::DeviceState;
use crate::devices::{Removal, RemoveError};
use crate::ledger::AddError;

impl Array {
    /// Whether the array lacks members and has no spare: another array's spare would be used.
    pub fn lacks_a_spare(&self) -> bool {
        let core = &self.0.core;
        let lost = |role: u16| matches!(core.members.state(role), RoleState::Missing | RoleState::Failed);
        let waits = core.dependence().redundant && !core.config.is_read_only() && !core.keeper.is_stopping();
        let may = waits && !core.keeper.is_broken() && self.0.placement.one().is_ok();
        may && self.free_spares().is_empty() && (0..core.members.len()).any(lost)
    }

    /// Spares that the array does not need, since it has all of its members.
    pub fn spares_to_give(&self) -> Vec<MemberId> {
        let core = &self.0.core;
        let may = core.members.all_in_sync() && !core.config.is_read_only() && !core.keeper.is_stopping();
        let mut devices = if may { self.detail().devices } else { Vec::new() };
        let seconded = |id| core.members.seconded_by(id).is_some();
        devices.retain(|device| device.state == DeviceState::Spare && !seconded(device.id));
        devices.into_iter().map(|device| device.id).collect()
    }

    /// Whether a device of the same reactor is large enough for a member, and fit to be one.
    pub fn has_use_for(&self, id: MemberId) -> bool {
        let core = &self.0.core;
        let info = core.io.member_info(id);
        let fits = |bytes| core.keeper.ledger().has_room_on(id, bytes);
        info.is_some_and(|info| info.logical_block <= core.limits.block && fits(info.size))
    }

    /// Gives a spare up, so that another content of the same reactor can take it. It is removed from this array's record before that returns: a
    /// crash in between leaves it a spare of this array or of none, never of both. Gives its name.
    ///
    /// # Errors
    /// As of [`Array::remove`]: the spare is this array's still.
    pub async fn give_spare(&self, spare: MemberId) -> Result<String, RemoveError> {
        let label = self.0.core.keeper.ledger().label(spare).unwrap_or_else(|| spare.to_string());
        if !self.spares_to_give().contains(&spare) {
            return Err(RemoveError::InUse { label });
        }
        self.remove(Removal::Device(spare)).await?;
        self.note_spare(EventKind::SpareGiven, &label);
        Ok(label)
    }

    /// Takes a spare that another content of the same reactor gave up: its superblock may name that one still. `uuid` is to be its identity here,
    /// random. Returns when it is on record.
    ///
    /// # Errors
    /// As of [`Array::add`]: the spare is nobody's.
    pub async fn take_spare(&self, spare: MemberId, label: &str, uuid: Uuid) -> Result<(), AddError> {
        self.add(spare, label, uuid, true).await?;
        self.note_spare(EventKind::SpareTaken, label);
        Ok(())
    }

    fn note_spare(&self, kind: EventKind, label: &str) {
        self.0.core.keeper.note(Note { label: Some(label.to_owned()), ..Note::of(kind) });
    }

    pub(crate) fn free_spares(&self) -> Vec<MemberId> {
        let members = &self.0.core.members;
        let free = |id: &MemberId| members.role_of(*id).is_none() && members.seconded_by(*id).is_none();
        self.spares().into_iter().map(|spare| spare.id).filter(free).collect()
    }
}
