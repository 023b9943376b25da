//! Spares: devices that wait for a role, and take that of a member which is lost.
//!
//! A spare is a member without a role. Nothing is written to it but its labels, once, when it comes: a config that counts later names it as it does
//! then. It takes a role as any other replacement does, and its former number is free by the same change of the config.

use std::rc::Rc;

use brindle_format::pool::{DATA_START, LABEL, MemberRecord, MemberState, second_label};
use brindle_io::MemberId;
use brindle_members::members::Device;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::opening::grow::{Comer, number_for, put};
use crate::opening::returned::{MemberError, Replacement};
use crate::record::label::ConfigPlace;
use crate::spares::SpareDevice;

impl Core {
    /// Adds a spare.
    ///
    /// # Errors
    /// [`MemberError`]; the pool is as before.
    pub(crate) async fn add_spare(self: &Rc<Self>, device: Replacement) -> Result<(), MemberError> {
        self.check_changes()?;
        let _change = self.grows()?;
        self.refuse_members(core::slice::from_ref(&device))?;
        let size = self.size_of(device.id);
        self.check_spare(&device.name, size)?;
        let number = number_for(&self.label.get())?;
        let comer = Comer { member: number, size, device };
        let _asked = self.prepare_comers(core::slice::from_ref(&comer)).await?;
        let Comer { device: Replacement { name, id, uuid }, .. } = comer;
        let record = MemberRecord { id: uuid, size, role: None, units: 0, state: MemberState::Spare };
        self.change_config(move |label| put(label, number, record)).await?;
        self.number_members();
        if let Err(why) = self.label_spare(number, Device { id, data_offset: DATA_START }, size).await {
            self.remove_spare(number).await?;
            return Err(why.into());
        }
        self.spares.devices.borrow_mut().push(SpareDevice { member: number, id, name });
        self.begin_sparing();
        Ok(())
    }

    pub(super) async fn label_spare(
        &self,
        number: u16,
        device: Device,
        size: u64,
    ) -> Result<(), VolumeError> {
        let _turn = self.record.turns.turn().await;
        let label = self.label.get();
        let places = [LABEL, second_label(size)].map(|at| ConfigPlace { member: number, at, place: 0 });
        self.write_config_to(device, &label, &places).await
    }

    /// A spare that is too small for all vdevs is none.
    ///
    /// # Errors
    /// [`MemberError::TooSmall`].
    pub(crate) fn check_spare(&self, name: &str, have: u64) -> Result<(), MemberError> {
        let vdevs = 0..self.label.get().vdevs.len();
        let mut all = vdevs.map(|vdev| self.check_size(vdev, name, have));
        let first = all.next().unwrap_or(Ok(()));
        if first.is_ok() || all.any(|fits| fits.is_ok()) { Ok(()) } else { first }
    }

    /// A spare is none any more, and carries nothing of the pool.
    pub(crate) async fn remove_spare(&self, member: u16) -> Result<(), MemberError> {
        self.set_state(member, MemberState::Gone).await?;
        self.forget_void_copies();
        let device = self.spares.device(member);
        self.spares.forget(member);
        if let Some(SpareDevice { id, name, .. }) = device
            && let Ok(_asked) = self.newcomer(&name, id)
        {
            // One that refuses this is no spare all the same: the config says so.
            let _cleared = self.clear_labels(member, id, self.size_of(id)).await;
        }
        Ok(())
    }

    /// A number is of a spare: of one that waits, or of a member's successor.
    pub(crate) fn is_spare(&self, member: u16) -> bool {
        self.label.get().members.get(usize::from(member)).is_some_and(MemberRecord::is_spare)
    }

    /// A number is of a spare that waits for any role.
    fn waits(&self, member: u16) -> bool {
        let label = self.label.get();
        label.members.get(usize::from(member)).is_some_and(|record| record.state == MemberState::Spare)
    }

    /// Spares take the roles of members that are lost, one behind the other, as long as one fits.
    pub(crate) fn begin_sparing(&self) {
        if !self.may_spare() || self.next_spare().is_none() || self.spares.is_busy.replace(true) {
            return;
        }
        let Some(core) = self.kept() else { return };
        drop(self.set.io.spawn(async move {
            while let Some((member, spare)) = core.next_spare() {
                core.spares.forget(spare.member);
                let uuid = core.label.get().members.get(usize::from(spare.member)).map(|record| record.id);
                let (name, id) = (spare.name.clone(), spare.id);
                let replaced =
                    core.replace(member, Replacement { name, id, uuid: uuid.unwrap_or_default() }).await;
                match replaced {
                    // A device that does not take it is no spare any more, until the pool is opened again.
                    Ok(()) | Err(MemberError::Volume(VolumeError::Member { .. })) => {}
                    // The member is being seen to, or the pool stops: that tells nothing of the spare.
                    Err(_) => {
                        core.spares.devices.borrow_mut().push(spare);
                        break;
                    }
                }
            }
            core.spares.is_busy.set(false);
        }));
    }

    fn may_spare(&self) -> bool {
        !self.read_only && !self.run.is_opening() && !self.run.is_stopping()
    }

    /// A member is lost, and no spare takes its role.
    pub(crate) fn lacks_a_spare(&self) -> bool {
        let may = self.may_spare() && !self.spares.is_busy.get();
        may && self.next_spare().is_none() && !self.unattended().is_empty()
    }

    /// Spares that it does not need now, since no member is lost.
    pub(crate) fn spares_to_give(&self) -> Vec<SpareDevice> {
        let may =
            self.check_changes().is_ok() && !self.spares.is_busy.get() && self.lost_members().is_empty();
        let waiting = self.spares.devices.borrow();
        let waits = |spare: &&SpareDevice| may && self.waits(spare.member);
        waiting.iter().filter(waits).cloned().collect()
    }

    /// Whether a device is large enough for a member that is lost.
    pub(crate) fn has_use_for(&self, device: MemberId) -> bool {
        let size = self.size_of(device);
        let fits = |member: &u16| self.check_size(self.role_of(*member).vdev, "", size).is_ok();
        self.unattended().iter().any(fits)
    }

    /// Members that are lost, and that no device is about to take the role of.
    fn unattended(&self) -> Vec<u16> {
        let changing = self.changing.borrow();
        self.lost_members().into_iter().filter(|member| !changing.contains(member)).collect()
    }

    /// A member that is lost, and a spare that fits.
    fn next_spare(&self) -> Option<(u16, SpareDevice)> {
        let waiting = self.spares.devices.borrow();
        let fits = |member: u16, spare: &SpareDevice| {
            let size = self.size_of(spare.id);
            self.check_size(self.role_of(member).vdev, &spare.name, size).is_ok()
        };
        let of = |member: u16| {
            let of = |spare: &&SpareDevice| self.waits(spare.member) && fits(member, spare);
            waiting.iter().find(of).map(|spare| (member, spare.clone()))
        };
        self.unattended().into_iter().find_map(of)
    }
}
