//! Members come into use: one that was out, another in its place, or more than there were.
//!
//! Rules, for a crash at any moment. All that it may lack has its bit of `missing` in a table that is on record, before an uberblock says that
//! the member is in use. Its labels have the config before any uberblock names that. One uberblock then names the config, if that changes, and
//! clears the member's bit of `out`: so a cut leaves the member out of use, or in use with all its bits. The config goes to the places that the
//! member's own youngest uberblock does not need.

use brindle_format::pool::{CONFIG_BYTES, CONFIGS, LABEL, Label, second_label};
use brindle_io::{OpClass, OpError};
use brindle_members::members::{Device, RoleState};
use brindle_members::set::Recording;
use brindle_members::turn::in_turn;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::opening::look::LABEL_PATIENCE;
use crate::record::label::ConfigPlace;

/// A change of the config.
pub(crate) type ChangeOfLabel = Box<dyn FnOnce(&mut Label)>;

/// A member that is to come into use.
pub(crate) struct Joining {
    /// Its number.
    pub(crate) member: u16,
    pub(crate) device: Device,
    /// The place that its config goes to, of the first label and of the second.
    pub(crate) places: [usize; 2],
}

impl Joining {
    /// The places of its labels that its config goes to.
    fn labels(&self, label: &Label) -> [ConfigPlace; 2] {
        let size = label.members.get(usize::from(self.member)).map_or(0, |record| record.size);
        let at = [LABEL, second_label(size)];
        [0, 1].map(|n| ConfigPlace { member: self.member, at: at[n], place: self.places[n] })
    }
}

impl Core {
    /// Puts members into use, in the turn of uberblocks, with a change of the config if one goes with that.
    ///
    /// # Errors
    /// They are out of use as before, or one does not take its labels; or the pool is broken.
    pub(crate) fn join(&self, members: Vec<Joining>, change: Option<ChangeOfLabel>) -> Recording {
        match self.me.upgrade() {
            Some(me) => Box::pin(in_turn(
                &self.set.io,
                me,
                |me| &me.record.turns,
                async move |core: &Self| core.join_in_turn(members, change).await,
            )),
            None => Box::pin(core::future::ready(Err(VolumeError::Stopping))),
        }
    }

    async fn join_in_turn(
        &self,
        members: Vec<Joining>,
        change: Option<ChangeOfLabel>,
    ) -> Result<(), VolumeError> {
        if self.run.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        if members.iter().any(|joining| self.is_in(joining.member)) {
            return Err(VolumeError::Again);
        }
        let (mut next, changes) = (Label::clone(&self.label.get()), change.is_some());
        if let Some(change) = change {
            change(&mut next);
            next.generation += 1;
        }
        let name = next.config_name().map_err(|_| VolumeError::NoSpace)?;
        let mut all = Vec::new();
        if changes {
            all = self.other_places(&next);
            self.write_configs(&next, &all).await?;
        }
        for joining in &members {
            let own = joining.labels(&next);
            self.write_config_to(joining.device, &next, &own).await?;
            all.extend(own);
        }
        // From here on they get what is written, and answer for all but what they lack.
        let numbers: Vec<u16> = members.iter().map(|joining| joining.member).collect();
        self.begin_use(&members, next, &all);
        let joined = numbers.clone();
        let named = self.commit(move |uberblock| {
            uberblock.config = name;
            for member in joined {
                uberblock.out[usize::from(member >> 3)] &= !(1 << (member & 7));
            }
        });
        named.await?;
        self.let_configs_rest().await?;
        match numbers.into_iter().find(|&member| !self.is_in(member)) {
            None => Ok(()),
            Some(member) => Err(VolumeError::of_member(member, OpError::Gone)),
        }
    }

    fn begin_use(&self, joining: &[Joining], label: Label, places: &[ConfigPlace]) {
        let members = &self.set.members;
        self.space.borrow_mut().grown(&label);
        self.set.set_redundant(label.vdevs.iter().any(|vdev| vdev.parity > 0));
        self.label.set(label, places);
        self.number_members();
        for Joining { member, device, .. } in joining {
            members.set_device(*member, *device, RoleState::InSync);
        }
        self.are_present();
        for role in joining.iter().map(|joining| self.role_of(joining.member)) {
            self.space.borrow_mut().joins(role.vdev, role.index);
        }
    }

    /// There are as many numbers as the config has.
    pub(crate) fn number_members(&self) {
        let members = &self.set.members;
        let more = self.label.get().members.len().saturating_sub(members.len().into());
        if more > 0 {
            let _new = members.grow((0..more).map(|_| None));
        }
    }

    /// Writes its config to a device that is no member in use yet.
    pub(crate) async fn write_config_to(
        &self,
        device: Device,
        label: &Label,
        places: &[ConfigPlace],
    ) -> Result<(), VolumeError> {
        let Some(member) = places.first().map(|place| place.member) else { return Ok(()) };
        let bytes = label.of_member(member).encode().map_err(|_| VolumeError::NoSpace)?;
        let buf = self.set.scratch.alloc(CONFIG_BYTES).await;
        buf.bytes_mut().copy_from_slice(&bytes);
        // Both at once: others wait for the turn. The device's own uberblock needs neither place.
        let mut group = self.set.io.group_of(OpClass::Metadata);
        for place in places {
            group.write(device.id, place.at + CONFIGS[place.place], &buf.all(), true);
        }
        let written = group.submit_by(self.set.io.now().after(LABEL_PATIENCE)).await.ok();
        written.map_err(|error| VolumeError::of_member(member, error))
    }

    /// Other members are in use than before: segments that are open are written to no more.
    pub(crate) fn are_present(&self) {
        self.checkpoints.reshape();
        for (vdev, present) in self.present().into_iter().enumerate() {
            self.space.borrow_mut().set_present(vdev, present, true);
        }
    }
}
