//! Rebuilds members from the others, several in one pass.

use core::ops::Range;

use crate::events::EventKind;
use crate::process::{ProcessError, ProcessKind};
use brindle_io::OpError;
use brindle_members::members::{Device, Members, RoleState};
use brindle_members::process::Progress;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use crate::array::{Array, Running};
use crate::data::report::SyncReport;
use crate::placement::Family;
use crate::sweep::{Saved, Sweep, Work};

impl Array {
    /// Rebuilds a role that is missing or failed onto `device`, of which nothing is good yet. It takes every write from the
    /// call on, and requests go on meanwhile. Its bytes below the position that has been reached (in bytes of its data
    /// area) can be read at once. How far it came is recorded now and then, if the ledger
    /// [can say it](crate::ledger::Ledger::recovered_to), and when the array is stopped. In the end it is in sync, as soon
    /// as the ledger has taken it in ([`take_in`](crate::ledger::Ledger::take_in)). Begins and ends as [`Array::resync`]
    /// does; one that did not come to its end goes on from there if it is called again with the same role and device.
    ///
    /// Places that the others can't give don't end it. They are bad from then on ([`Array::bad_blocks`]), are
    /// reported as events, and stand in [`Array::last_outcome`]. Where the ledger can't record them, the device
    /// fails, as with md.
    ///
    /// # Errors
    /// [`ProcessError::Busy`] if another process is under way; [`ProcessError::Interrupted`] if it is stopped.
    /// [`VolumeError::OutOfRange`] if there is no such role, it is in use, or the device is too small.
    /// [`VolumeError::ReadOnly`]; [`VolumeError::Stopping`] if the array is stopped meanwhile.
    /// [`VolumeError::TooManyLost`] or a member's error if it can't be rebuilt from the others, whose redundancy must
    /// be known to be in sync, or has failed itself. [`VolumeError::Reshaping`].
    pub fn recover<F: FnMut(Progress)>(
        &self,
        role: u16,
        device: Device,
        progress: F,
    ) -> impl Future<Output = Result<(), ProcessError>> + use<F> {
        self.recover_all(&[(role, device)], progress)
    }

    /// [`Array::recover`] for several roles in one pass: each row is read once for all of them. One whose device fails
    /// meanwhile is left out.
    ///
    /// # Errors
    /// As [`Array::recover`]; a member's only if no device is left to rebuild.
    pub fn recover_all<F: FnMut(Progress)>(
        &self,
        devices: &[(u16, Device)],
        progress: F,
    ) -> impl Future<Output = Result<(), ProcessError>> + use<F> {
        let sweep = self.begin_recovery(devices);
        async move {
            let (sweep, rebuilding) = sweep?;
            recover(sweep, &rebuilding, progress).await
        }
    }

    fn begin_recovery(&self, devices: &[(u16, Device)]) -> Result<(Sweep, Rebuilding), ProcessError> {
        let Running { core, placement, .. } = &*self.0;
        if let Family::Stripes(_) = placement.one()? {
            return Err(VolumeError::TooManyLost.into());
        }
        let mut from = u64::MAX;
        for &(role, device) in devices {
            from = from.min(self.recovered_before(role, device).ok_or(VolumeError::OutOfRange)?);
        }
        let roles = devices.iter().map(|&(role, _)| role).collect();
        let sweep = Sweep::begin(self, ProcessKind::Recovery, Work::Recover(roles), from)?;
        for &(role, device) in devices {
            if !matches!(core.members.state(role), RoleState::Recovering(_)) {
                core.members.set_device(role, device, RoleState::Recovering(0));
                let known = core.keeper.ledger().describe().devices.into_iter();
                let flags = known.filter(|known| known.id == device.id).map(|known| known.flags).next();
                core.members.set_flags(role, flags.unwrap_or_default());
                placement.mirrors().for_each(|mirror| mirror.forget_pace(role));
            }
        }
        Ok((sweep, devices.iter().map(|&(role, _)| (role, core.members.joined(role))).collect()))
    }

    /// The byte up to which a device is rebuilt, if it can be rebuilt in a role.
    pub(crate) fn recovered_before(&self, role: u16, device: Device) -> Option<u64> {
        let Running { core, geometry, .. } = &*self.0;
        let fits = core.has_room(device, geometry.member_size());
        match (role < core.members.len()).then(|| core.members.state(role))? {
            RoleState::Missing | RoleState::Failed if fits => Some(0),
            RoleState::Recovering(upto) if core.members.device(role) == Some(device) => Some(upto),
            _ => None,
        }
    }

    /// Roles that have not been rebuilt up to `end`. A role that an earlier pass began is ahead of the others.
    pub(crate) fn lacking(&self, roles: &[u16], end: u64) -> SmallVec<[u16; 2]> {
        let holds = |role| matches!(self.state(role), RoleState::Recovering(upto) if upto >= end);
        roles.iter().copied().filter(|&role| !holds(role)).collect()
    }

    /// Rebuilds `len` bytes at `pos` of the data areas of roles that are recovering; reports places that can't be.
    pub(crate) async fn recover_window(
        &self,
        roles: &[u16],
        pos: u64,
        len: u64,
    ) -> Result<SyncReport, VolumeError> {
        let mut report = SyncReport::default();
        match self.0.placement.one()? {
            Family::Stripes(_) => return Err(VolumeError::TooManyLost),
            Family::Mirror(mirror) => mirror.recover(roles, pos, len, &mut report).await?,
            Family::Parity(parity) => parity.recover(roles, pos, len, &mut report).await?,
        }
        Ok(report)
    }
}

/// The roles that a recovery rebuilds, and how many devices had [come](Members::joined) into each when it began.
type Rebuilding = Vec<(u16, u32)>;

/// Roles that still have the same device in the same state.
fn still<'a>(members: &'a Members, roles: &'a [(u16, u32)]) -> impl Iterator<Item = (u16, u32)> + 'a {
    roles.iter().copied().filter(|&(role, joined)| members.joined(role) == joined)
}

/// A recovery, from where it begins to its end, which is kept in mind.
async fn recover(
    mut sweep: Sweep,
    roles: &[(u16, u32)],
    progress: impl FnMut(Progress),
) -> Result<(), ProcessError> {
    let result = recover_to_end(&mut sweep, roles, progress).await;
    sweep.ended(result)
}

async fn recover_to_end(
    sweep: &mut Sweep,
    roles: &[(u16, u32)],
    mut progress: impl FnMut(Progress),
) -> Result<(), ProcessError> {
    let array = sweep.array.clone();
    let (core, keeper) = (&array.0.core, &array.0.core.keeper);
    let Progress { position: from, total, .. } = sweep.process.progress();
    for &(role, _) in roles {
        keeper.recovery_begins(role).await?;
        let own = match core.members.state(role) {
            RoleState::Recovering(upto) => upto..total,
            _ => from..total,
        };
        keeper.note_member(role, EventKind::RecoveryBegun, None, Some(own));
    }
    let mut saved = Saved { position: from, at: core.io.now() };
    let ended = loop {
        let position = match sweep.advance().await {
            Ok(Some(position)) => position,
            Ok(None) => break Ok(()),
            Err(ProcessError::Interrupted) => break Err(ProcessError::Interrupted),
            Err(error) => return Err(error),
        };
        if !array.recovered_to(roles, position).await {
            return Err(VolumeError::Member {
                role: roles.first().map(|&(role, _)| role),
                error: OpError::Gone,
            }
            .into());
        }
        progress(sweep.process.progress());
        if saved.is_due(position, total, core.io.now()) {
            keeper.save_recovery().await?;
        }
    };
    if ended.is_err() {
        keeper.save_recovery().await?;
        return ended;
    }
    let is_there = |(role, _): &(u16, u32)| core.members.writable(*role).is_some();
    for (role, joined) in still(&core.members, roles).filter(is_there) {
        let quiet = array.0.placement.quiet().await;
        keeper.rebuilt(role, joined).await?;
        drop(quiet);
        keeper.note_member(role, EventKind::RecoveryEnded, None, None);
    }
    Ok(())
}

impl Array {
    /// Reports the named places of a window that could not be rebuilt as events.
    pub(crate) fn report_unrebuilt(&self, report: &SyncReport) {
        let keeper = &self.0.core.keeper;
        for place in &report.bad_places {
            let range = place.offset..place.offset + place.len;
            let array = self.array_ranges(place.role, range.clone()).into_iter().next();
            keeper.note_place(place.role, EventKind::Unrebuilt, range, array);
        }
    }

    /// Notes that members are rebuilt up to a position. False if none of them is left.
    async fn recovered_to(&self, roles: &[(u16, u32)], position: u64) -> bool {
        let members = &self.0.core.members;
        let lacks = |&(role, _): &(u16, u32)| match members.state(role) {
            RoleState::Recovering(upto) if upto < position => Some((role, upto..position)),
            _ => None,
        };
        let parts: SmallVec<[(u16, Range<u64>); 2]> = roles.iter().filter_map(lacks).collect();
        // No request must see both sides of the border's move; those elsewhere see one in any case.
        let _quiet = self.0.placement.quiet_in(&parts).await;
        for (role, _) in still(members, roles) {
            // Members that have failed meanwhile are left out: the next window finds them.
            if let RoleState::Recovering(upto) = members.state(role) {
                members.recovered_to(role, upto.max(position));
            }
        }
        still(members, roles).next().is_some()
    }
}
