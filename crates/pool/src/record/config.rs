//! Changes of the config.
//!
//! A label has two places for a config. A change goes to the place that does not hold the one that counts, label by label: mostly that is the second
//! one. Once it is stable on all members an uberblock names it, by generation and checksum, and from then on it counts. Then it goes to the first
//! place of labels that have it in the second alone: there it rests. So the config that a member's own youngest uberblock names stands in its
//! labels at any moment. A crash leaves the old one or the new one, on each member by itself.
//!
//! A write that members refuse leaves labels in different states. It is known of each which place counts, from the opening on.
//!
//! A member that was not there gets the config when the pool is next opened for writing with it, by the same rule. Before an uberblock of this
//! opening it goes to the place that the member's own youngest uberblock does not name. Behind that it goes to the other one.

use brindle_format::pool::{CONFIG_BYTES, CONFIGS, LABEL, Label, MemberRecord, second_label};
use brindle_io::{OpClass, OpError};
use brindle_members::set::Recording;
use brindle_members::turn::in_turn;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::opening::look::WrongLabel;
use crate::record::label::ConfigPlace;

/// Configs that are written at a time: a pool can have more members than the memory of a record holds configs.
const TOGETHER: usize = 32;

impl Core {
    /// Changes the config, in the turn of uberblocks. After an error the old one counts, unless the pool is broken.
    pub(crate) fn change_config(&self, change: impl FnOnce(&mut Label) + 'static) -> Recording {
        match self.me.upgrade() {
            Some(me) => Box::pin(in_turn(
                &self.set.io,
                me,
                |me| &me.record.turns,
                async move |core: &Self| core.commit_config(change).await,
            )),
            None => Box::pin(core::future::ready(Err(VolumeError::Stopping))),
        }
    }

    /// The caller has the turn.
    async fn commit_config(&self, change: impl FnOnce(&mut Label)) -> Result<(), VolumeError> {
        // An uberblock that finds no room then is not written again: it would not be known which config counts.
        if self.run.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        let mut next = Label::clone(&self.label.get());
        change(&mut next);
        next.generation += 1;
        let name = next.config_name().map_err(|_| VolumeError::NoSpace)?;
        let places = self.other_places(&next);
        self.write_configs(&next, &places).await?;
        let named = self.commit(move |uberblock| uberblock.config = name).await;
        // Uberblocks to come name it, whatever became of this one.
        self.label.set(next, &places);
        named?;
        self.let_configs_rest().await
    }

    /// Of both labels of all members in use the place that does not have the config that counts for sure.
    pub(super) fn other_places(&self, label: &Label) -> Vec<ConfigPlace> {
        let other = |(member, at)| ConfigPlace { member, at, place: 1 - self.label.place_of(member, at) };
        self.all_labels(label).into_iter().map(other).collect()
    }

    /// Both labels of all members in use: the member, and the byte.
    fn all_labels(&self, label: &Label) -> Vec<(u16, u64)> {
        let of =
            |(member, record): (u16, &MemberRecord)| [(member, LABEL), (member, second_label(record.size))];
        (0..).zip(&label.members).filter(|(member, _)| self.is_in(*member)).flat_map(of).collect()
    }

    /// Writes the config that counts to the first place of labels that have it in the second alone. An uberblock of all members in use names it. The
    /// caller has the turn.
    ///
    /// # Errors
    /// The pool can't do without a member that failed. One that has no room for it has it where it stands, and changes heed that.
    pub(crate) async fn let_configs_rest(&self) -> Result<(), VolumeError> {
        let label = self.label.get();
        let in_second = |&(member, at): &(u16, u64)| self.label.place_of(member, at) == 1;
        let first = |(member, at)| ConfigPlace { member, at, place: 0 };
        let places: Vec<ConfigPlace> =
            self.all_labels(&label).into_iter().filter(in_second).map(first).collect();
        match self.write_configs(&label, &places).await {
            Ok(()) => {
                places.iter().for_each(|place| self.label.stands(place));
                Ok(())
            }
            Err(VolumeError::Member { error: OpError::NoSpace, .. }) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Gives the config to labels that have it in no place: first labels, then second ones. No uberblock of this opening stands yet.
    ///
    /// # Errors
    /// A member has no room for it, or the pool can't do without one that failed.
    pub(crate) async fn give_config(&self, labels: &[WrongLabel]) -> Result<(), VolumeError> {
        let label = self.label.get();
        for first in [true, false] {
            let is_meant = |wrong: &&WrongLabel| {
                let is_there =
                    self.set.members.device(wrong.member).is_some_and(|device| device.id == wrong.id);
                is_there && !wrong.has_it && (wrong.at == LABEL) == first
            };
            let place =
                |wrong: &WrongLabel| ConfigPlace { member: wrong.member, at: wrong.at, place: wrong.place };
            let meant: Vec<ConfigPlace> = labels.iter().filter(is_meant).map(place).collect();
            self.write_configs(&label, &meant).await?;
        }
        Ok(())
    }

    /// Writes the config of each of these members that are in use to places of its labels, and waits until all are stable.
    pub(super) async fn write_configs(
        &self,
        label: &Label,
        places: &[ConfigPlace],
    ) -> Result<(), VolumeError> {
        for some in places.chunks(TOGETHER) {
            let mut group = self.set.io.group_of(OpClass::Metadata);
            for &ConfigPlace { member, at, place } in some.iter().filter(|one| self.is_in(one.member)) {
                let Some(device) = self.set.members.device(member) else { continue };
                let bytes = label.of_member(member).encode().map_err(|_| VolumeError::NoSpace)?;
                let buf = self.set.scratch.alloc(CONFIG_BYTES).await;
                buf.bytes_mut().copy_from_slice(&bytes);
                group.write(device.id, at + CONFIGS[place], &buf.all(), true);
            }
            if group.is_empty() {
                continue;
            }
            let outcome = group.submit().await;
            if let Some((role, error)) = self.bear(&outcome)? {
                return Err(VolumeError::of_member(role, error));
            }
        }
        Ok(())
    }
}
