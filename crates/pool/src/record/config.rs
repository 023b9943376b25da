//! Changes of the config.
//!
//! A config rests in the first of a label's two places. A change goes to the second place of both labels of all members first. Once it is stable there
//! an uberblock names it, by generation and checksum, and from then on it counts; then it goes to the first place. So there is no moment at which
//! the config that counts stands in no place of a label, and a crash at any moment leaves the old one or the new one. A member that was
//! not there gets it when the pool is next opened for writing with it.

use brindle_format::pool::{CONFIG_BYTES, CONFIGS, LABEL, Label, MemberRecord, second_label};
use brindle_io::OpClass;
use brindle_members::set::Recording;
use brindle_members::turn::in_turn;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::opening::look::WrongLabel;

/// The place where a config rests, and that to which a change goes first.
const RESTS: u64 = CONFIGS[0];
const NEXT: u64 = CONFIGS[1];

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
        let mut next = Label::clone(&self.label.get());
        change(&mut next);
        next.generation += 1;
        let name = next.config_name().map_err(|_| VolumeError::NoSpace)?;
        self.write_configs(&next, NEXT, &self.all_labels(&next)).await?;
        let named = self.commit(move |uberblock| uberblock.config = name).await;
        // Uberblocks to come name it, whatever became of this one.
        self.label.set(next);
        named?;
        let label = self.label.get();
        match self.write_configs(&label, RESTS, &self.all_labels(&label)).await {
            // It counts where it stands; the next opening writes the others.
            Ok(()) | Err(VolumeError::Member { .. }) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Both labels of all members in use: the member, and the byte.
    fn all_labels(&self, label: &Label) -> Vec<(u16, u64)> {
        let of =
            |(member, record): (u16, &MemberRecord)| [(member, LABEL), (member, second_label(record.size))];
        (0..).zip(&label.members).filter(|(member, _)| self.is_in(*member)).flat_map(of).collect()
    }

    /// Writes the config to these labels, which do not have it: first labels, then second ones, so that a label of each member is whole at any
    /// moment.
    ///
    /// # Errors
    /// A member has no room for it, or the pool can't do without one that failed.
    pub(crate) async fn set_labels_right(&self, labels: &[WrongLabel]) -> Result<(), VolumeError> {
        let label = self.label.get();
        for first in [true, false] {
            let is_meant = |wrong: &&WrongLabel| {
                let is_there =
                    self.set.members.device(wrong.member).is_some_and(|device| device.id == wrong.id);
                is_there && self.is_in(wrong.member) && (wrong.at == LABEL) == first
            };
            let meant: Vec<(u16, u64)> =
                labels.iter().filter(is_meant).map(|wrong| (wrong.member, wrong.at)).collect();
            self.write_configs(&label, RESTS, &meant).await?;
        }
        Ok(())
    }

    /// Writes the config of each of these members to a place of its label, and waits until all are stable.
    async fn write_configs(
        &self,
        label: &Label,
        place: u64,
        labels: &[(u16, u64)],
    ) -> Result<(), VolumeError> {
        if labels.is_empty() {
            return Ok(());
        }
        let mut group = self.set.io.group_of(OpClass::Metadata);
        for &(member, at) in labels {
            let Some(device) = self.set.members.device(member) else { continue };
            let bytes = label.of_member(member).encode().map_err(|_| VolumeError::NoSpace)?;
            let buf = self.set.scratch.alloc(CONFIG_BYTES).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            group.write(device.id, at + place, &buf.all(), true);
        }
        let outcome = group.submit().await;
        match self.bear(&outcome)? {
            Some((role, error)) => Err(VolumeError::of_member(role, error)),
            None => Ok(()),
        }
    }
}
