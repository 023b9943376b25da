//! A member comes into use: one that was out, or another in its place.
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
    /// The change of the config that goes with it.
    pub(crate) change: Option<ChangeOfLabel>,
}

impl Core {
    /// Puts a member into use, in the turn of uberblocks.
    ///
    /// # Errors
    /// It is out of use as before, or does not take its labels; or the pool is broken.
    pub(crate) fn join(&self, joining: Joining) -> Recording {
        match self.me.upgrade() {
            Some(me) => Box::pin(in_turn(
                &self.set.io,
                me,
                |me| &me.record.turns,
                async move |core: &Self| core.join_in_turn(joining).await,
            )),
            None => Box::pin(core::future::ready(Err(VolumeError::Stopping))),
        }
    }

    async fn join_in_turn(&self, joining: Joining) -> Result<(), VolumeError> {
        let Joining { member, device, places, change } = joining;
        if self.run.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        if self.is_in(member) {
            return Err(VolumeError::Again);
        }
        let (mut next, changes) = (Label::clone(&self.label.get()), change.is_some());
        if let Some(change) = change {
            change(&mut next);
            next.generation += 1;
        }
        let name = next.config_name().map_err(|_| VolumeError::NoSpace)?;
        let size = next.members.get(usize::from(member)).map_or(0, |record| record.size);
        let labels = [LABEL, second_label(size)];
        let own = [0, 1].map(|n| ConfigPlace { member, at: labels[n], place: places[n] });
        let mut all = own.to_vec();
        if changes {
            let others = self.other_places(&next);
            self.write_configs(&next, &others).await?;
            all.extend(others);
        }
        self.write_config_to(device, &next, &own).await?;
        // From here on it gets what is written, and answers for all but what it lacks.
        self.label.set(next, &all);
        self.set.members.set_device(member, device, RoleState::InSync);
        self.are_present();
        let role = self.role_of(member);
        self.space.borrow_mut().joins(role.vdev, role.index);
        let named = self.commit(move |uberblock| {
            uberblock.config = name;
            uberblock.out[usize::from(member >> 3)] &= !(1 << (member & 7));
        });
        named.await?;
        self.let_configs_rest().await?;
        match self.is_in(member) {
            true => Ok(()),
            false => Err(VolumeError::of_member(member, OpError::Gone)),
        }
    }

    /// Writes its config to a device that is no member in use yet.
    async fn write_config_to(
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
