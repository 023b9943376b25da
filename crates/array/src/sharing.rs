//! Moves spares from one array to another.

use crate::events::{EventKind, Note};
use brindle_io::MemberId;
use brindle_members::members::RoleState;
use brindle_volume::VolumeError;
use uuid::Uuid;

use crate::array::Array;
use crate::detail::DeviceState;
use crate::devices::{Removal, RemoveError};
use crate::ledger::AddError;

/// Why a spare does not go to another array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandOverError {
    /// The spare stays what it was.
    #[error(transparent)]
    Remove(#[from] RemoveError),
    /// The other array has not taken it; it is this one's again, if that could be put on record.
    #[error(transparent)]
    Add(#[from] AddError),
}

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

    /// Gives a spare to another array on the same reactor. `uuid` is to be its identity there, random. The spare is
    /// removed from this array's record first, and then added to the other's. A crash in between leaves it a spare of
    /// this array or of none, never of both. Returns when the other has it on record.
    ///
    /// # Errors
    /// [`HandOverError::Remove`], as of [`Array::remove`]: the spare is this array's still. [`HandOverError::Add`], as of
    /// [`Array::add`]: the other has not taken it, and it is this one's again, if that could be put on record.
    pub async fn hand_over(&self, spare: MemberId, to: &Self, uuid: Uuid) -> Result<(), HandOverError> {
        let label = self.0.core.keeper.ledger().label(spare).unwrap_or_else(|| spare.to_string());
        if !self.spares_to_give().contains(&spare) {
            return Err(RemoveError::InUse { label }.into());
        }
        if !to.has_use_for(spare) {
            return Err(RemoveError::Volume(VolumeError::Unsupported).into());
        }
        self.remove(Removal::Device(spare)).await?;
        // The superblock on the spare names this array, which has given it up: `add` may overwrite it.
        if let Err(why) = to.add(spare, &label, uuid, true).await {
            let _ = self.add(spare, &label, uuid, true).await; // else it is nobody's, as is told
            return Err(why.into());
        }
        for (array, kind) in [(self, EventKind::SpareGiven), (to, EventKind::SpareTaken)] {
            array.0.core.keeper.note(Note { label: Some(label.clone()), ..Note::of(kind) });
        }
        Ok(())
    }

    fn free_spares(&self) -> Vec<MemberId> {
        let members = &self.0.core.members;
        let free = |id: &MemberId| members.role_of(*id).is_none() && members.seconded_by(*id).is_none();
        self.spares().into_iter().map(|spare| spare.id).filter(free).collect()
    }
}
