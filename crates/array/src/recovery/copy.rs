//! Copies members onto their replacements.

use crate::events::EventKind;
use crate::process::{ProcessError, ProcessKind};
use brindle_io::OpError;
use brindle_members::members::{RoleState, Second};
use brindle_members::process::Progress;
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::sweep::{Saved, Sweep, Work};

impl Array {
    /// Copies the member of a role onto the second device that is to [replace](Array::replace) it, from where that was left,
    /// and puts it in the member's place. Where the member can't be read it is rebuilt from the others. Begins and ends as
    /// [`Array::recover`] does.
    ///
    /// # Errors
    /// As [`Array::recover`]; [`VolumeError::Member`] with `Gone` if the role has no such device, or none any more.
    pub fn copy_replacement<F: FnMut(Progress)>(
        &self,
        role: u16,
        progress: F,
    ) -> impl Future<Output = Result<(), ProcessError>> + use<F> {
        let sweep = self.begin_copying(role);
        async move {
            let mut sweep = sweep?;
            let result = copy(&mut sweep, role, progress).await;
            sweep.ended(result)
        }
    }

    fn begin_copying(&self, role: u16) -> Result<Sweep, ProcessError> {
        let from = self.replaced_before(role).ok_or(second_lost(role))?;
        Sweep::begin(self, ProcessKind::Replacement, Work::Replace(role), from)
    }

    /// The byte of the data area up to which a role's replacement is filled; `None` if no replacement is under way.
    pub(crate) fn replaced_before(&self, role: u16) -> Option<u64> {
        let core = &self.0.core;
        let second = (role < core.members.len()).then(|| core.members.second(role))??;
        let goes_on = core.members.state(role) == RoleState::InSync;
        let on_record = core.keeper.ledger().recovery_offset(second.device.id).is_some();
        (goes_on && on_record).then_some(second.good.min(self.0.geometry.member_size()))
    }

    /// The second device of a role is filled up to a position.
    async fn copied_to(&self, role: u16, position: u64) -> Result<(), VolumeError> {
        let members = &self.0.core.members;
        let good = members.second(role).map_or(position, |second| second.good.min(position));
        let _quiet = self.0.placement.quiet_in(&[(role, good..position)]).await;
        let in_sync = members.state(role) == RoleState::InSync;
        let second = members.second(role).filter(|_| in_sync).ok_or(second_lost(role))?;
        members.set_second(role, Second { good: second.good.max(position), ..second });
        Ok(())
    }
}

fn second_lost(role: u16) -> VolumeError {
    VolumeError::Member { role: Some(role), error: OpError::Gone }
}

/// The copy of a member onto its replacement, from where it begins to its end.
async fn copy(sweep: &mut Sweep, role: u16, mut progress: impl FnMut(Progress)) -> Result<(), ProcessError> {
    let array = sweep.array.clone();
    let (core, keeper) = (&array.0.core, &array.0.core.keeper);
    let Progress { position: from, total, .. } = sweep.process.progress();
    keeper.note_member(role, EventKind::CopyBegun, None, Some(from..total));
    let mut saved = Saved { position: from, at: core.io.now() };
    loop {
        let position = match sweep.advance().await {
            Ok(Some(position)) => position,
            Ok(None) => break,
            Err(error) => {
                keeper.save_recovery().await?;
                return Err(error);
            }
        };
        array.copied_to(role, position).await?;
        progress(sweep.process.progress());
        if saved.is_due(position, total, core.io.now()) {
            keeper.save_recovery().await?;
        }
    }
    let quiet = array.0.placement.quiet().await;
    keeper.replaced(role).await?;
    drop(quiet);
    keeper.note_member(role, EventKind::CopyEnded, None, None);
    Ok(())
}
